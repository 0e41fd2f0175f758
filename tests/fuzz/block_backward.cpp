// Gradients of multi-head blocks: heed_multihead_backward_plan_create and _run, of what a run of
// the block has kept, or of nothing.
#include "tests/fuzz/block_case.hpp"
#include "tests/fuzz/gradient_case.hpp"
#include "tests/fuzz/plan.hpp"
#include "tests/oracle/multihead_backward.hpp"
#include "tests/problem/attention_backward.hpp"

using namespace heed_test;

namespace {

using Args = heed_multihead_backward_args;
using BlockGradients = GradientCase<Args, kBlockGradients>;
constexpr BlockGradients::Places kPlaces = {{{"input_query", &Args::grad_input_query},
                                             {"input_key", &Args::grad_input_key},
                                             {"w_query", &Args::grad_w_query},
                                             {"w_key", &Args::grad_w_key},
                                             {"w_value", &Args::grad_w_value},
                                             {"w_out", &Args::grad_w_out},
                                             {"b_query", &Args::grad_b_query},
                                             {"b_key", &Args::grad_b_key},
                                             {"b_value", &Args::grad_b_value},
                                             {"b_out", &Args::grad_b_out},
                                             {"head_weights", &Args::grad_head_weights},
                                             {"bias", &Args::grad_bias},
                                             {"sinks", &Args::grad_sinks},
                                             {"slopes", &Args::grad_alibi_slopes},
                                             {"scale", &Args::grad_scale},
                                             {"temperature", &Args::grad_temperature}}};

Axes lse_shape(const heed_attention_desc& a) {
  const AttentionShapes shapes(a);
  return {shapes.query[0], shapes.query[1], shapes.query[2], 1};
}

heed_multihead_backward_desc draw_backward(Draw& draw, const heed_multihead_desc& block,
                                           const heed_attention_desc& a) {
  heed_multihead_backward_desc d = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  d.accumulate = draw.one_in(4) ? 1 : 0;
  const BlockShapes shapes(block, a);
  const auto type = [&] { return draw.dtype(is_float64(block), true); };
  d.grad_out = draw_rows(draw, shapes.out, Use::kRead, type());
  d.grad_lse = draw_lse_layout(draw, lse_shape(a));
  d.grad_input_query = draw_rows(draw, shapes.query, Use::kWritten, type());
  d.grad_input_key = draw_rows(draw, shapes.key, Use::kWritten, type());
  heed_matrix_layout* const layouts[] = {&d.grad_w_query, &d.grad_w_key, &d.grad_w_value,
                                         &d.grad_w_out};
  for (std::size_t i = 0; i < shapes.matrices.size(); ++i) {
    const MatrixShape& m = shapes.matrices[i];
    *layouts[i] = draw.matrix_layout(m.matrices, m.in, m.out, type(), Use::kWritten);
  }
  d.grad_bias.dtype = draw.dtype();
  d.grad_b_dtype = type();
  return d;
}

/// Runs of a plan, with their tensors.
class BackwardCase {
 public:
  BackwardCase(const heed_multihead_backward_desc& desc, const heed_multihead_desc& of_block,
               const heed_attention_desc& inner)
      : desc_(desc),
        of_block_(of_block),
        block(of_block, inner),
        grad_out_in_(block.shapes().out, desc.grad_out, real_of(of_block),
                     inner.packed_queries > 0),
        grad_lse_in_(lse_shape(inner), desc.grad_lse, real_of(of_block), false),
        gradients_(kPlaces, desc.accumulate) {
    const std::uint32_t real = real_of(of_block);
    const BlockShapes& shapes = block.shapes();
    gradients_.reach(kBlockInputQuery,
                     Extent(shapes.query, desc.grad_input_query, real, inner.packed_queries > 0));
    gradients_.reach(kBlockInputKey,
                     Extent(shapes.key, desc.grad_input_key, real, inner.packed_keys > 0));
    const heed_matrix_layout* const layouts[] = {&desc.grad_w_query, &desc.grad_w_key,
                                                 &desc.grad_w_value, &desc.grad_w_out};
    const std::uint32_t bias = desc.grad_b_dtype == HEED_DTYPE_DEFAULT ? real : desc.grad_b_dtype;
    for (std::size_t i = 0; i < shapes.matrices.size(); ++i) {
      const MatrixShape& m = shapes.matrices[i];
      gradients_.reach(kBlockWQuery + i, Extent(m.matrices, m.in, m.out, *layouts[i], real));
      gradients_.reach(kBlockBQuery + i, m.out, bias);
    }
    const std::int64_t heads = inner.query_heads;
    if (of_block.combine == HEED_COMBINE_WEIGHTED) gradients_.reach(kBlockHeadWeights, heads, real);
    gradients_.reach(kBlockBias, Extent({inner.batch, heads, inner.query_length, inner.key_length},
                                        gradient_layout(desc.grad_bias, inner.bias), real));
    for (const BlockGradientOf of : {kBlockSinks, kBlockSlopes}) gradients_.reach(of, heads, real);
    for (const BlockGradientOf of : {kBlockScale, kBlockTemperature}) gradients_.reach(of, 1, real);
  }

