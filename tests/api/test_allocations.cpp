// A run allocates nothing: this program puts its own malloc before the C library's and counts.
// It needs glibc, which exports its allocator under second names.
#include "tests/api/problems.hpp"
#include "tests/faults/interposed.hpp"

using namespace api_test;
using heed_test::memory_requests;

namespace {

/// After a first run, for what is not heed's. Executors that are threads of others may allocate
/// inside those; heed's part is the same.
void check_runs(const Kind& kind, const heed_context_options& options) {
  CAPTURE(kind.name, options.isa);
  const std::uint64_t at_first = memory_requests();
  const Context context = make_context(&options);
  CHECK(memory_requests() > at_first);  // this program does count
  const std::unique_ptr<Problem> problem = kind.problem();
  Object plan;
  REQUIRE(problem->prepare_and_create(context, plan));
  const Workspace workspace(problem->describe(plan).workspace_bytes);
  bool ran = true;
  const auto run = [&] {
    ran = problem->run(plan, workspace.get(), workspace.bytes()) == HEED_STATUS_OK && ran;
  };
  run();
  const std::uint64_t before = memory_requests();
  for (int i = 0; i < 3; ++i) run();
  const std::uint64_t after = memory_requests();
  CHECK(ran);
  CHECK(after == before);
}

}  // namespace

TEST_CASE("a run allocates nothing") {
  const heed_executor executor = in_order(3);
  for (const std::string& isa : usable_isas())
    for (const Kind& kind : kinds()) {
      heed_context_options options = serial_options();
      options.isa = isa.c_str();
      check_runs(kind, options);
      options.executor_name = nullptr;
      options.executor = &executor;
      check_runs(kind, options);
    }
}
