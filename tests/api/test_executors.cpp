// A caller's own executor: what it is asked to do, and what becomes of one that does less.
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "tests/api/support.hpp"

using namespace api_test;

namespace {

using Body = void (*)(void* argument, std::uint32_t index);

Shape shape_to_share() {
  Shape shape;
  shape.batch = 3;
  shape.query_heads = shape.key_heads = 4;
  shape.query_length = shape.key_length = 200;
  shape.features = shape.value_features = 32;
  return shape;
}

/// A run through an executor that `run` implements, with `threads` threads.
struct Attempt {
  Attempt(decltype(heed_executor::run) run, void* user, std::uint32_t threads) {
    heed_executor executor = HEED_EXECUTOR_INIT;
    executor.threads = threads;
    executor.user = user;
    executor.run = run;
    heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
    options.executor = &executor;
    const Context context = make_context(&options);
    const Plan plan = make_plan(context, desc_of(shape));
    workers = describe(plan).threads;
    const Workspace workspace(describe(plan).workspace_bytes);
    const heed_attention_args args = tensors.args();
    forget_last_error();
    status = heed_attention_plan_run(plan.get(), &args, workspace.get(), workspace.bytes());
    message = heed_last_error();
  }
  bool complete() const {
    return status == HEED_STATUS_OK &&
           same_bits(tensors.out, run(make_context(nullptr, "serial", 1), shape, Tensors(shape)));
  }

  Shape shape = shape_to_share();
  Tensors tensors{shape};
  std::uint32_t workers = 0;
  heed_status status = HEED_STATUS_INTERNAL;
  std::string message;
};

struct Seen {
  std::mutex mutex;
  std::multiset<std::uint32_t> indices;
  std::set<std::thread::id> threads;
  std::uint32_t counts = 0;
};

}  // namespace

TEST_CASE("a caller's threads run every index", "[executor][threads]") {
  const Environment quiet;
  Seen seen;
  const auto on_threads = [](void* user, std::uint32_t count, Body body, void* argument) {
    Seen& all = *static_cast<Seen*>(user);
    all.counts += count;
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < count; ++i)
      threads.emplace_back([&all, body, argument, i] {
        body(argument, i);
        const std::lock_guard<std::mutex> lock(all.mutex);
        all.indices.insert(i);
        all.threads.insert(std::this_thread::get_id());
      });
    for (std::thread& thread : threads) thread.join();
  };
  const Attempt attempt(on_threads, &seen, 4);
  CHECK(attempt.complete());
  CHECK(attempt.workers == 4);
  CHECK(seen.counts == 4);
  CHECK(seen.indices == std::multiset<std::uint32_t>{0, 1, 2, 3});
  CHECK(seen.threads.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("a caller's executor is not called for a problem too small to share", "[executor]") {
  const Environment quiet;
  int calls = 0;
  heed_executor executor = HEED_EXECUTOR_INIT;
  executor.threads = 4;
  executor.user = &calls;
  executor.run = [](void* user, std::uint32_t, Body, void*) { ++*static_cast<int*>(user); };
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = &executor;
  const Context context = make_context(&options);
  const std::vector<float> out = run(context, Shape{}, Tensors{Shape{}});
  CHECK(same_bits(out, run(make_context(nullptr, "serial", 1), Shape{}, Tensors{Shape{}})));
  CHECK(calls == 0);
}

TEST_CASE("an executor that runs nothing has failed", "[executor]") {
  const Environment quiet;
  const Attempt attempt([](void*, std::uint32_t, Body, void*) {}, nullptr, 4);
  CHECK(attempt.status == HEED_STATUS_EXECUTOR_FAILED);
  CHECK(attempt.message.find("\"caller\"") != std::string::npos);
  CHECK(attempt.message.find("ran 0 of") != std::string::npos);
  CHECK(attempt.tensors.out_untouched());
}

TEST_CASE("the one call reports an executor that runs nothing, and gives its workspace back",
          "[executor]") {
  const Environment quiet;
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  heed_executor executor = HEED_EXECUTOR_INIT;
  executor.threads = 4;
  executor.run = [](void*, std::uint32_t, Body, void*) {};
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = &executor;
  options.allocator = &allocator;
  const Context context = make_context(&options);
  const std::size_t live = memory.live();
  const heed_attention_desc desc = desc_of(shape_to_share());
  Tensors tensors(shape_to_share());
  const heed_attention_args args = tensors.args();
  CHECK(heed_attention(context.get(), &desc, &args) == HEED_STATUS_EXECUTOR_FAILED);
  CHECK(tensors.out_untouched());
  CHECK(memory.live() == live);
}

TEST_CASE("an executor that drops indices: complete, or reported", "[executor]") {
  const Environment quiet;
  // Work is claimed by whoever is free, so that one body may well do it all.
  for (std::uint32_t only = 0; only < 4; ++only) {
    CAPTURE(only);
    const auto one = [](void* user, std::uint32_t, Body body, void* argument) {
      body(argument, *static_cast<std::uint32_t*>(user));
    };
    const Attempt attempt(one, &only, 4);
    CHECK((attempt.complete() || attempt.status == HEED_STATUS_EXECUTOR_FAILED));
  }
}

TEST_CASE("an executor that counts past the end harms nothing", "[executor]") {
  const Environment quiet;
  const auto too_many = [](void*, std::uint32_t count, Body body, void* argument) {
    for (const std::uint32_t beyond : {count, count + 7, 0xffffffffU}) body(argument, beyond);
    for (std::uint32_t i = 0; i < count; ++i) body(argument, i);
  };
  CHECK(Attempt(too_many, nullptr, 4).complete());
  const auto only_beyond = [](void*, std::uint32_t count, Body body, void* argument) {
    body(argument, count);
  };
  const Attempt failed(only_beyond, nullptr, 4);
  CHECK(failed.status == HEED_STATUS_EXECUTOR_FAILED);
  CHECK(failed.tensors.out_untouched());
}

TEST_CASE("an executor that runs an index twice, one after the other, harms nothing",
          "[executor]") {
  const Environment quiet;
  const auto twice = [](void*, std::uint32_t count, Body body, void* argument) {
    for (std::uint32_t i = 0; i < 2 * count; ++i) body(argument, i / 2);
  };
  CHECK(Attempt(twice, nullptr, 4).complete());
}

TEST_CASE("an executor may use heed in its own threads", "[executor][threads]") {
  const Environment quiet;
  // A context inside another context's run: nothing is held that could deadlock.
  const auto nested = [](void*, std::uint32_t count, Body body, void* argument) {
    for (std::uint32_t i = 0; i < count; ++i) {
      body(argument, i);
      run(make_context(nullptr, executors().back().c_str(), 2), Shape{}, Tensors{Shape{}});
    }
  };
  CHECK(Attempt(nested, nullptr, 2).complete());
}
