#include "tests/problem/block_backward.hpp"

#include <numeric>
#include <stdexcept>

namespace heed_test {
const char* name_of(BlockGradientOf gradient) {
  constexpr const char* kNames[] = {"input_query", "input_key", "w_query",     "w_key",
                                    "w_value",     "w_out",     "b_query",     "b_key",
                                    "b_value",     "b_out",     "head_weights"};
  return gradient < kBlockBias ? kNames[gradient] : name_of(inside(gradient));
}

LaidOutGradients<kBlockGradients> laid_out(heed_multihead_backward_desc& d) {
  heed_multihead_desc block = *d.block;
  const heed_attention_desc& a = *block.attention;
  const LaidOutBlock laid(block);
  const auto rows = [&](heed_layout& layout, const LaidOut& like, Use use, bool packed) {
    return LaidOut(layout, like.shape(), laid.real, use, packed).without(1);
  };
  const auto numbers = [&](Index count, std::uint32_t* dtype = nullptr) {
    return LaidOut(count, dtype, laid.real, Use::kWritten);
  };
  const bool packed_q = a.packed_queries > 0;
  const Axes q = AttentionShapes(a).query;
  LaidOutGradients<kBlockGradients> all = {
      rows(d.grad_out, laid.out, Use::kRead, packed_q),
      LaidOut(d.grad_lse, {q[0], q[1], q[2], 1}, laid.real, Use::kRead)};
  all.of[kBlockInputQuery] = rows(d.grad_input_query, laid.input_query, Use::kWritten, packed_q);
  all.of[kBlockInputKey] = rows(d.grad_input_key, laid.input_key, Use::kWritten, a.packed_keys > 0);
  heed_matrix_layout* const layouts[] = {&d.grad_w_query, &d.grad_w_key, &d.grad_w_value,
                                         &d.grad_w_out};
  for (std::size_t i = 0; i < laid.matrices.size(); ++i) {
    const LaidOutMatrix& m = laid.matrices[i];
    all.of[kBlockWQuery + i] =
        LaidOut(*layouts[i], m.matrices, m.in, m.out, laid.real, Use::kWritten);
    all.of[kBlockBQuery + i] = numbers(m.out, &d.grad_b_dtype);
  }
  if (block.combine == HEED_COMBINE_WEIGHTED) all.of[kBlockHeadWeights] = numbers(a.query_heads);
  for (std::size_t of = kBlockBias; of < kBlockGradients; ++of)
    all.of[of] = laid_out(inside(of), d.grad_bias, a, laid.real);
  return all;
}

BlockBackward::BlockBackward(Block block_, std::uint64_t seed, const Form& of_out)
    : GradientProblem(HEED_MULTIHEAD_BACKWARD_DESC_INIT), block(std::move(block_)) {
  give_grad_out(seed, of_out);
}

BlockBackward::BlockBackward(Block block_, const heed_multihead_backward_desc& desc)
    : GradientProblem(desc), block(std::move(block_)) {}

LaidOutGradients<kBlockGradients> BlockBackward::laid_out() {
  of_block_ = block.desc();
  desc_.block = &of_block_;
  return heed_test::laid_out(desc_);
}

bool BlockBackward::can_want(BlockGradientOf gradient) const {
  switch (gradient) {
    case kBlockInputKey:
      return block.input_key.has_value();
    case kBlockWOut:
    case kBlockBOut:
      return block.w_out.has_value();
    case kBlockHeadWeights:
      return block.combine() == HEED_COMBINE_WEIGHTED;
    default:
      return gradient < kBlockBias || has_input_of(inside(gradient), block.attention);
  }
}

bool BlockBackward::owns(BlockGradientOf gradient, Index row) const {
  const Problem& a = block.attention;
  const bool of_query = in_sequence(kGradQuery, a, row);
  const bool of_key = in_sequence(kGradKey, a, row);
  if (gradient == kBlockInputKey) return of_key;
  if (gradient != kBlockInputQuery) return true;
  return of_query || (!block.input_key && of_key);
}

heed_multihead_backward_args BlockBackward::args(const heed_multihead_args& of_block) {
  heed_multihead_backward_args a = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  a.block = &of_block;
  using Args = heed_multihead_backward_args;
  give(a, {&Args::grad_input_query, &Args::grad_input_key, &Args::grad_w_query, &Args::grad_w_key,
           &Args::grad_w_value, &Args::grad_w_out, &Args::grad_b_query, &Args::grad_b_key,
           &Args::grad_b_value, &Args::grad_b_out, &Args::grad_head_weights, &Args::grad_bias,
           &Args::grad_sinks, &Args::grad_alibi_slopes, &Args::grad_scale, &Args::grad_temperature,
           &Args::grad_score_weights});
  a.score_gradient = block.attention.function.gradient;
  return a;
}

ExpectedBlockGradients BlockBackward::expected(const char* isa) {
  begin();
  GivenBlockBackward given = {};
  given.block = block.given();
  const bool pairs = isa != nullptr && multiplies_pairs(isa) && !is_float64(block.attention.desc);
  given.block.parts = pairs && multiplies_parts(isa);
  given.block.pairs = given.block.parts || (pairs && may_pair(given.block));
  given.block.attention.lse = HEED_LAYOUT_INIT;
  given.block.attention.lse.dtype = HEED_DTYPE_F64;  // what is kept
  given.gradients = this->given();
  given.one_input = !block.input_key;
  given.derivative = block.attention.function.derivative;
  return expect_block_gradients(given);
}

BlockGradients BlockBackward::run(const Context& context) {
  const Block::Prepared prepared = block.prepare(context);
  heed_multihead_args block_args = block.args(prepared);
  std::optional<Workspace> kept;
  if (block.own_desc.keep != 0) kept.emplace(block.run_and_keep(context, block_args));
  block_args.out = nullptr;
  begin();
  const heed_multihead_desc of_block = block.desc();
  run_plan(make_plan(context, desc(of_block)), args(block_args));
  BlockGradients got = this->got();
  if (kept && !kept->intact()) throw std::runtime_error("wrote outside what is kept");
  if (block.attention.tiles && block.attention.tiles->wrong)
    throw std::runtime_error("a score tile makes no sense");
  return got;
}

std::string line_of(const BlockBackward& p) { return line_of(p.block) + line_of_gradients(p); }

}  // namespace heed_test
