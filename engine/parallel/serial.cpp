#include "engine/parallel/executor.hpp"
#include "engine/runtime/allocator.hpp"

namespace heed {
namespace {

class SerialExecutor final : public Executor {
 public:
  void run(std::uint32_t, Body body, void* argument) const override { body(argument, 0); }
};

}  // namespace

const ExecutorKind kSerialExecutor = {
    "serial",
    [](const heed_allocator& allocator, std::uint32_t) -> Executor* {
      return make<SerialExecutor>(allocator);
    },
    [](const heed_allocator& allocator, Executor* executor) {
      destroy(allocator, static_cast<SerialExecutor*>(executor));
    }};

}  // namespace heed
