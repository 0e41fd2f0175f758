// A caller's own executor: what it is asked to do, and what becomes of one that does less. That it
// may use threads, tests/operations/test_threads.cpp has.
#include "tests/api/problems.hpp"

using namespace api_test;

namespace {

using Body = heed_test::ExecutorBody;

/// A run through an executor that `run` implements, with `threads` threads. (What plans are made
/// of is made without it.)
struct Attempt {
  Attempt(const Kind& kind, decltype(heed_executor::run) run, void* user, std::uint32_t threads)
      : want(expected(kind)), problem(kind.problem()) {
    Object plan;
    REQUIRE(problem->prepare(serial()) == HEED_STATUS_OK);
    REQUIRE(problem->create(context_with(executor_of(threads, run, user)), plan) == HEED_STATUS_OK);
    CHECK(problem->describe(plan).threads == threads);
    status = problem->run(plan);
    message = heed_last_error();
  }
  bool complete() const { return status == HEED_STATUS_OK && problem->outputs() == want; }
  bool failed() const { return status == HEED_STATUS_EXECUTOR_FAILED && problem->untouched(); }

  std::vector<unsigned char> want;
  std::unique_ptr<Form> problem;
  heed_status status = HEED_STATUS_INTERNAL;
  std::string message;
};

}  // namespace

TEST_CASE("a caller's executor is not called for a problem too small to share", "[executor]") {
  const Environment quiet;
  std::uint32_t calls = 0;
  const auto count = [](void* user, std::uint32_t, Body, void*) {
    ++*static_cast<std::uint32_t*>(user);
  };
  const Context context = context_with(executor_of(4, count, &calls));
  CHECK(describe(make_plan(context, small_desc())).threads == 1);
  CHECK(same_bits(run(context), run(serial())));
  CHECK(calls == 0);
}

TEST_CASE("an executor that runs nothing has failed, and the one call gives its workspace back",
          "[executor]") {
  const Environment quiet;
  CountingAllocator memory;
  const heed_executor executor = executor_of(4, [](void*, std::uint32_t, Body, void*) {});
  heed_context_options options = memory.options();
  options.executor_name = nullptr;
  options.executor = &executor;
  const Context context = make_context(&options);
  const std::size_t live = memory.live();
  const std::string words = "the executor \"caller\" ran 0 of ";
  const auto check_call = [&](const Kind& kind) {
    CAPTURE(kind.name);
    const std::unique_ptr<Form> problem = kind.problem();
    REQUIRE(problem->prepare(serial()) == HEED_STATUS_OK);
    check_refusal(problem->call(context), HEED_STATUS_EXECUTOR_FAILED, words);
    CHECK(problem->untouched());
    CHECK(memory.live() == live);
  };
  for (const Kind& kind : large_kinds()) {
    const Attempt attempt(kind, executor.run, nullptr, 4);
    CAPTURE(kind.name, attempt.message);
    CHECK(attempt.failed());
    CHECK(says(attempt.message, words));
    check_call(kind);
  }
  for (const Kind& kind : unplanned_kinds())
    if (kind.large) check_call(kind);
}

TEST_CASE("an executor that drops indices: complete, or reported", "[executor]") {
  const Environment quiet;
  // Work is claimed by whoever is free, so that one body may well do it all.
  const auto one = [](void* user, std::uint32_t, Body body, void* argument) {
    body(argument, *static_cast<std::uint32_t*>(user));
  };
  for (const Kind& kind : large_kinds())
    for (std::uint32_t only = 0; only < 4; ++only) {
      CAPTURE(kind.name, only);
      const Attempt attempt(kind, one, &only, 4);
      CHECK((attempt.complete() || attempt.status == HEED_STATUS_EXECUTOR_FAILED));
    }
}

TEST_CASE("an executor that counts past the end, or twice, harms nothing", "[executor]") {
  const Environment quiet;
  const auto too_many = [](void* user, std::uint32_t count, Body body, void* argument) {
    auto& most = *static_cast<std::uint32_t*>(user);
    most = std::max(most, count);
    for (const std::uint32_t beyond : {count, count + 7, 0xffffffffU}) body(argument, beyond);
    for (std::uint32_t i = 0; i < 2 * count; ++i) body(argument, i / 2);
  };
  const auto only_beyond = [](void*, std::uint32_t count, Body body, void* argument) {
    body(argument, count);
  };
  for (const Kind& kind : large_kinds()) {
    CAPTURE(kind.name);
    std::uint32_t most_asked_for = 0;
    CHECK(Attempt(kind, too_many, &most_asked_for, 4).complete());
    CHECK(most_asked_for == 4);
    CHECK(Attempt(kind, only_beyond, nullptr, 4).failed());
  }
}

TEST_CASE("an executor may use heed in its own threads", "[executor][threads]") {
  const Environment quiet;
  // A context inside another context's run: nothing is held that could deadlock.
  const auto nested = [](void*, std::uint32_t count, Body body, void* argument) {
    for (std::uint32_t i = 0; i < count; ++i) {
      body(argument, i);
      (void)run(make_context(nullptr, {executors().back().c_str(), 2}));
    }
  };
  for (const Kind& kind : large_kinds()) {
    CAPTURE(kind.name);
    CHECK(Attempt(kind, nested, nullptr, 2).complete());
  }
}
