// The same bits whoever computes them: any executor, any number of threads, any tiles, any
// batch around them, any number of times.
#include <algorithm>
#include <thread>

#include "tests/api/support.hpp"
#include "tests/support/size.hpp"

using namespace api_test;

namespace {

struct Case {
  const char* name;
  Shape shape;
};

Shape shape_of(std::int64_t batch, std::int64_t query_heads, std::int64_t key_heads,
               std::int64_t query_length, std::int64_t key_length, std::int64_t features,
               std::int64_t value_features, std::uint32_t causal = HEED_CAUSAL_NONE,
               std::int64_t causal_offset = 0) {
  return {batch,    query_heads,    key_heads, query_length, key_length,
          features, value_features, causal,    causal_offset};
}

std::vector<Case> cases() {
  return {
      {"one small head", shape_of(1, 1, 1, 5, 7, 8, 6)},
      {"several heads", shape_of(2, 3, 3, 130, 170, 32, 32)},
      {"grouped causal", shape_of(1, 8, 2, 150, 210, 32, 24, HEED_CAUSAL_BOTTOM_RIGHT)},
      {"one key head", shape_of(2, 7, 1, 61, 99, 40, 33, HEED_CAUSAL_TOP_LEFT)},
      {"masked rows", shape_of(2, 2, 2, 140, 90, 32, 32, HEED_CAUSAL_OFFSET, -30)},
      {"many tiny heads", shape_of(40, 16, 16, 4, 9, 8, 8)},
      {"one big head", shape_of(1, 1, 1, 700, 900, 64, 64)},
      {"decoding", shape_of(3, 8, 2, 1, 1500, 64, 64, HEED_CAUSAL_BOTTOM_RIGHT)},
  };
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

/// One body after the other, last first: as different from threads as it gets, and needs none.
heed_executor backwards(std::uint32_t threads) {
  heed_executor executor = HEED_EXECUTOR_INIT;
  executor.threads = threads;
  executor.run = [](void*, std::uint32_t count, void (*body)(void*, std::uint32_t),
                    void* argument) {
    while (count-- > 0) body(argument, count);
  };
  return executor;
}

Context context_with(const heed_executor& executor) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = &executor;
  return make_context(&options);
}

std::vector<float> serial_result(const Shape& shape, const Tensors& tensors) {
  return run(make_context(nullptr, "serial", 1), shape, tensors);
}

void check_same(const Context& context, const Shape& shape, const Tensors& tensors,
                const std::vector<float>& expected) {
  const heed_context_info info = describe(context);
  CAPTURE(info.executor, info.threads, info.isa);
  for (int repeat = 0; repeat < 3; ++repeat)
    CHECK(same_bits(run(context, shape, tensors), expected));
}

/// Item b of a tensor's batch.
std::vector<float> item(const std::vector<float>& tensor, std::int64_t b, std::int64_t batch) {
  const auto size = static_cast<std::ptrdiff_t>(tensor.size()) / batch;
  return {tensor.begin() + b * size, tensor.begin() + (b + 1) * size};
}

}  // namespace

TEST_CASE("some of these problems are shared among threads", "[determinism]") {
  const Context context = context_with(backwards(8));
  std::uint32_t most = 1;
  for (const Case& c : cases())
    most = std::max(most, describe(make_plan(context, desc_of(c.shape))).threads);
  CHECK(most == 8);
}

TEST_CASE("every executor and number of threads gives the same bits", "[determinism][threads]") {
  const Environment quiet;
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Tensors tensors(c.shape);
    const std::vector<float> expected = serial_result(c.shape, tensors);
    for (const std::uint32_t threads : {1U, 2U, 3U, 8U}) {
      for (const std::string& name : executors())
        check_same(make_context(nullptr, name.c_str(), threads), c.shape, tensors, expected);
      check_same(context_with(own_threads(threads)), c.shape, tensors, expected);
    }
  }
}

TEST_CASE("the order in which bodies run changes no bit", "[determinism]") {
  const Environment quiet;
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Tensors tensors(c.shape);
    const std::vector<float> expected = serial_result(c.shape, tensors);
    check_same(make_context(nullptr, "serial", 8), c.shape, tensors, expected);
    for (const std::uint32_t threads : {2U, 3U, 8U})
      check_same(context_with(backwards(threads)), c.shape, tensors, expected);
  }
}

TEST_CASE("tiles change no bit, on any ISA", "[determinism]") {
  const Environment quiet;
  for (const std::string& isa : usable_isas()) {
    CAPTURE(isa);
    for (const Case& c : cases()) {
      const bool slow = isa == "scalar" || heed_test::small();
      if (slow && c.shape.query_length >= 700) continue;  // and tells no more
      CAPTURE(c.name);
      const Tensors tensors(c.shape);
      heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
      options.isa = isa.c_str();
      const heed_executor executor = backwards(3);
      options.executor = &executor;
      const std::vector<float> expected = run(make_context(&options), c.shape, tensors);
      for (const std::uint32_t tile_q : {1U, 50U, 1000U}) {
        for (const std::uint32_t tile_kv : {1U, 200U, 3000U}) {
          CAPTURE(tile_q, tile_kv);
          options.tile_q = tile_q;
          options.tile_kv = tile_kv;
          CHECK(same_bits(run(make_context(&options), c.shape, tensors), expected));
        }
      }
    }
  }
}

TEST_CASE("the one call gives the bits of a planned run", "[determinism]") {
  const Environment quiet;
  const Context context = context_with(backwards(3));
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    Tensors tensors(c.shape);
    const std::vector<float> expected = serial_result(c.shape, tensors);
    const heed_attention_desc desc = desc_of(c.shape);
    const heed_attention_args args = tensors.args();
    REQUIRE(heed_attention(context.get(), &desc, &args) == HEED_STATUS_OK);
    CHECK(same_bits(tensors.out, expected));
  }
}

TEST_CASE("an item of a batch is what it is alone", "[determinism]") {
  const Environment quiet;
  const Context context = context_with(backwards(3));
  for (const Case& c : cases()) {
    if (c.shape.batch == 1) continue;
    CAPTURE(c.name);
    const Tensors all(c.shape);
    const std::vector<float> expected = run(context, c.shape, all);
    Shape alone = c.shape;
    alone.batch = 1;
    for (std::int64_t b = 0; b < c.shape.batch; ++b) {
      CAPTURE(b);
      Tensors one(alone);
      one.query = item(all.query, b, c.shape.batch);
      one.key = item(all.key, b, c.shape.batch);
      one.value = item(all.value, b, c.shape.batch);
      CHECK(same_bits(run(context, alone, one), item(expected, b, c.shape.batch)));
    }
  }
}
