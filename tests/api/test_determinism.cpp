// The same bits whoever computes them: any executor, any number of threads, any tiles, any
// batch around them, any number of times.
#include <algorithm>
#include <thread>

#include "tests/api/problems.hpp"
#include "tests/support/size.hpp"

using namespace api_test;

namespace {

Kind dense(const char* name, const Shape& shape) {
  const Change change = [=](Form& form) {
    form.desc = desc_of(shape);
    const heed_attention_args given = form.args;
    form.args = HEED_ATTENTION_ARGS_INIT;
    form.args.query = given.query;
    form.args.key = given.key;
    form.args.value = given.value;
    form.args.out = given.out;
  };
  return {name, [=](MaybeFence fence) { return problem_of<Form>(change, fence); }};
}

constexpr Shape kHeads = {2, 3, 3, 130, 170, 32, 32};
constexpr Shape kCausal = {1, 8, 2, 150, 210, 32, 24, HEED_CAUSAL_BOTTOM_RIGHT};
constexpr Shape kOneKeyHead = {2, 7, 1, 61, 99, 40, 33, HEED_CAUSAL_TOP_LEFT};
constexpr Shape kMaskedRows = {2, 2, 2, 140, 90, 32, 32, HEED_CAUSAL_OFFSET, -30};
constexpr Shape kManyHeads = {40, 16, 16, 4, 9, 8, 8};
constexpr Shape kDecoding = {3, 8, 2, 1, 1500, 64, 64, HEED_CAUSAL_BOTTOM_RIGHT};

std::vector<Kind> cases() {
  std::vector<Kind> all = kinds();
  all.push_back(dense("several heads", kHeads));
  all.push_back(dense("grouped causal", kCausal));
  all.push_back(dense("one key head", kOneKeyHead));
  all.push_back(dense("masked rows", kMaskedRows));
  all.push_back(dense("many tiny heads", kManyHeads));
  all.push_back(dense("decoding", kDecoding));
  all.push_back(dense("one row of many heads", {1, 71, 1, 1, 700, 64, 64}));
  all.push_back(dense("few rows", {1, 1, 1, 7, 700, 16, 80}));
  all.push_back(dense("wide values", {1, 1, 1, 5, 400, 40, 256}));
  all.push_back(dense("narrow", {1, 1, 1, 3, 700, 8, 72, HEED_CAUSAL_BOTTOM_RIGHT}));
  all.push_back(dense("one big head", {1, 1, 1, 700, 900, 64, 64}));
  return all;
}

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

/// Item b of a tensor's batch.
std::vector<float> item(const std::vector<float>& tensor, std::int64_t b, std::int64_t batch) {
  const auto size = static_cast<std::ptrdiff_t>(tensor.size()) / batch;
  return {tensor.begin() + b * size, tensor.begin() + (b + 1) * size};
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

TEST_CASE("every executor and number of threads gives the same bits", "[determinism][threads]") {
  const Environment quiet;
  for (const Kind& kind : cases()) {
    const std::vector<unsigned char> want = expected(kind);
    for (const std::uint32_t threads : {1U, 2U, 3U, 8U}) {
      if (heed_test::brief() && threads % 2 == 0) continue;
      for (const std::string& name : executors())
        check_same(make_context(nullptr, name.c_str(), threads), kind, want);
      check_same(context_with(own_threads(threads)), kind, want);
    }
  }
}

TEST_CASE("the order in which bodies run changes no bit", "[determinism]") {
  const Environment quiet;
  for (const Kind& kind : cases()) {
    const std::vector<unsigned char> want = expected(kind);
    check_same(make_context(nullptr, "serial", 8), kind, want);
    for (const std::uint32_t threads : {2U, 3U, 8U}) {
      if (heed_test::brief() && threads % 2 == 0) continue;
      check_same(context_with(backwards(threads)), kind, want);
    }
  }
}

TEST_CASE("tiles change no bit, on any ISA", "[determinism]") {
  const Environment quiet;
  std::vector<Kind> all = cases();
  std::size_t index = 0;
  for (const std::string& isa : usable_isas()) {
    const bool slow = isa == "scalar" || heed_test::small();
    if (slow && all.size() == cases().size()) all.pop_back();  // the big one tells no more
    for (const Kind& kind : all) {
      const heed_executor executor = backwards(3);
      heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
      options.isa = isa.c_str();
      options.executor = &executor;
      const std::unique_ptr<Problem> problem = kind.problem();
      const auto result = [&] {
        const Context context = make_context(&options);
        Object plan;
        CHECK(problem->prepare_and_create(context, plan));
        problem->forget_outputs();
        CHECK(problem->run(plan) == HEED_STATUS_OK);
        return problem->outputs();
      };
      const std::vector<unsigned char> want = result();
      check_same(make_context(&options), kind, want);
      for (const std::uint32_t tile_q : {1U, 50U, 1000U})
        for (const std::uint32_t tile_kv : {1U, 200U, 65536U}) {
          if (!heed_test::keep_of_few(index++)) continue;
          CAPTURE(isa, kind.name, tile_q, tile_kv);
          options.tile_q = tile_q;
          options.tile_kv = tile_kv;
          CHECK(result() == want);
        }
      options.tile_q = options.tile_kv = 0;
    }
  }
}

TEST_CASE("an item of a batch is what it is alone", "[determinism]") {
  const Environment quiet;
  const Context context = context_with(backwards(3));
  for (const Shape& shape : {kHeads, kOneKeyHead, kMaskedRows, kManyHeads, kDecoding}) {
    const Tensors all(shape);
    const std::vector<float> want = run(context, shape, all);
    Shape alone = shape;
    alone.batch = 1;
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      CAPTURE(shape.batch, shape.query_length, b);
      Tensors one(alone);
      one.query = item(all.query, b, shape.batch);
      one.key = item(all.key, b, shape.batch);
      one.value = item(all.value, b, shape.batch);
      CHECK(same_bits(run(context, alone, one), item(want, b, shape.batch)));
    }
  }
}
