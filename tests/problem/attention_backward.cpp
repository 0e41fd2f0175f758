#include "tests/problem/attention_backward.hpp"

#include <algorithm>
#include <stdexcept>

namespace heed_test {
namespace {

/// A tensor of a shape like a query's or key's; packed rows lie outside heads by default.
Tensor made(const Axes& shape, bool packed, const Form& form, std::uint32_t dtype) {
  const bool outside = packed && form.arrangement == Arrangement::kDefault;
  return placed(shape, outside ? Arrangement::kRowsOutside : form.arrangement,
                dtype_of(form.dtype, dtype), form.misalign);
}

}  // namespace

bool in_sequence(GradientOf gradient, const Problem& p, std::int64_t i) {
  const bool of_key = gradient == kGradKey || gradient == kGradValue;
  if (!of_key && gradient != kGradQuery) return true;
  const std::vector<std::int32_t>& offsets = of_key ? p.cu_seqlens_k : p.cu_seqlens_q;
  return offsets.empty() || (i >= offsets.front() && i < offsets.back());
}

const char* name_of(GradientOf gradient) {
  constexpr const char* kNames[] = {"query", "key",    "value", "bias",
                                    "sinks", "slopes", "scale", "temperature"};
  return kNames[gradient];
}

BackwardProblem::BackwardProblem(Problem problem, std::uint64_t seed, const Form& of_out)
    : forward(std::move(problem)),
      grad_out(made(forward.out.shape(), forward.desc.packed_queries > 0, of_out,
                    is_float64(forward.desc) ? HEED_DTYPE_F64 : HEED_DTYPE_F32)) {
  if (!forward.lse) forward.want_lse();
  desc_.grad_out = layout_of(grad_out, of_out.arrangement, grad_out.dtype());
  Random random(seed);
  grad_out.fill([&] { return random.normal(); });
}

void BackwardProblem::give_grad_lse(std::uint64_t seed, const Form& form) {
  grad_lse.emplace(made(forward.lse->shape(), false, form, real_dtype(forward.desc)));
  desc_.grad_lse = layout_of(*grad_lse, form.arrangement, grad_lse->dtype());
  Random random(seed);
  grad_lse->fill([&] { return random.normal(); });
}

bool BackwardProblem::can_want(GradientOf gradient) const {
  if (gradient == kGradBias) return forward.bias.has_value();
  if (gradient == kGradSinks) return !forward.sinks.numbers.empty();
  if (gradient == kGradSlopes) return !forward.slopes.numbers.empty();
  return true;
}

void BackwardProblem::want(GradientOf gradient, const Form& form) {
  std::optional<Tensor>& to = gradients[gradient];
  const heed_attention_desc& d = forward.desc;
  const std::uint32_t wide = is_float64(d) ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  const auto like = [&](const Tensor& tensor, bool packed, heed_layout& layout) {
    to.emplace(made(tensor.shape(), packed, form, wide));
    layout = layout_of(*to, form.arrangement, to->dtype());
  };
  switch (gradient) {
    case kGradQuery:
      return like(forward.query, d.packed_queries > 0, desc_.grad_query);
    case kGradKey:
      return like(forward.key, d.packed_keys > 0, desc_.grad_key);
    case kGradValue:
      return like(forward.value, d.packed_keys > 0, desc_.grad_value);
    case kGradBias:
      to.emplace(placed(forward.bias->shape(), form.arrangement,
                        dtype_of(form.dtype, real_dtype(d)), form.misalign));
      desc_.grad_bias = score_layout_of(*to, form.arrangement, to->dtype());
      desc_.grad_bias.batch = d.bias.batch;  // where they say "the same" by being 0, so does this
      desc_.grad_bias.heads = d.bias.heads;
      desc_.grad_bias.rows = d.bias.rows;
      desc_.grad_bias.keys = d.bias.keys;
      return;
    default:
      const bool one = gradient == kGradScale || gradient == kGradTemperature;
      to.emplace(placed({1, 1, 1, one ? 1 : d.query_heads}, Arrangement::kDefault, real_dtype(d),
                        form.misalign));
  }
}

void BackwardProblem::want_all() {
  for (const GradientOf gradient : all_gradients())
    if (can_want(gradient)) want(gradient);
}

void BackwardProblem::want_nothing() {
  for (auto& gradient : gradients) gradient.reset();
  desc_.accumulate = 0;
}

void BackwardProblem::accumulate(std::uint64_t seed) {
  desc_.accumulate = 1;
  Random random(seed);
  for (const GradientOf gradient : all_gradients())
    before_[gradient] = drawn_before(gradients[gradient], random, [&](Index row) {
      return in_sequence(gradient, forward, row);
    });
}

void BackwardProblem::attend_as_expected() {
  const Expected expected = forward.expected_all();
  const auto take = [](Tensor& to, const std::vector<Element>& from) {
    std::size_t n = 0;
    to.clear();
    to.each([&](const Axes& at) {
      if (from[n].written) to.set(at, from[n].value);
      ++n;
    });
  };
  take(forward.out, expected.out);
  take(*forward.lse, expected.lse);
}

const heed_attention_backward_desc& BackwardProblem::desc() {
  desc_.attention = &forward.desc;
  return desc_;
}

heed_attention_backward_args BackwardProblem::args() {
  heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  forward_args_ = forward.args();
  args.attention = &forward_args_;
  args.grad_out = grad_out.data();
  if (grad_lse) args.grad_lse = grad_lse->data();
  void** const places[] = {&args.grad_query, &args.grad_key,        &args.grad_value,
                           &args.grad_bias,  &args.grad_sinks,      &args.grad_alibi_slopes,
                           &args.grad_scale, &args.grad_temperature};
  for (std::size_t of = 0; of < kGradients; ++of)
    if (gradients[of]) *places[of] = gradients[of]->data();
  args.score_gradient = forward.function.gradient;
  return args;
}

void BackwardProblem::begin() {
  for (std::size_t of = 0; of < kGradients; ++of) {
    if (!gradients[of]) continue;
    gradients[of]->clear();
    if (desc_.accumulate != 0) gradients[of].emplace(*before_[of]);
  }
}

ExpectedGradients BackwardProblem::expected() {
  begin();
  const heed_attention_backward_args arguments = args();
  return expect_gradients({desc(), arguments, forward.function.model, forward.function.derivative});
}

Gradients BackwardProblem::run(const Context& context) {
  const BackwardPlan plan = make_plan(context, desc());
  Workspace workspace(describe(plan).workspace_bytes);
  Gradients got = run([&](const heed_attention_backward_args& arguments) {
    return heed_attention_backward_plan_run(plan.get(), &arguments, workspace.get(),
                                            workspace.bytes());
  });
  if (!workspace.intact()) throw std::runtime_error("wrote outside the workspace");
  return got;
}

Gradients BackwardProblem::run(
    const std::function<heed_status(const heed_attention_backward_args&)>& call) {
  begin();
  require_ok(call(args()));
  Gradients got;
  for (std::size_t of = 0; of < kGradients; ++of) {
    if (!gradients[of]) continue;
    if (!gradients[of]->padding_intact()) throw std::runtime_error("wrote outside a gradient");
    got[of] = gradients[of]->numbers();
  }
  if (forward.tiles && forward.tiles->wrong)
    throw std::runtime_error("a score tile makes no sense");
  return got;
}

std::string line_of(const BackwardProblem& p) { return line_of(p.forward) + line_of_gradients(p); }

bool same_bits(const Gradients& a, const Gradients& b) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](const Numbers& x, const Numbers& y) { return same_bits(x, y); });
}

}  // namespace heed_test
