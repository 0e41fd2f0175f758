#include "tests/problem/random_backward.hpp"

#include "tests/problem/drawing.hpp"

namespace heed_test {
namespace {

class Backwards : Drawing {
 public:
  Backwards(std::uint64_t seed, Lengths lengths)
      : Drawing(seed ^ 0xbac4), seed_(seed), lengths_(lengths) {}

  BackwardProblem draw() {
    Problem forward = differentiable(seed_, lengths_);
    if (forward.function.call != nullptr && one_in(2)) forward.function = score_function<Bend>();
    wide_ = is_float64(forward.desc);
    BackwardProblem p(std::move(forward), random_.bits(), draw_form());
    if (one_in(2)) p.give_grad_lse(random_.bits(), draw_real());
    if (one_in(10)) plant(p.grad_out);
    if (p.grad_lse && one_in(20)) plant(*p.grad_lse);
    const bool all = one_in(2);
    for (const GradientOf gradient : all_gradients())
      if (p.can_want(gradient) && (all || one_in(2)))
        p.want(gradient, gradient == kGradBias ? draw_any() : draw_form());
    if (one_in(4)) p.accumulate(random_.bits());
    return p;
  }

 private:
  Form draw_as(std::uint32_t dtype) {
    return {dtype, draw_arrangement(), static_cast<std::size_t>(random_.integer(0, 3))};
  }
  /// Of rows: float64 if the problem is.
  Form draw_form() {
    if (wide_) return draw_as(HEED_DTYPE_F64);
    return draw_as(pick<std::uint32_t>(
        {HEED_DTYPE_F32, HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_DEFAULT}));
  }
  Form draw_real() {
    return draw_as(pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64}));
  }
  Form draw_any() { return draw_as(static_cast<std::uint32_t>(random_.integer(0, 4))); }

  std::uint64_t seed_;
  Lengths lengths_;
  bool wide_ = false;
};

}  // namespace

Problem differentiable(std::uint64_t seed, Lengths lengths) {
  for (std::uint64_t n = 0;; ++n) {
    Problem p = RandomForms(seed + (n << 32U), lengths).draw();
    const heed_attention_desc& d = p.desc;
    if (d.hard != 0 || d.pages > 0 || p.key_scales || p.value_scales) continue;
    p.want_nothing_else();
    p.want_lse(d.lse.dtype);
    return p;
  }
}

BackwardProblem draw_backward(std::uint64_t seed, Lengths lengths) {
  return Backwards(seed, lengths).draw();
}

}  // namespace heed_test
