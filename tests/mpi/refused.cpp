#include "tests/mpi/refused.hpp"

#include "tests/support/allocator.hpp"
#include "tests/support/executors.hpp"

namespace heed_test {
namespace {

void check_told_of_last_rank() {
  const std::string message = heed_mpi_last_error();
  CHECK(message.find("rank " + std::to_string(ranks() - 1) + ": ") == 0);
  CHECK(same_everywhere(message));
}

}  // namespace

bool untouched(const Tensor& tensor) {
  const Numbers numbers = tensor.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers.written(i)) return false;
  return true;
}

void check_out_of_memory(const Attempt& call) {
  bool enough = false;
  for (std::size_t blocks = 1; blocks < 100 && !enough; ++blocks) {
    CountingAllocator memory(rank() == ranks() - 1 ? blocks : CountingAllocator::kNever);
    const heed_context_options options = memory.options();
    heed_context* made = nullptr;
    const heed_status context_status = heed_context_create(&options, &made);
    const Context own(made);
    // Where even the context finds no memory, the others are told of a context that is NULL.
    const heed_status status = call(own.get());
    enough = status == HEED_STATUS_OK;
    if (enough || status == HEED_STATUS_INVALID_ARGUMENT) continue;
    CHECK(context_status == HEED_STATUS_OK);
    CHECK(status == HEED_STATUS_OUT_OF_MEMORY);
    check_told_of_last_rank();
  }
  CHECK(enough);
}

void check_failing_executor(const Attempt& call) {
  const auto fail = [](void* user, std::uint32_t count, ExecutorBody body, void* argument) {
    int& failures = *static_cast<int*>(user);
    if (failures > 0) {
      --failures;  // and runs nothing
      return;
    }
    for (std::uint32_t i = 0; i < count; ++i) body(argument, i);
  };
  int failures = rank() == ranks() - 1 ? 1 : 0;
  const heed_executor executor = executor_of(2, fail, &failures);
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = &executor;
  heed_context* made = nullptr;
  const heed_status context_status = heed_context_create(&options, &made);
  CHECK(context_status == HEED_STATUS_OK);
  const Context context(made);
  CHECK(call(context.get()) == HEED_STATUS_EXECUTOR_FAILED);
  check_told_of_last_rank();
}

}  // namespace heed_test
