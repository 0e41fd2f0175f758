// Rows of length 1, for scores that are cosines: row / max(|row|, 1e-12), as PyTorch's normalize()
// has it, and the way back of gradients.
#pragma once

#include <cmath>
#include <cstddef>

#include "engine/kernels/table.hpp"

namespace heed {

/// A row times scale times inverse has length 1. The scale is a power of two: 1, but where squares
/// would leave the range of double.
struct Norm {
  static constexpr double kLeast = 1e-12;

  double scale = 1;
  double inverse = 0;
  bool least = false;  ///< the row is shorter than kLeast, by which it is divided
};

template <class Real>
Norm norm_of(const KernelTable<Real>& kernels, const Real* row, std::size_t count) {
  constexpr double kScale = 0x1p-600;
  Norm norm;
  double squares = kernels.numbers.inner_product(row, row, count);
  if (std::isinf(squares)) {
    norm.scale = kScale;
    squares = 0;
    for (std::size_t x = 0; x < count; ++x) {
      const double scaled = static_cast<double>(row[x]) * kScale;
      squares += scaled * scaled;
    }
  }
  norm.least = squares < Norm::kLeast * Norm::kLeast && norm.scale == 1;
  norm.inverse = 1 / (norm.least ? Norm::kLeast : std::sqrt(squares));
  return norm;
}

/// to = factor * row / |row|; both may be one. An infinity becomes NaN.
template <class Real>
Norm divide_by_norm(const KernelTable<Real>& kernels, const Real* row, std::size_t count,
                    double factor, Real* to) {
  const Norm norm = norm_of(kernels, row, count);
  const double inverse = norm.inverse * factor;
#pragma GCC unroll 8
  for (std::size_t x = 0; x < count; ++x)
    to[x] = static_cast<Real>(static_cast<double>(row[x]) * norm.scale * inverse);
  return norm;
}

/// <row / |row|, gradient>; what has no gradient takes no part, whatever the row holds.
template <class Real>
double along_unit_row(const Norm& norm, const Real* row, std::size_t count, const Real* gradient) {
  double sum = 0;
  for (std::size_t x = 0; x < count; ++x) {
    if (gradient[x] == 0) continue;
    sum += static_cast<double>(row[x]) * norm.scale * static_cast<double>(gradient[x]);
  }
  return sum == 0 ? 0 : sum * norm.inverse;
}

/// Turns the gradient of factor * row / |row| into the row's, where `along` is along_unit_row().
template <class Real>
void go_through_norm(const Norm& norm, const Real* row, std::size_t count, double factor,
                     double along, Real* gradient) {
  const double inverse = norm.inverse * norm.scale * factor;
  for (std::size_t x = 0; x < count; ++x) {
    double of_unit = static_cast<double>(gradient[x]);
    if (along != 0 && !norm.least)
      of_unit -= static_cast<double>(row[x]) * norm.scale * norm.inverse * along;
    gradient[x] = 0;
    if (of_unit != 0) gradient[x] = static_cast<Real>(of_unit * inverse);  // 0 * NaN is NaN
  }
}

}  // namespace heed
