// Gradients of dense attention: heed_attention_backward_plan_create and _run.
#include "tests/fuzz/attention_case.hpp"
#include "tests/fuzz/check.hpp"
#include "tests/fuzz/plan.hpp"
#include "tests/support/backward_problem.hpp"

using namespace heed_test;

namespace {

/// Attention that has gradients, and no outputs but out and lse.
heed_attention_desc draw_differentiable(Draw& draw) {
  heed_attention_desc d = draw_attention(draw, false);
  d.hard = d.weights_point = d.sum_columns = 0;
  d.weight_rows = d.pages = d.page_rows = d.block_table_stride = 0;
  const bool float64 = draw.one_in(4);
  draw_layouts(draw, d, float64);
  for (heed_layout* const layout : {&d.key, &d.value})
    if (is_scaled(layout->dtype)) layout->dtype = HEED_DTYPE_BF16;
  d.key_scales = d.value_scales = HEED_LAYOUT_INIT;
  return d;
}

/// The sizes of a bias are those of its gradient.
heed_score_layout bias_layout_of(const heed_attention_backward_desc& d) {
  heed_score_layout layout = d.grad_bias;
  layout.batch = d.attention->bias.batch;
  layout.heads = d.attention->bias.heads;
  layout.rows = d.attention->bias.rows;
  layout.keys = d.attention->bias.keys;
  return layout;
}

/// What layouts of gradients reach.
struct Extents {
  explicit Extents(const heed_attention_backward_desc& d) : Extents(d, *d.attention) {}
  Extents(const heed_attention_backward_desc& d, const heed_attention_desc& a)
      : Extents(d, a, AttentionShapes(a)) {}
  Extents(const heed_attention_backward_desc& d, const heed_attention_desc& a,
          const AttentionShapes& shapes)
      : grad_out(shapes.out, d.grad_out, real_dtype(a), a.packed_queries > 0),
        grad_lse({shapes.query[0], shapes.query[1], shapes.query[2], 1}, d.grad_lse, real_dtype(a),
                 false),
        written{Extent(shapes.query, d.grad_query, real_dtype(a), a.packed_queries > 0),
                Extent(shapes.key, d.grad_key, real_dtype(a), a.packed_keys > 0),
                Extent(shapes.value, d.grad_value, real_dtype(a), a.packed_keys > 0),
                Extent({a.batch, a.query_heads, a.query_length, a.key_length}, bias_layout_of(d),
                       real_dtype(a))} {}

  bool small() const {
    bool all = check_extent(grad_out);
    all = check_extent(grad_lse) && all;
    for (const Extent& extent : written) all = check_extent(extent) && all;
    for (const Extent& extent : written)
      if (all) demand(extent.apart(), "a gradient whose elements overlap is accepted");
    return all;
  }

  Extent grad_out, grad_lse;
  std::array<Extent, 4> written;  ///< gradients of query, key, value and bias
};

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
  d.grad_lse =
      draw.layout({shapes.query[0], shapes.query[1], shapes.query[2], 1}, Use::kRead,
                  draw.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64}));
  d.grad_query = layout(shapes.query, Use::kWritten);
  d.grad_key = layout(shapes.key, Use::kWritten);
  d.grad_value = layout(shapes.value, Use::kWritten);
  d.grad_bias.dtype = draw.dtype();
  return d;
}

/// A run, with its tensors.
class BackwardCase {
 public:
  BackwardCase(Draw& draw, const heed_attention_backward_desc& desc, AttentionCase& attention)
      : desc_(desc), attention_(attention), problem_(attention.problem()), extents_(desc) {
    Random random(draw.bits());
    const auto next = [&] { return random.normal(); };
    grad_out_ = extents_.grad_out.tensor(1);
    grad_out_->fill(next);
    problem_.out.fill(next);
    if (problem_.lse) problem_.lse->fill([&] { return 3 * random.normal(); });
    if (draw.one_in(2)) {
      grad_lse_ = extents_.grad_lse.tensor(0);
      grad_lse_->fill(next);
    }
    if (problem_.lse && draw.one_in(6)) draw.plant({&*problem_.lse, &problem_.out, &*grad_out_});
    const bool all = draw.one_in(2);
    for (const GradientOf gradient : all_gradients())
      if (has(gradient) && (all || draw.one_in(2))) want(gradient, random);
  }

