// The same bits whoever computes them, through the library that users link: any executor, any
// number of threads, any number of times.
#include <thread>

#include "tests/api/problems.hpp"
#include "tests/support/size.hpp"

using namespace api_test;

namespace {

/// Threads of the caller's own, started for each run.
heed_executor own_threads(std::uint32_t threads) {
  heed_executor executor = HEED_EXECUTOR_INIT;
  executor.threads = threads;
  executor.run = [](void*, std::uint32_t count, void (*body)(void*, std::uint32_t),
                    void* argument) {
    std::vector<std::thread> others;
    for (std::uint32_t i = 0; i < count; ++i) others.emplace_back(body, argument, i);
    for (std::thread& other : others) other.join();
  };
  return executor;
}

/// Runs on the context, also through the one call, give `want`.
void check_same(const Context& context, const Kind& kind, const std::vector<unsigned char>& want) {
  const heed_context_info info = describe(context);
  CAPTURE(info.executor, info.threads, info.isa, kind.name);
  const std::unique_ptr<Problem> problem = kind.problem();
  Object plan;
  REQUIRE(problem->prepare_and_create(context, plan));
  for (int repeat = heed_test::brief() ? 2 : 0; repeat < 3; ++repeat)
    CHECK(problem->gives(plan, want));
  problem->forget_outputs();
  CHECK(problem->call(context) == HEED_STATUS_OK);
  CHECK(problem->outputs() == want);
}

}  // namespace

TEST_CASE("large problems of every operation are shared among threads", "[determinism]") {
  const Environment quiet;
  const Context context = context_with(backwards(8));
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const std::unique_ptr<Problem> problem = kind.problem();
    Object plan;
    REQUIRE(problem->prepare_and_create(context, plan));
    const std::uint32_t threads = problem->describe(plan).threads;
    CHECK((kind.large ? threads >= 4 : threads <= 8));
  }
}

TEST_CASE("every executor, number of threads and order of bodies gives the same bits",
          "[determinism][threads]") {
  const Environment quiet;
  for (const Kind& kind : kinds()) {
    const std::vector<unsigned char> want = expected(kind);
    for (const std::uint32_t threads : {1U, 2U, 3U, 8U}) {
      if (heed_test::brief() && threads % 2 == 0) continue;
      for (const std::string& name : executors())
        check_same(make_context(nullptr, name.c_str(), threads), kind, want);
      check_same(context_with(own_threads(threads)), kind, want);
      check_same(context_with(backwards(threads)), kind, want);
    }
  }
}
