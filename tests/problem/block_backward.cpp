#include "tests/problem/block_backward.hpp"

#include <numeric>
#include <stdexcept>

#include "tests/problem/random_blocks.hpp"

namespace heed_test {
namespace {

/// What a descriptor says of rows without heads.
heed_layout rows_layout_of(const Tensor& tensor, const Form& form) {
  heed_layout layout = layout_of(tensor, form.arrangement, tensor.dtype());
  layout.stride_head = 0;
  return layout;
}

bool is_bias(BlockGradientOf gradient) {
  return gradient >= kBlockBQuery && gradient <= kBlockBOut;
}

}  // namespace

const char* name_of(BlockGradientOf gradient) {
  constexpr const char* kNames[] = {"input_query", "input_key", "w_query",      "w_key",
                                    "w_value",     "w_out",     "b_query",      "b_key",
                                    "b_value",     "b_out",     "head_weights", "bias",
                                    "sinks",       "slopes",    "scale",        "temperature"};
  return kNames[gradient];
}

std::array<BlockGradientOf, kBlockGradients> all_block_gradients() {
  std::array<BlockGradientOf, kBlockGradients> all{};
  for (std::size_t of = 0; of < kBlockGradients; ++of) all[of] = static_cast<BlockGradientOf>(of);
  return all;
}

BlockBackward::BlockBackward(Block block_, std::uint64_t seed, const Form& of_out)
    : block(std::move(block_)),
      grad_out(placed(block.out.shape(), of_out.arrangement, dtype_of(of_out.dtype, block.real),
                      of_out.misalign)) {
  desc_.grad_out = rows_layout_of(grad_out, of_out);
  Random random(seed);
  grad_out.fill([&] { return random.normal(); });
}

void BlockBackward::give_grad_lse(std::uint64_t seed, const Form& form) {
  const Axes rows = {block.attention.query.shape()[0], block.attention.desc.query_heads,
                     block.attention.query.shape()[2], 1};
  grad_lse.emplace(placed(rows, form.arrangement, dtype_of(form.dtype, real()), form.misalign));
  desc_.grad_lse = layout_of(*grad_lse, form.arrangement, grad_lse->dtype());
  Random random(seed);
  grad_lse->fill([&] { return random.normal(); });
}

bool BlockBackward::can_want(BlockGradientOf gradient) const {
  switch (gradient) {
    case kBlockInputKey:
      return block.input_key.has_value();
    case kBlockWOut:
    case kBlockBOut:
      return block.w_out.has_value();
    case kBlockHeadWeights:
      return block.choice.combine == HEED_COMBINE_WEIGHTED;
    case kBlockBias:
      return block.attention.bias.has_value();
    case kBlockSinks:
      return !block.attention.sinks.numbers.empty();
    case kBlockSlopes:
      return !block.attention.slopes.numbers.empty();
    default:
      return true;
  }
}

void BlockBackward::want_input(BlockGradientOf gradient, const Tensor& like, const Form& form,
                               heed_layout& layout) {
  gradients[gradient].emplace(
      placed(like.shape(), form.arrangement, dtype_of(form.dtype, real()), form.misalign));
  layout = rows_layout_of(*gradients[gradient], form);
}

void BlockBackward::want_matrix(BlockGradientOf gradient, const WeightMatrix& like,
                                const Form& form, heed_matrix_layout& layout) {
  const Index matrices = like.tensor.shape()[0];
  Tensor& to =
      gradients[gradient].emplace(placed({matrices, 1, like.in(), like.out()}, form.arrangement,
                                         dtype_of(form.dtype, real()), form.misalign));
  layout = HEED_MATRIX_LAYOUT_INIT;
  layout.dtype = to.dtype();
  if (form.arrangement == Arrangement::kDefault) return;
  layout.stride_matrix = matrices > 1 ? to.strides()[0] : 0;
  layout.stride_in = to.strides()[2];
  layout.stride_out = to.strides()[3];
}

void BlockBackward::want_numbers(BlockGradientOf gradient, Index count, std::uint32_t dtype) {
  gradients[gradient].emplace(placed({1, 1, 1, count}, Arrangement::kDefault, dtype, 0));
}

void BlockBackward::want(BlockGradientOf gradient, const Form& form) {
  Problem& attention = block.attention;
  const std::uint32_t narrow = dtype_of(form.dtype, real());
  if (is_bias(gradient)) desc_.grad_b_dtype = narrow;
  switch (gradient) {
    case kBlockInputQuery:
      return want_input(gradient, block.input_query, form, desc_.grad_input_query);
    case kBlockInputKey:
      return want_input(gradient, *block.input_key, form, desc_.grad_input_key);
    case kBlockWQuery:
      return want_matrix(gradient, block.w_query, form, desc_.grad_w_query);
    case kBlockWKey:
      return want_matrix(gradient, block.w_key, form, desc_.grad_w_key);
    case kBlockWValue:
      return want_matrix(gradient, block.w_value, form, desc_.grad_w_value);
    case kBlockWOut:
      return want_matrix(gradient, *block.w_out, form, desc_.grad_w_out);
    case kBlockBQuery:
      return want_numbers(gradient, block.w_query.out(), narrow);
    case kBlockBKey:
      return want_numbers(gradient, block.w_key.out(), narrow);
    case kBlockBValue:
      return want_numbers(gradient, block.w_value.out(), narrow);
    case kBlockBOut:
      return want_numbers(gradient, block.out_width(), narrow);
    case kBlockBias:
      gradients[gradient].emplace(placed(attention.bias->shape(), form.arrangement,
                                         dtype_of(form.dtype, real()), form.misalign));
      desc_.grad_bias =
          score_layout_of(*gradients[gradient], form.arrangement, gradients[gradient]->dtype());
      desc_.grad_bias.batch = attention.desc.bias.batch;  // "the same" where they say so
      desc_.grad_bias.heads = attention.desc.bias.heads;
      desc_.grad_bias.rows = attention.desc.bias.rows;
      desc_.grad_bias.keys = attention.desc.bias.keys;
      return;
    case kBlockScale:
    case kBlockTemperature:
      return want_numbers(gradient, 1, real());
    default:
      return want_numbers(gradient, attention.desc.query_heads, real());
  }
}

void BlockBackward::want_all() {
  for (const BlockGradientOf gradient : all_block_gradients())
    if (can_want(gradient)) want(gradient);
}

void BlockBackward::want_nothing() {
  for (auto& gradient : gradients) gradient.reset();
  desc_.accumulate = 0;
}

bool BlockBackward::owns_row(BlockGradientOf gradient, Index row) const {
  const Problem& a = block.attention;
  const bool of_query = in_sequence(kGradQuery, a, row);
  const bool of_key = in_sequence(kGradKey, a, row);
  if (gradient == kBlockInputKey) return of_key;
  if (gradient != kBlockInputQuery) return true;
  return of_query || (!block.input_key && of_key);
}

void BlockBackward::accumulate(std::uint64_t seed) {
  desc_.accumulate = 1;
  Random random(seed);
  for (const BlockGradientOf gradient : all_block_gradients())
    before_[gradient] = drawn_before(gradients[gradient], random,
                                     [&](Index row) { return owns_row(gradient, row); });
}

void BlockBackward::begin() {
  for (std::size_t of = 0; of < kBlockGradients; ++of) {
    if (!gradients[of]) continue;
    gradients[of]->clear();
    if (desc_.accumulate != 0) gradients[of].emplace(*before_[of]);
  }
}

heed_multihead_backward_args BlockBackward::args(const heed_multihead_args& of_block) {
  heed_multihead_backward_args a = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  a.block = &of_block;
  a.grad_out = grad_out.data();
  if (grad_lse) a.grad_lse = grad_lse->data();
  void** const places[] = {
      &a.grad_input_query, &a.grad_input_key,    &a.grad_w_query,      &a.grad_w_key,
      &a.grad_w_value,     &a.grad_w_out,        &a.grad_b_query,      &a.grad_b_key,
      &a.grad_b_value,     &a.grad_b_out,        &a.grad_head_weights, &a.grad_bias,
      &a.grad_sinks,       &a.grad_alibi_slopes, &a.grad_scale,        &a.grad_temperature};
  for (std::size_t of = 0; of < kBlockGradients; ++of)
    if (gradients[of]) *places[of] = gradients[of]->data();
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
  given.grad_out = grad_out.source();
  given.one_input = !block.input_key;
  for (std::size_t of = 0; of < kBlockGradients; ++of)
    if (gradients[of]) given.gradients[of] = gradients[of]->source();
  given.inner = HEED_ATTENTION_BACKWARD_DESC_INIT;
  given.inner.accumulate = desc_.accumulate;
  given.inner.grad_lse = desc_.grad_lse;
  given.inner.grad_bias = desc_.grad_bias;
  const heed_multihead_args of_block = HEED_MULTIHEAD_ARGS_INIT;
  const heed_multihead_backward_args a = args(of_block);
  given.inner_args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  given.inner_args.grad_lse = a.grad_lse;
  given.inner_args.grad_bias = a.grad_bias;
  given.inner_args.grad_sinks = a.grad_sinks;
  given.inner_args.grad_alibi_slopes = a.grad_alibi_slopes;
  given.inner_args.grad_scale = a.grad_scale;
  given.inner_args.grad_temperature = a.grad_temperature;
  given.derivative = block.attention.function.derivative;
  return expect_block_gradients(given);
}

BlockGradients BlockBackward::run(const Context& context, Keeps keeps) {
  heed_multihead_desc of_block = block.desc();
  const Block::Prepared prepared = block.prepare(context);
  heed_multihead_args block_args = block.args(prepared);
  of_block.keep = keeps == Keeps::kAll ? 1 : 0;
  const MultiheadPlan forward = make_plan(context, of_block);
  Workspace kept(describe(forward).kept_bytes);
  if (of_block.keep != 0) {
    block_args.kept = kept.get();
    block_args.kept_bytes = kept.bytes();
    Workspace workspace(describe(forward).workspace_bytes);
    require_ok(
        heed_multihead_plan_run(forward.get(), &block_args, workspace.get(), workspace.bytes()));
  }
  block_args.out = nullptr;
  const MultiheadBackwardPlan plan = make_plan(context, desc(of_block));
  Workspace workspace(describe(plan).workspace_bytes);
  begin();
  const heed_multihead_backward_args arguments = args(block_args);
  require_ok(
      heed_multihead_backward_plan_run(plan.get(), &arguments, workspace.get(), workspace.bytes()));
  BlockGradients got;
  for (std::size_t of = 0; of < kBlockGradients; ++of) {
    if (!gradients[of]) continue;
    if (!gradients[of]->padding_intact()) throw std::runtime_error("wrote outside a gradient");
    got[of] = gradients[of]->numbers();
  }
  if (!workspace.intact() || !kept.intact())
    throw std::runtime_error("wrote outside the workspace, or what is kept");
  if (block.attention.tiles && block.attention.tiles->wrong)
    throw std::runtime_error("a score tile makes no sense");
  return got;
}

std::string line_of(const BlockBackward& p) { return line_of(p.block) + line_of_gradients(p); }

namespace {

class Drawn : Drawing {
 public:
  explicit Drawn(std::uint64_t seed) : Drawing(seed ^ 0xbac4b10c), seed_(seed) {}

