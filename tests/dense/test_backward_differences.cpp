// The oracle of gradients against differences of the oracle of attention: a random linear function
// of out and lse, a step forward and one back along a random direction of every input. heed itself
// has no part in it.
#include <cmath>

#include "tests/problem/random_backward.hpp"
#include "tests/support/attention.hpp"
#include "tests/support/differences.hpp"

using namespace heed_test;

namespace {

/// <grad_out, out> + <grad_lse, lse>; a row that attends nothing has no lse.
Loss loss_of(BackwardProblem& p) {
  const Expected expected = p.forward.expected_all();
  Loss loss;
  loss.add(p.grad_out, expected.out);
  if (p.grad_lse) loss.add(*p.grad_lse, expected.lse);
  return loss;
}

Direction direction_of(GradientOf gradient, Problem& p, Random& random) {
  heed_attention_desc& d = p.desc;
  switch (gradient) {
    case kGradQuery:
      return of_tensor(p.query, random);
    case kGradKey:
      return of_tensor(p.key, random);
    case kGradValue:
      return of_tensor(p.value, random);
    case kGradBias:
      return of_tensor(*p.bias, random);
    case kGradSinks:
      return of_numbers(p.sinks.numbers, random);
    case kGradSlopes:
      return of_numbers(p.slopes.numbers, random);
    case kGradScale:
      return of_number(d.scale,
                       d.scale != 0 ? d.scale : 1 / std::sqrt(static_cast<double>(d.features)));
    default:
      return of_number(d.temperature, d.temperature != 0 ? d.temperature : 1);
  }
}

bool shares_places(const Tensor& tensor) {
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (tensor.strides()[axis] == 0 && tensor.shape()[axis] > 1) return true;
  return false;
}

/// Whether steps can be taken: what is shared moves once for all, and what is infinite not at all.
bool can_move(GradientOf gradient, const Problem& p) {
  if (gradient == kGradQuery) return !shares_places(p.query);
  if (gradient == kGradKey) return !shares_places(p.key);
  if (gradient == kGradValue) return !shares_places(p.value);
  if (gradient == kGradBias) return !shares_places(*p.bias);
  return gradient != kGradTemperature || std::isfinite(p.desc.temperature);
}

/// Every element between these bounds, which no NaN is.
bool within(const Tensor& tensor, double low, double high) {
  bool all = true;
  tensor.each(
      [&](const Axes& at) { all = all && tensor.get(at) >= low && tensor.get(at) <= high; });
  return all;
}

/// A problem of float64 whose inputs are finite and not far from 0, whatever may be masked by -inf;
/// no score function has a corner.
bool has_differences(const Problem& p) {
  constexpr double kMost = 100;
  const auto near = [](double x) { return x == -kInfinity || std::fabs(x) <= 3 * kMost; };
  bool all_near = true;
  if (p.bias) p.bias->each([&](const Axes& at) { all_near = all_near && near(p.bias->get(at)); });
  for (const auto* const numbers : {&p.sinks.numbers, &p.slopes.numbers})
    for (const double x : *numbers) all_near = all_near && near(x);
  return p.query.dtype() == HEED_DTYPE_F64 && within(p.query, -kMost, kMost) &&
         within(p.key, -kMost, kMost) && within(p.value, -kMost, kMost) && all_near &&
         p.function.name != score_function<Ceiling>().name;
}

/// In types that no step is lost in.
BackwardProblem widened(Problem p, std::uint64_t seed) {
  p.want_lse(HEED_DTYPE_F64);
  if (p.bias) {
    const Tensor bias = *p.bias;
    p.add_bias(bias.shape(), HEED_DTYPE_F64).assign(bias);
  }
  if (p.function.call != nullptr && seed % 2 == 0) p.function = score_function<Bend>();
  return BackwardProblem(std::move(p), seed);
}

}  // namespace

TEST_CASE("gradients are what differences say", "[backward][oracle]") {
  std::array<Seen, kGradients> seen;
  std::size_t problems = 0;
  for (std::uint64_t seed = 1; problems < count(400); ++seed) {
    Problem forward = differentiable(seed);
    if (!has_differences(forward)) continue;
    ++problems;
    BackwardProblem p = widened(std::move(forward), seed);
    if (seed % 3 != 0) p.give_grad_lse(seed + 1);
    p.want_all();
    INFO("seed " << seed << ": " << line_of(p));
    p.attend_as_expected();
    const ExpectedGradients want = p.expected();
    Random random(seed ^ 0xd1ff);
    for (const GradientOf gradient : all_gradients())
      if (p.can_want(gradient) && can_move(gradient, p.forward))
        check_slope(
            name_of(gradient), want[gradient], direction_of(gradient, p.forward, random),
            [&] { return loss_of(p); }, seen[gradient]);
  }
  for (const GradientOf gradient : all_gradients()) {
    INFO(name_of(gradient) << ": " << seen[gradient].tight << " tight ones of "
                           << seen[gradient].compared);
    CHECK((small() || seen[gradient].compared >= problems / 8));
    CHECK((small() || seen[gradient].tight * 2 >= seen[gradient].compared));
  }
}
