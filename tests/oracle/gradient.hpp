// A gradient while it is summed, element by element.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/oracle/bounded.hpp"
#include "tests/oracle/element.hpp"
#include "tests/oracle/given.hpp"
#include "tests/oracle/inputs.hpp"

namespace heed_test {

/// 1 - tanh^2: see backward_row.hpp, 4.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> cap_slope(const Bounded<Wide>& tanh) {
  if (is_unspecified(tanh)) return kUnbounded<Wide>;
  if (std::isnan(tanh.value)) return kNotANumber<Wide>;
  const Wide square = tanh.value * tanh.value;
  const Wide error = 2 * std::fabs(tanh.value) * tanh.bound + tanh.bound * tanh.bound;
  return {1 - square, error + gamma_of<Real>(3) * (1 + square + error)};
}

/// Roundings of a gradient's terms besides those of its sum: a query or key may have been
/// multiplied with a constant of the scores, which heed takes out again, so three and those of
/// constants.
template <class Real>
inline constexpr typename Arithmetic<Real>::Wide kGradientRoundings =
    3 + 2 * Arithmetic<Real>::kConstant;

/// A sum times a factor, with so many more roundings of its terms.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> scaled_gradient(const BoundedSum<Real>& sum, const Bounded<Wide>& factor,
                              Wide roundings) {
  const Bounded<Wide> result = sum.result(roundings);
  return factor.value == 1 && factor.bound == 0 ? result : product<Real>(result, factor);
}

/// A gradient while it is summed: one number per element, where it lies, and where it is marked as
/// written.
template <class Real>
class Gradient {
  using Wide = typename Arithmetic<Real>::Wide;

 public:
  using Sizes = std::array<Index, 4>;

  Gradient() = default;
  Gradient(const GivenGradient& given, bool written) : lies_(given.lies), shape_(given.shape) {
    if (lies_.data == nullptr) return;
    const Index n = shape_[0] * shape_[1] * shape_[2] * shape_[3];
    sums_.resize(static_cast<std::size_t>(n));
    written_.assign(sums_.size(), written);
  }

  bool asked() const { return !sums_.empty(); }

  /// An axis of size 1 takes what belongs to any index.
  BoundedSum<Real>& at(Index b, Index h, Index i, Index x) { return sums_[index({b, h, i, x})]; }

  /// Row i belongs to a sequence.
  void mark(Index b, Index h, Index i) {
    if (!asked()) return;
    const auto first = written_.begin() + static_cast<std::ptrdiff_t>(index({b, h, i, 0}));
    std::fill_n(first, shape_[3], true);
  }

  /// Every sum times a factor, with so many more roundings of its terms, and added to what is
  /// there, which may see several additions.
  std::vector<Element> elements(const Bounded<Wide>& factor, Wide roundings, bool accumulate,
                                std::uint32_t real, Wide additions = 1) const {
    std::vector<Element> all;
    for (std::size_t n = 0; n < sums_.size(); ++n) {
      if (!written_[n]) {
        all.push_back(kUnwritten);
        continue;
      }
      Bounded<Wide> total = scaled_gradient(sums_[n], factor, roundings);
      if (accumulate) {
        Bounded<Wide> there = before(n);
        there.bound = gamma_of<Real>(additions - 1) * std::fabs(there.value);
        total = sum<Real>(total, there);
      }
      all.push_back(stored(total.value, total.bound, lies_.dtype, real));
    }
    return all;
  }

 private:
  std::size_t index(Sizes at) const {
    Index n = 0;
    for (std::size_t axis = 0; axis < 4; ++axis)
      n = n * shape_[axis] + (shape_[axis] == 1 ? 0 : at[axis]);
    return static_cast<std::size_t>(n);
  }

  Bounded<Wide> before(std::size_t n) const {
    auto rest = static_cast<Index>(n);
    Sizes at{};
    for (std::size_t axis = 4; axis-- > 0;) {
      at[axis] = rest % shape_[axis];
      rest /= shape_[axis];
    }
    // Converted to the arithmetic's type first, whatever its own.
    return {static_cast<Wide>(static_cast<Real>(lies_.at(at[0], at[1], at[2], at[3]))), 0};
  }

  Source lies_{};
  Sizes shape_{};
  std::vector<BoundedSum<Real>> sums_;
  std::vector<bool> written_;
};

}  // namespace heed_test