  bool valid() const { return attention_.valid() && problem_.lse.has_value(); }

  heed_attention_backward_args args() {
    heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
    inner_ = attention_.args();
    args.attention = &inner_;
    args.grad_out = grad_out_->data();
    if (grad_lse_) args.grad_lse = grad_lse_->data();
    for (std::size_t of = 0; of < kGradients; ++of)
      if (gradients_[of]) *place(args, of) = gradients_[of]->data();
    args.score_gradient = problem_.function.gradient;
    return args;
  }

  ExpectedGradients expected(const heed_attention_backward_args& args) const {
    const bool function = problem_.function.call != nullptr;
    return expect_gradients({desc_, args, function ? problem_.function.model : ScoreModel(),
                             function ? problem_.function.derivative : ScoreModel()});
  }

  void check(heed_attention_backward_args& args, const ExpectedGradients& want) const {
    if (problem_.tiles) demand(!problem_.tiles->wrong, "a score tile makes no sense");
    for (const GradientOf gradient : all_gradients())
      if (gradients_[gradient] && *place(args, gradient) != nullptr)
        check_equal(name_of(gradient), *gradients_[gradient], want[gradient]);
      else
        check_untouched(gradient);
  }
  void check_untouched() const {
    for (const GradientOf gradient : all_gradients()) check_untouched(gradient);
  }

 private:
  static void** place(heed_attention_backward_args& args, std::size_t of) {
    void** const places[] = {&args.grad_query, &args.grad_key,        &args.grad_value,
                             &args.grad_bias,  &args.grad_sinks,      &args.grad_alibi_slopes,
                             &args.grad_scale, &args.grad_temperature};
    return places[of];
  }

  bool has(GradientOf gradient) const {
    if (gradient == kGradBias) return problem_.bias.has_value();
    if (gradient == kGradSinks) return !problem_.sinks.numbers.empty();
    if (gradient == kGradSlopes) return !problem_.slopes.numbers.empty();
    return true;
  }

  void want(GradientOf gradient, Random& random) {
    std::optional<Tensor>& to = gradients_[gradient];
    const bool one = gradient == kGradScale || gradient == kGradTemperature;
    if (gradient < extents_.written.size())
      to = extents_.written[gradient].tensor(1);
    else
      to = placed({1, 1, 1, one ? 1 : desc_.attention->query_heads}, Arrangement::kDefault,
                  real_dtype(*desc_.attention), 1);
    if (desc_.accumulate == 0) return;
    to->each([&](const Axes& at) {
      if (in_sequence(gradient, problem_, at[2])) to->set(at, random.normal());
    });
    before_[gradient] = to->numbers();
  }

  void check_untouched(GradientOf gradient) const {
    if (!gradients_[gradient]) return;
    if (desc_.accumulate == 0) return heed_test::check_untouched(*gradients_[gradient]);
    demand(same_bits(gradients_[gradient]->numbers(), before_[gradient]),
           "a refused call changed a gradient");
  }

  const heed_attention_backward_desc& desc_;
  AttentionCase& attention_;
  Problem& problem_;
  Extents extents_;
  heed_attention_args inner_{};
  std::optional<Tensor> grad_out_, grad_lse_;
  std::array<std::optional<Tensor>, kGradients> gradients_;
  Gradients before_;
};

/// Pointers that are as good a byte further, or none of a tensor's.
constexpr std::initializer_list<std::size_t> kKept = {
    offsetof(heed_attention_backward_args, attention),
    offsetof(heed_attention_backward_args, score_gradient)};

void run(Draw& draw, const heed_attention_backward_plan* plan,
         const heed_attention_backward_desc& desc, AttentionCase& attention) {
  attention.make(draw);
  BackwardCase backward(draw, desc, attention);
  heed_attention_backward_args args = backward.args();
  const bool damaged = draw.damage_pointers(args, kKept);
  const Versioned<heed_attention_backward_args> given(draw, args);
  heed_attention_backward_args known = given.known();
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
  if (Extents(known).small() && small && worth_running(draw, damaged)) run(draw, made, known, of);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_attention_desc attention = draw_differentiable(first);
  const heed_attention_backward_desc desc = draw_backward(first, attention);
  each_variant(first, [&](Draw& draw, bool damaged) { plan(draw, attention, desc, damaged); });
  return 0;
}
