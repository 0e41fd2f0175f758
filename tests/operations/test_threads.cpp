// Threads, executors and tiles change no bit of problems that are large enough to be shared out.
// (Sweeps try the same with small ones.)
#include "tests/multihead/copies.hpp"
#include "tests/operations/operations.hpp"
#include "tests/support/executors.hpp"

using namespace heed_test;

namespace {

template <class AnyProblem>
void check_shared(AnyProblem p) {
  INFO(line_of(p));
  for (const char* const isa : isa_names()) {
    const Results want = run(p, make_context(isa));
    each_executor(isa, [&](const std::string& name, const Context& context) {
      check_bits(isa + (", " + name), run(p, context), want);
    });
    for (const auto& [tile_q, tile_kv] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
             {1, 1}, {1000, 128}, {50, 200}, {64, 10000}})
      check_bits(isa + (", tiles " + std::to_string(tile_q)),
                 run(p, make_context(isa, {"serial", 1, tile_q, tile_kv})), want);
  }
}

/// One head, many, few rows of many keys, and few of few; small: those of many heads.
std::vector<Sizes> all_sizes() {
  Sizes one_head = {500, 700, 24, 20};
  one_head.causal = HEED_CAUSAL_TOP_LEFT;
  Sizes grouped = {150, 210, 32, 24, 2, 8, 2};
  grouped.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  Sizes masked_rows = {140, 90, 32, 32, 2, 2, 2};
  masked_rows.causal = HEED_CAUSAL_OFFSET;
  masked_rows.causal_offset = -30;
  const Sizes many = {60, 70, 12, 9, 3, 6, 2};
  const Sizes tiny = {4, 9, 8, 8, 40, 16, 16};
  const Sizes decoding = {1, 1500, 64, 64, 3, 8, 2};
  const Sizes one_row = {1, 700, 64, 64, 1, 71, 1};
  const Sizes wide = {5, 400, 40, 256};
  if (small()) return {many, tiny};
  return {one_head, grouped, masked_rows, many, tiny, decoding, one_row, wide};
}

/// All the weight of a panel of keys at once, with much of everything.
Problem attention_of(const Sizes& sizes, bool options) {
  Problem p = filled(sizes, 61, 1.5F);
  if (!options) return p;
  p.desc.softcap = 20;
  p.add_mask({1, 1, 1, sizes.key_length}).set({0, 0, 0, sizes.key_length / 2}, 0);
  for (Index h = 0; h < sizes.query_heads; ++h) p.sinks.numbers.push_back(h % 2 == 0 ? 1 : -1);
  want_all(p);
  return p;
}

/// With a bias that repeats over batch, heads and perhaps rows, and keys that nobody attends and
/// that hold NaN: their blocks are summed pair by pair.
BackwardProblem gradients_of_all(const Sizes& sizes, Index bias_rows) {
  Problem forward = filled(sizes, 21);
  forward.desc.softcap = 10;
  forward.add_bias({1, 1, bias_rows, sizes.key_length})
      .set_where([](const Axes& at) { return at[3] == 3 || at[3] == 67; }, -kInfinity);
  for (Index h = 0; h < sizes.query_heads; ++h) forward.sinks.numbers.push_back(0.1);
  BackwardProblem p(std::move(forward), 1);
  p.give_grad_lse(101);
  p.want_all();
  p.attend(plain_contexts()[0]);
  for (const Index j : {3, 67}) p.forward.key.set({0, 0, j, 0}, kNaN);
  return p;
}

/// Every product is cut into tasks.
Block block_of(std::uint32_t combine, std::uint32_t dtype, Index length) {
  BlockChoice choice = choice_of(dtype);
  choice.combine = combine;
  choice.self = true;
  choice.width_query = choice.width_key = 150;
  choice.width_out = 140;
  if (small()) length = 40;
  Block block = plain_block(length, length, 6, 32, choice, 2, 3, 30);
  block.fill(51, 0.7);
  return block;
}

}  // namespace

TEST_CASE("threads, executors and tiles change no bit of attention", "[same][threads]") {
  for (const Sizes& sizes : all_sizes())
    for (const Kind& kind : kinds()) {
      if (kind.types.query != 0 && sizes.query_length != 60) continue;
      Sizes typed = sizes;
      typed.types = kind.types;
      for (const bool options : {false, true}) check_shared(attention_of(typed, options));
    }
}

TEST_CASE("threads, executors and tiles change no bit of a block", "[same][threads]") {
  for (const std::uint32_t combine : kCombiners)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16}) {
      if (dtype != HEED_DTYPE_F32 && (small() || combine != HEED_COMBINE_CONCAT)) continue;
      Block block = block_of(combine, dtype, 170);
      block.attention.want_lse();
      check_shared(block);
    }
}

TEST_CASE("threads, executors and tiles change no bit over a graph", "[same][threads]") {
  for (std::uint64_t seed = 1; seed <= count(6); ++seed) {
    check_shared(draw_graph_problem(seed, Graphs::kHub));
    check_shared(draw_graph_backward(seed, Graphs::kHub));
  }
}

TEST_CASE("threads, executors and tiles change no bit of a gradient", "[backward][same][threads]") {
  Sizes long_head = {1300, 150, 8, 8};
  long_head.causal = HEED_CAUSAL_TOP_LEFT;
  const Sizes long_keys = {5, 4200, 6, 6, 1, 4, 1};
  const Sizes many = {60, 70, 12, 9, 3, 6, 2};
  for (const Sizes& sizes : {many, long_head, long_keys}) {
    if (small() && sizes.query_length != 60) break;
    check_shared(gradients_of_all(sizes, 1));
  }
  // Its parts are tasks of their own only where there are threads for them.
  check_shared(gradients_of_all(many, 60));
}

TEST_CASE("threads, executors and tiles change no bit of a gradient of a block",
          "[backward][same][threads]") {
  for (const Keeps keeps : {Keeps::kNothing, Keeps::kAll}) {
    const auto combine = keeps == Keeps::kAll ? HEED_COMBINE_WEIGHTED : HEED_COMBINE_CONCAT;
    BlockBackwardCall p{BlockBackward(block_of(combine, HEED_DTYPE_DEFAULT, 90), 1), keeps};
    p.give_grad_lse(101);
    p.want_all();
    check_shared(p);
  }
}