  BlockBackward draw() {
    Block block = RandomBlocks(seed_, true).draw();
    wide_ = is_float64(block.attention.desc);
    biases_ = draw_form();
    BlockBackward p(std::move(block), random_.bits(), draw_form());
    if (one_in(3))
      p.give_grad_lse(random_.bits(),
                      draw_as(pick<std::uint32_t>({HEED_DTYPE_F32, HEED_DTYPE_F64})));
    if (one_in(12)) plant(p.grad_out);
    const bool all = one_in(2);
    for (const BlockGradientOf gradient : all_block_gradients())
      if (p.can_want(gradient) && (all || one_in(2)))
        p.want(gradient, is_bias(gradient) ? biases_ : draw_form());
    if (one_in(4)) p.accumulate(random_.bits());
    return p;
  }

 private:
  Form draw_as(std::uint32_t dtype) {
    return {dtype, draw_arrangement(), static_cast<std::size_t>(random_.integer(0, 3))};
  }
  Form draw_form() {
    if (wide_) return draw_as(HEED_DTYPE_F64);
    return draw_as(
        pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16}));
  }

  std::uint64_t seed_;
  bool wide_ = false;
  Form biases_{};
};

}  // namespace

BlockBackward draw_block_backward(std::uint64_t seed) { return Drawn(seed).draw(); }

}  // namespace heed_test
