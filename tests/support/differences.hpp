// Gradients against differences: a step forward and one back along a random direction of an input.
#pragma once

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "tests/oracle/element.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

/// What is differentiated, with what it could lose by rounding.
struct Loss {
  long double value = 0;
  long double size = 0;

  /// A row that attends nothing has no lse.
  void add(const Tensor& gradient, const std::vector<Element>& of) {
    std::size_t n = 0;
    gradient.each([&](const Axes& at) {
      const Element& e = of[n++];
      if (!e.written || e.value == -kInfinity) return;
      const long double term = static_cast<long double>(gradient.get(at)) * e.value;
      value += term;
      size += std::fabs(term);
    });
  }
};

/// Moves one input by `step` along a direction.
using Move = std::function<void(double step)>;

struct Direction {
  Move move;
  std::vector<double> along;  ///< in the order of the gradient's elements
};

inline std::vector<double> drawn(std::size_t count, Random& random) {
  std::vector<double> numbers(count);
  for (double& x : numbers) x = random.normal<double>();
  return numbers;
}

inline Direction of_tensor(Tensor& tensor, Random& random) {
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

inline Direction of_numbers(std::vector<double>& numbers, Random& random) {
  const std::vector<double> at_first = numbers;
  const std::vector<double> along = drawn(numbers.size(), random);
  return {[=, &numbers](double step) {
            for (std::size_t n = 0; n < numbers.size(); ++n)
              numbers[n] = at_first[n] + step * along[n];
          },
          along};
}

inline Direction of_number(double& number, double at_first) {
  const double before = number;  // 0 says that it is at_first
  return {[=, &number](double step) { number = step == 0 ? before : at_first + step; }, {1}};
}

/// Steps of h and h / 2: together they are off by O(h^4), and by less than they differ.
struct Difference {
  long double value;
  long double error;
};

template <class LossOf>
Difference difference_of(const Move& move, LossOf&& loss_of) {
  constexpr double kStep = 0x1p-16;
  const auto slope = [&](double step) {
    move(step);
    const Loss after = loss_of();
    move(-step);
    const Loss before = loss_of();
    // The outputs are float64 numbers.
    return std::pair{(after.value - before.value) / (2 * step),
                     0x1p-52L * (after.size + before.size) / step};
  };
  const auto [whole, lost] = slope(kStep);
  const auto [half, lost_of_half] = slope(kStep / 2);
  move(0);
  return {(4 * half - whole) / 3, std::fabs(half - whole) + lost + 2 * lost_of_half};
}

/// What was compared, and how much of it within a difference that says something.
struct Seen {
  std::size_t compared = 0;
  std::size_t tight = 0;
};

/// Holds the gradient `elements` against a difference along a direction.
template <class LossOf>
void check_slope(const char* name, const std::vector<Element>& elements, const Direction& direction,
                 LossOf&& loss_of, Seen& seen) {
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
  const Difference got = difference_of(direction.move, loss_of);
  const long double error = got.error + bound + 0x1p-45L * size;
  ++seen.compared;
  if (error < 1e-4L * size) ++seen.tight;
  if (std::fabs(got.value - want) <= error) return;
  FAIL_CHECK("gradient of " << name << ": a difference is " << got.value << " within " << error
                            << ", the oracle says " << want);
}

}  // namespace heed_test
