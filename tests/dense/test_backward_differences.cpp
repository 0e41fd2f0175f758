// The oracle of gradients against differences of the oracle of attention: a random linear function
// of out and lse, a step forward and one back along a random direction of every input. heed itself
// has no part in it.
#include <cmath>

#include "tests/dense/random_backward.hpp"
#include "tests/support/attention.hpp"

using namespace heed_test;

namespace {

/// What is differentiated, with what it could lose by rounding.
struct Loss {
  long double value = 0;
  long double size = 0;
};

/// <grad_out, out> + <grad_lse, lse>; a row that attends nothing has no lse.
Loss loss_of(BackwardProblem& p) {
  const Expected expected = p.forward.expected_all();
  Loss loss;
  const auto add = [&](const Tensor& gradient, const std::vector<Element>& of) {
    std::size_t n = 0;
    gradient.each([&](const Axes& at) {
      const Element& e = of[n++];
      if (!e.written || e.value == -kInfinity) return;
      const long double term = static_cast<long double>(gradient.get(at)) * e.value;
      loss.value += term;
      loss.size += std::fabs(term);
    });
  };
  add(p.grad_out, expected.out);
  if (p.grad_lse) add(*p.grad_lse, expected.lse);
  return loss;
}

/// Moves one input by `step` along a direction.
using Move = std::function<void(double step)>;

struct Direction {
  Move move;
  std::vector<double> along;  ///< in the order of the gradient's elements
};

std::vector<double> drawn(std::size_t count, Random& random) {
  std::vector<double> numbers(count);
  for (double& x : numbers) x = random.normal<double>();
  return numbers;
}

Direction of_tensor(Tensor& tensor, Random& random) {
  std::vector<double> at_first;
  tensor.each([&](const Axes& at) { at_first.push_back(tensor.get(at)); });
  const std::vector<double> along = drawn(at_first.size(), random);
  return {[=, &tensor](double step) {
            std::size_t n = 0;
            tensor.each([&](const Axes& at) {
              tensor.set(at, at_first[n] + step * along[n]);
              ++n;
            });
          },
          along};
}

Direction of_numbers(std::vector<double>& numbers, Random& random) {
  const std::vector<double> at_first = numbers;
  const std::vector<double> along = drawn(numbers.size(), random);
  return {[=, &numbers](double step) {
            for (std::size_t n = 0; n < numbers.size(); ++n)
              numbers[n] = at_first[n] + step * along[n];
          },
          along};
}

Direction of_number(double& number, double at_first) {
  const double before = number;  // 0 says that it is at_first
  return {[=, &number](double step) { number = step == 0 ? before : at_first + step; }, {1}};
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

/// Steps of h and h / 2: together they are off by O(h^4), and by less than they differ.
struct Difference {
  long double value;
  long double error;
};

Difference difference_of(BackwardProblem& p, const Move& move) {
  constexpr double kStep = 0x1p-16;
  const auto slope = [&](double step) {
    move(step);
    const Loss after = loss_of(p);
    move(-step);
    const Loss before = loss_of(p);
    // The outputs are float64 numbers.
    return std::pair{(after.value - before.value) / (2 * step),
                     0x1p-52L * (after.size + before.size) / step};
  };
  const auto [whole, lost] = slope(kStep);
  const auto [half, lost_of_half] = slope(kStep / 2);
  move(0);
  return {(4 * half - whole) / 3, std::fabs(half - whole) + lost + 2 * lost_of_half};
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

/// What was compared, and how much of it within a difference that says something.
struct Seen {
  std::size_t compared = 0;
  std::size_t tight = 0;
};

void check_gradient(GradientOf gradient, BackwardProblem& p, const std::vector<Element>& elements,
                    Random& random, Seen& seen) {
  const Direction direction = direction_of(gradient, p.forward, random);
  REQUIRE(direction.along.size() == elements.size());
  long double want = 0;
  long double bound = 0;
  long double size = 0;
  for (std::size_t n = 0; n < elements.size(); ++n) {
    if (!elements[n].written) continue;
    if (std::isinf(elements[n].bound)) return;
    want += static_cast<long double>(direction.along[n]) * elements[n].value;
    size += std::fabs(direction.along[n] * elements[n].value);
    bound += static_cast<long double>(std::fabs(direction.along[n])) * elements[n].bound;
  }
  const Difference got = difference_of(p, direction.move);
  const long double error = got.error + bound + 0x1p-45L * size;
  ++seen.compared;
  if (error < 1e-4L * size) ++seen.tight;
  if (std::fabs(got.value - want) <= error) return;
  FAIL_CHECK("gradient of " << name_of(gradient) << ": a difference is " << got.value << " within "
                            << error << ", the oracle says " << want);
}

/// Every element between these bounds, which no NaN is.
bool within(const Tensor& tensor, double low, double high) {
  bool all = true;
  tensor.each(
      [&](const Axes& at) { all = all && tensor.get(at) >= low && tensor.get(at) <= high; });
  return all;
}

/// A problem of float64 whose inputs are finite, whatever may be masked by -inf; no score function
/// has a corner.
bool has_differences(const Problem& p) {
  const auto& sinks = p.sinks.numbers;
  constexpr double kMost = 100;
  return p.query.dtype() == HEED_DTYPE_F64 && within(p.query, -kMost, kMost) &&
         within(p.key, -kMost, kMost) && within(p.value, -kMost, kMost) &&
         (!p.bias || within(*p.bias, -kInfinity, kMost)) &&
         p.function.name != score_function<Ceiling>().name &&
         std::count(sinks.begin(), sinks.end(), kInfinity) == 0;
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
        check_gradient(gradient, p, want[gradient], random, seen[gradient]);
  }
  for (const GradientOf gradient : all_gradients()) {
    INFO(name_of(gradient) << ": " << seen[gradient].tight << " tight ones of "
                           << seen[gradient].compared);
    CHECK((small() || seen[gradient].compared >= problems / 8));
    CHECK((small() || seen[gradient].tight * 2 >= seen[gradient].compared));
  }
}
