// Gradients of dense attention: heed_attention_backward_plan_create and _run.
#include "tests/fuzz/attention_case.hpp"
#include "tests/fuzz/gradient_case.hpp"
#include "tests/fuzz/plan.hpp"
#include "tests/problem/attention_backward.hpp"

using namespace heed_test;

namespace {

/// Attention that has gradients, and no outputs but out and lse.
heed_attention_desc draw_differentiable(Draw& draw) {
  heed_attention_desc d = draw_attention(draw, false);
  make_differentiable(d);
  const bool float64 = draw.one_in(4);
  draw_layouts(draw, d, float64);
  for (heed_layout* const layout : {&d.key, &d.value})
    if (is_scaled(layout->dtype)) layout->dtype = HEED_DTYPE_BF16;
  d.key_scales = d.value_scales = HEED_LAYOUT_INIT;
  return d;
}

using Args = heed_attention_backward_args;
using DenseGradients = GradientCase<Args, kGradients>;
constexpr DenseGradients::Places kPlaces = {{{"query", &Args::grad_query},
                                             {"key", &Args::grad_key},
                                             {"value", &Args::grad_value},
                                             {"bias", &Args::grad_bias},
                                             {"sinks", &Args::grad_sinks},
                                             {"slopes", &Args::grad_alibi_slopes},
                                             {"scale", &Args::grad_scale},
                                             {"temperature", &Args::grad_temperature}}};

heed_attention_backward_desc draw_backward(Draw& draw, const heed_attention_desc& attention) {
  heed_attention_backward_desc d = HEED_ATTENTION_BACKWARD_DESC_INIT;
  d.attention = &attention;
  d.accumulate = draw.one_in(4) ? 1 : 0;
  const AttentionShapes shapes(attention);
  const bool float64 = is_float64(attention);
  const auto layout = [&](const Axes& shape, Use use) {
    return draw.layout(shape, use, draw.dtype(float64, false));
  };
  d.grad_out = layout(shapes.out, Use::kRead);
  d.grad_lse = draw_lse_layout(draw, {shapes.query[0], shapes.query[1], shapes.query[2], 1});
  d.grad_query = layout(shapes.query, Use::kWritten);
  d.grad_key = layout(shapes.key, Use::kWritten);
  d.grad_value = layout(shapes.value, Use::kWritten);
  d.grad_bias.dtype = draw.dtype();
  return d;
}

/// Runs of a plan, with their tensors.
class BackwardCase {
 public:
  BackwardCase(const heed_attention_backward_desc& desc, AttentionCase& attention)
      : desc_(desc),
        attention_(attention),
        problem_(attention.problem()),
        shapes_(*desc.attention),
        grad_out_in_(shapes_.out, desc.grad_out, real(), packed_q()),
        grad_lse_in_({shapes_.query[0], shapes_.query[1], shapes_.query[2], 1}, desc.grad_lse,
                     real(), false),
        gradients_(kPlaces, desc.accumulate) {
    const heed_attention_desc& a = *desc.attention;
    gradients_.reach(kGradQuery, Extent(shapes_.query, desc.grad_query, real(), packed_q()));
    gradients_.reach(kGradKey, Extent(shapes_.key, desc.grad_key, real(), a.packed_keys > 0));
    gradients_.reach(kGradValue, Extent(shapes_.value, desc.grad_value, real(), a.packed_keys > 0));
    gradients_.reach(kGradBias, Extent({a.batch, a.query_heads, a.query_length, a.key_length},
                                       gradient_layout(desc.grad_bias, a.bias), real()));
    for (const GradientOf of : {kGradSinks, kGradSlopes}) gradients_.reach(of, heads(), real());
    for (const GradientOf of : {kGradScale, kGradTemperature}) gradients_.reach(of, 1, real());
  }

  bool small() const {
    bool all = check_extent(grad_out_in_);
    all = check_extent(grad_lse_in_) && all;
    return gradients_.small() && all;
  }

  void make(Draw& draw) {
    attention_.make(draw);
    Random random(draw.bits());
    const auto next = [&] { return random.normal(); };
    grad_out_ = grad_out_in_.tensor(1);
    grad_out_->fill(next);
    problem_.out.fill(next);
    if (problem_.lse) problem_.lse->fill([&] { return 3 * random.normal(); });
    if (draw.one_in(2)) {
      grad_lse_ = grad_lse_in_.tensor(0);
      grad_lse_->fill(next);
    }
    if (problem_.lse && draw.one_in(6)) draw.plant({&*problem_.lse, &problem_.out, &*grad_out_});
    gradients_.make(
        draw, random, [&](std::size_t of) { return has(of); },
        [&](std::size_t of, Index row) {
          return in_sequence(static_cast<GradientOf>(of), problem_, row);
        });
  }

