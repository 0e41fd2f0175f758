// Plans of blocks and prepared matrices are immutable: many threads use the same ones at once.
#include "tests/api/blocks.hpp"
#include "tests/api/threads.hpp"

using namespace api_test;

namespace {

/// Self-attention of [2, 60, 80] with 4 heads, enough for several tasks; matrices prepared.
struct Shared {
  Shared() {
    attention.batch = 2;
    attention.query_heads = 4;
    attention.query_length = attention.key_length = 60;
    attention.features = 20;
    attention.causal = HEED_CAUSAL_TOP_LEFT;
    desc.attention = &attention;
    desc.width_query = 80;
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  Weights prepare(const Context& context, std::uint32_t seed) const {
    heed_weights_desc weights_desc = HEED_WEIGHTS_DESC_INIT;
    weights_desc.in = weights_desc.out = 80;
    const std::vector<float> matrix = numbers(80 * 80, seed);
    heed_weights* made = nullptr;
    if (heed_weights_create(context.get(), &weights_desc, matrix.data(), bias.data(), &made) !=
        HEED_STATUS_OK)
      return nullptr;
    return Weights(made);
  }

  heed_multihead_args args_of(const std::vector<Weights>& weights, std::vector<float>& out) const {
    heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
    args.input_query = input.data();
    args.p_query = weights[0].get();
    args.p_key = weights[1].get();
    args.p_value = weights[2].get();
    args.p_out = weights[3].get();
    args.out = out.data();
    return args;
  }

  std::vector<Weights> prepare_all(const Context& context) const {
    std::vector<Weights> all;
    for (std::uint32_t seed = 1; seed <= 4; ++seed) all.push_back(prepare(context, seed));
    return all;
  }

  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
  std::vector<float> input = numbers(2 * 60 * 80, 9);
  std::vector<float> bias = numbers(80, 10);
};

std::vector<float> expected(const Shared& shared) {
  const Context context = serial();
  const std::vector<Weights> weights = shared.prepare_all(context);
  std::vector<float> out(shared.input.size());
  const heed_multihead_args args = shared.args_of(weights, out);
  REQUIRE(heed_multihead(context.get(), &shared.desc, &args) == HEED_STATUS_OK);
  return out;
}

}  // namespace

TEST_CASE("one plan and one set of matrices serve many threads at once",
          "[concurrency][threads][multihead]") {
  const Environment quiet;
  const Shared shared;
  const std::vector<float> want = expected(shared);
  for (const std::string& name : executors()) {
    CAPTURE(name);
    const Context context = make_context(nullptr, name.c_str(), 2);
    const std::vector<Weights> weights = shared.prepare_all(context);
    const MultiheadPlan plan = make_plan(context, shared.desc);
    const std::size_t bytes = describe(plan).workspace_bytes;
    CHECK(on_all_threads([&](int) {
      const Workspace workspace(bytes);
      for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<float> out(shared.input.size());
        const heed_multihead_args args = shared.args_of(weights, out);
        if (heed_multihead_plan_run(plan.get(), &args, workspace.get(), bytes) != HEED_STATUS_OK ||
            !same_bits(out, want))
          return false;
      }
      return true;
    }));
  }
}

TEST_CASE("matrices and plans are made and destroyed on many threads",
          "[concurrency][threads][multihead]") {
  const Environment quiet;
  const Shared shared;
  const std::vector<float> want = expected(shared);
  for (const std::string& name : executors()) {
    CAPTURE(name);
    const Context context = make_context(nullptr, name.c_str(), 2);
    CHECK(on_all_threads([&](int) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        const std::vector<Weights> weights = shared.prepare_all(context);
        std::vector<float> out(shared.input.size());
        const heed_multihead_args args = shared.args_of(weights, out);
        if (heed_multihead(context.get(), &shared.desc, &args) != HEED_STATUS_OK ||
            !same_bits(out, want))
          return false;
      }
      return true;
    }));
  }
}

TEST_CASE("plans of blocks and matrices outlive their context, on whatever thread they end",
          "[concurrency][threads][multihead]") {
  const Environment quiet;
  CountingAllocator memory;  // not for threads itself: all is destroyed in turn
  const heed_allocator allocator = memory.get();
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "serial";
  options.allocator = &allocator;
  const Shared shared;
  const std::vector<float> want = expected(shared);
  Context context = make_context(&options);
  std::vector<Weights> weights = shared.prepare_all(context);
  MultiheadPlan plan = make_plan(context, shared.desc);
  context.reset();
  std::vector<float> out(shared.input.size());
  const heed_multihead_args args = shared.args_of(weights, out);
  const Workspace workspace(describe(plan).workspace_bytes);
  CHECK(heed_multihead_plan_run(plan.get(), &args, workspace.get(), workspace.bytes()) ==
        HEED_STATUS_OK);
  CHECK(same_bits(out, want));
  std::thread([&] { plan.reset(); }).join();
  while (!weights.empty()) {
    CHECK(memory.live() > 0);
    std::thread([&] { weights.pop_back(); }).join();
  }
  CHECK(memory.live() == 0);
  CHECK(memory.sound());
}