  bool small() {
    bool all = block.small();
    all = check_extent(grad_out_in_) && all;
    all = check_extent(grad_lse_in_) && all;
    return gradients_.small() && all;
  }

  void make(Draw& draw) {
    block.make(draw);
    Random random(draw.bits());
    const auto next = [&] { return random.normal(); };
    grad_out_ = grad_out_in_.tensor(1);
    grad_out_->fill(next);
    if (draw.one_in(2)) {
      grad_lse_ = grad_lse_in_.tensor(0);
      grad_lse_->fill(next);
    }
    if (draw.one_in(8)) draw.plant({&*grad_out_});
    gradients_.make(
        draw, random, [&](std::size_t of) { return has(of); },
        [&](std::size_t of, Index row) { return owns(of, row); });
  }

  /// What is kept is what the block computes from valid arguments, in memory of its own.
  bool keep(const heed_multihead_args& args) {
    if (of_block_.keep == 0) return true;
    heed_multihead_plan* made = nullptr;
    const heed_status planned = heed_multihead_plan_create(fuzz_context().get(), &of_block_, &made);
    const MultiheadPlan plan(made);
    check_accepted(planned);
    if (planned != HEED_STATUS_OK) return false;
    const heed_multihead_info info = describe(plan);
    kept_.emplace(info.kept_bytes);
    Workspace workspace(info.workspace_bytes);
    heed_multihead_args run = args;
    run.kept = kept_->get();
    run.kept_bytes = kept_->bytes();
    const heed_status status =
        heed_multihead_plan_run(made, &run, workspace.get(), workspace.bytes());
    demand(kept_->intact(), "a run wrote beside what it keeps");
    return status == HEED_STATUS_OK;
  }

  heed_multihead_args block_args(const heed_attention_args& inner) {
    heed_multihead_args args = block.args();
    args.attention = &inner;
    if (!keep(args)) return args;
    args.out = nullptr;
    if (kept_) args.kept = kept_->get(), args.kept_bytes = kept_->bytes();
    return args;
  }
  /// Whether what is kept is there, if it has to be.
  bool valid() { return block.attention().valid() && (of_block_.keep == 0 || kept_); }

  Args args() {
    Args args = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
    args.grad_out = grad_out_->data();
    if (grad_lse_) args.grad_lse = grad_lse_->data();
    gradients_.give(args);
    args.score_gradient = block.attention().problem().function.gradient;
    return args;
  }

  ExpectedBlockGradients expected(const Args& args, const heed_multihead_args& of_block,
                                  const heed_attention_args& inner) {
    const Problem& problem = block.attention().problem();
    GivenBlockBackward given = {};
    given.block = block.given(of_block, inner);
    given.block.arguments.lse = nullptr;
    given.block.attention.lse = HEED_LAYOUT_INIT;
    given.block.attention.lse.dtype = HEED_DTYPE_F64;  // what is kept
    given.grad_out = grad_out_->source();
    given.one_input = of_block.input_key == nullptr;
    given.gradients = gradients_.sources(args);
    given.inner = HEED_ATTENTION_BACKWARD_DESC_INIT;
    given.inner.accumulate = desc_.accumulate;
    given.inner.grad_lse = desc_.grad_lse;
    given.inner.grad_bias = desc_.grad_bias;
    given.inner_args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
    given.inner_args.grad_lse = args.grad_lse;
    given.inner_args.grad_bias = args.grad_bias;
    given.inner_args.grad_sinks = args.grad_sinks;
    given.inner_args.grad_alibi_slopes = args.grad_alibi_slopes;
    given.inner_args.grad_scale = args.grad_scale;
    given.inner_args.grad_temperature = args.grad_temperature;
    if (problem.function.call != nullptr) given.derivative = problem.function.derivative;
    return expect_block_gradients(given);
  }