  bool valid() const { return attention_.valid() && problem_.lse.has_value(); }

  Args args() {
    Args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
    inner_ = attention_.args();
    args.attention = &inner_;
    args.grad_out = grad_out_->data();
    if (grad_lse_) args.grad_lse = grad_lse_->data();
    gradients_.give(args);
    args.score_gradient = problem_.function.gradient;
    return args;
  }

  ExpectedGradients expected(const Args& args) const {
    const bool function = problem_.function.call != nullptr;
    return expect_gradients({desc_, args, function ? problem_.function.model : ScoreModel(),
                             function ? problem_.function.derivative : ScoreModel()});
  }

  void check(const Args& args, const ExpectedGradients& want) const {
    if (problem_.tiles) demand(!problem_.tiles->wrong, "a score tile makes no sense");
    gradients_.check(args, want);
  }
  void check_untouched() const { gradients_.check_untouched(); }

 private:
  std::uint32_t real() const { return real_dtype(*desc_.attention); }
  bool packed_q() const { return desc_.attention->packed_queries > 0; }
  std::int64_t heads() const { return desc_.attention->query_heads; }

  bool has(std::size_t of) const {
    if (of == kGradBias) return problem_.bias.has_value();
    if (of == kGradSinks) return !problem_.sinks.numbers.empty();
    if (of == kGradSlopes) return !problem_.slopes.numbers.empty();
    return true;
  }

  const heed_attention_backward_desc& desc_;
  AttentionCase& attention_;
  Problem& problem_;
  const AttentionShapes shapes_;
  Extent grad_out_in_, grad_lse_in_;
  DenseGradients gradients_;
  heed_attention_args inner_{};
  std::optional<Tensor> grad_out_, grad_lse_;
};

/// Pointers that are as good a byte further, or none of a tensor's.
constexpr std::initializer_list<std::size_t> kKept = {
    offsetof(heed_attention_backward_args, attention),
    offsetof(heed_attention_backward_args, score_gradient)};

void run(Draw& draw, const heed_attention_backward_plan* plan, BackwardCase& backward) {
  backward.make(draw);
  Args args = backward.args();
  const bool damaged = draw.damage_pointers(args, kKept);
  const Versioned<Args> given(draw, args);
  const Args known = given.known();
  // Before the run, which writes over what it adds to. A struct of another size may end in the
  // middle of a pointer.
  const bool whole = backward.valid() && !damaged && !given.odd();
  ExpectedGradients want;
  if (whole) want = backward.expected(known);
  const RunSpace space(draw, plan);
  const heed_status status =
      heed_attention_backward_plan_run(plan, given.get(), space.get(), space.bytes());
  const bool accepted = ran(status, space, backward.valid() && !damaged && !given.odd());
  if (!accepted) return backward.check_untouched();
  if (whole) backward.check(known, want);
}

void plan(Draw& draw, heed_attention_desc attention, heed_attention_backward_desc desc,
          bool damaged) {
  desc.attention = &attention;
  const bool inside = damaged && draw.one_in(2);
  if (inside) draw.damage(attention);
  if (damaged && !inside) draw.damage(desc, offsetof(heed_attention_backward_desc, grad_out));
  const Versioned<heed_attention_backward_desc> given(draw, desc);
  const heed_attention_backward_desc known = given.known();
  heed_attention_backward_plan* made = nullptr;
  const heed_status status =
      heed_attention_backward_plan_create(fuzz_context().get(), given.get(), &made);
  const BackwardPlan owner(made);
  if (!planned(status, made, damaged || given.odd(), {"desc."})) return;
  demand(known.attention != nullptr, "gradients of no attention are accepted");
  AttentionCase of(attention, true);
  const bool small = of.small();
  BackwardCase backward(known, of);
  if (backward.small() && small && worth_running(draw, damaged)) run(draw, made, backward);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_attention_desc attention = draw_differentiable(first);
  const heed_attention_backward_desc desc = draw_backward(first, attention);
  each_variant(first, [&](Draw& draw, bool damaged) { plan(draw, attention, desc, damaged); });
  return 0;
}
