#include <omp.h>

#include "engine/parallel/executor.hpp"
#include "engine/runtime/allocator.hpp"

namespace heed {
namespace {

class OpenMpExecutor final : public Executor {
 public:
  void run(std::uint32_t workers, Body body, void* argument) const override {
    // The runtime may give fewer threads than asked (nested regions, limits): the indices are
    // shared out among those that came.
#pragma omp parallel num_threads(static_cast <int>(workers))
    {
      const auto team = static_cast<std::uint32_t>(omp_get_num_threads());
      for (auto worker = static_cast<std::uint32_t>(omp_get_thread_num()); worker < workers;
           worker += team)
        body(argument, worker);
    }
  }
};

}  // namespace

const ExecutorKind kOpenMpExecutor = {
    "openmp",
    [](const heed_allocator& allocator, std::uint32_t) -> Executor* {
      return make<OpenMpExecutor>(allocator);
    },
    [](const heed_allocator& allocator, Executor* executor) {
      destroy(allocator, static_cast<OpenMpExecutor*>(executor));
    }};

}  // namespace heed
