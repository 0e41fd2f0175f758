#include "engine/parallel/executor.hpp"

#include <cstring>

#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// The preferred kind comes last.
constexpr const ExecutorKind* kKinds[] = {
    &kSerialExecutor,
    &kThreadsExecutor,
#if defined(HEED_WITH_OPENMP)
    &kOpenMpExecutor,
#endif
#if defined(HEED_WITH_TBB)
    &kTbbExecutor,
#endif
};

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
    destroy_executor<SerialExecutor>};

std::size_t executor_count() { return sizeof kKinds / sizeof kKinds[0]; }
const ExecutorKind& executor_at(std::size_t index) { return *kKinds[index]; }

const ExecutorKind& choose_executor(const char* name, const char* source) {
  if (name == nullptr) return *kKinds[executor_count() - 1];
  Text choices;
  for (const ExecutorKind* kind : kKinds) {
    if (std::strcmp(name, kind->name) == 0) return *kind;
    choices.add_item(kind->name);
  }
  refuse("%s is \"%.40s\"; this build has: %s", source, name, choices.c_str());
}

}  // namespace heed
