#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "engine/parallel/executor.hpp"
#include "engine/runtime/allocator.hpp"

namespace heed {
namespace {

/// Works in an arena of its own: the caller's thread joins it for the length of a run, and
/// the process's own arenas and limits stay as they are.
class TbbExecutor final : public Executor {
 public:
  explicit TbbExecutor(std::uint32_t threads) : arena_(static_cast<int>(threads)) {}
  void run(std::uint32_t workers, Body body, void* argument) const override {
    arena_.execute([&] {
      tbb::parallel_for(
          std::uint32_t{0}, workers, [&](std::uint32_t worker) { body(argument, worker); },
          tbb::simple_partitioner{});
    });
  }

 private:
  mutable tbb::task_arena arena_;  // execute() is thread-safe but not const
};

}  // namespace

const ExecutorKind kTbbExecutor = {
    "tbb",
    [](const heed_allocator& allocator, std::uint32_t threads) -> Executor* {
      return make<TbbExecutor>(allocator, threads);
    },
    [](const heed_allocator& allocator, Executor* executor) {
      destroy(allocator, static_cast<TbbExecutor*>(executor));
    }};

}  // namespace heed