  void check(const Args& args, const ExpectedBlockGradients& want) {
    const Problem& problem = block.attention().problem();
    if (problem.tiles) demand(!problem.tiles->wrong, "a score tile makes no sense");
    gradients_.check(args, want);
  }
  void check_untouched() const { gradients_.check_untouched(); }

 private:
  bool has(std::size_t of) {
    const Problem& problem = block.attention().problem();
    if (of == kBlockInputKey) return !block.one_input();
    if (of == kBlockBias) return problem.bias.has_value();
    if (of == kBlockSinks) return !problem.sinks.numbers.empty();
    if (of == kBlockSlopes) return !problem.slopes.numbers.empty();
    return true;
  }

  /// Rows that belong to a sequence; one input has those of both.
  bool owns(std::size_t of, Index row) {
    const Problem& problem = block.attention().problem();
    const bool of_key = in_sequence(kGradKey, problem, row);
    if (of == kBlockInputKey) return of_key;
    if (of != kBlockInputQuery) return true;
    return in_sequence(kGradQuery, problem, row) || (block.one_input() && of_key);
  }

  const heed_multihead_backward_desc& desc_;
  const heed_multihead_desc of_block_;

 public:
  BlockCase block;

 private:
  Extent grad_out_in_, grad_lse_in_;
  BlockGradients gradients_;
  std::optional<Tensor> grad_out_, grad_lse_;
  std::optional<Workspace> kept_;
};

/// Pointers that are as good a byte further, or none of a tensor's.
constexpr std::initializer_list<std::size_t> kKept = {
    offsetof(heed_multihead_backward_args, block),
    offsetof(heed_multihead_backward_args, score_gradient)};

void run(Draw& draw, const heed_multihead_backward_plan* plan, BackwardCase& backward) {
  backward.make(draw);
  const heed_attention_args inner = inner_args(backward.block.attention());
  heed_multihead_args of_block = backward.block_args(inner);
  const bool block_damaged = draw.damage_pointers(of_block, kBlockObjects);
  Args args = backward.args();
  args.block = &of_block;
  const bool damaged = draw.damage_pointers(args, kKept) || block_damaged;
  const Versioned<Args> given(draw, args);
  const Args known = given.known();
  const bool whole = backward.valid() && !damaged && !given.odd();
  // Before the run, which writes over what it adds to.
  ExpectedBlockGradients want;
  if (whole) want = backward.expected(known, of_block, inner);
  const RunSpace space(draw, plan);
  const heed_status status =
      heed_multihead_backward_plan_run(plan, given.get(), space.get(), space.bytes());
  if (!ran(status, space, whole)) return backward.check_untouched();
  if (whole) backward.check(known, want);
}

void plan(Draw& draw, heed_attention_desc attention, heed_multihead_desc block,
          heed_multihead_backward_desc desc, bool damaged) {
  block.attention = &attention;
  desc.block = &block;
  const std::uint32_t where = damaged ? draw.choice(2) : 3;
  if (where == 0) draw.damage(attention);
  if (where == 1) draw.damage(block, offsetof(heed_multihead_desc, width_query));
  if (where == 2) draw.damage(desc, offsetof(heed_multihead_backward_desc, grad_out));
  const Versioned<heed_multihead_backward_desc> given(draw, desc);
  const heed_multihead_backward_desc known = given.known();
  heed_multihead_backward_plan* made = nullptr;
  const heed_status status =
      heed_multihead_backward_plan_create(fuzz_context().get(), given.get(), &made);
  const MultiheadBackwardPlan owner(made);
  if (!planned(status, made, damaged || given.odd(), {"desc."})) return;
  demand(known.block != nullptr, "gradients of no block are accepted");
  const heed_attention_desc inner = inner_of(block, attention);
  BackwardCase backward(known, block, inner);
  if (backward.small() && worth_running(draw, damaged)) run(draw, made, backward);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  heed_attention_desc attention = draw_attention(first, true);
  make_differentiable(attention);
  heed_multihead_desc block = draw_block(first, attention);
  block.keep = first.choice(1);
  const heed_multihead_backward_desc desc = draw_backward(first, block, attention);
  each_variant(first,
               [&](Draw& draw, bool damaged) { plan(draw, attention, block, desc, damaged); });
  return 0;
}
