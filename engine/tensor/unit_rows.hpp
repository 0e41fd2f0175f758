// Rows of length 1, for scores that are cosines: row / max(|row|, 1e-12), as PyTorch's normalize()
// has it, and the way back of gradients. Lengths are of float64.
#pragma once

#include <cstddef>

#include "engine/kernels/table.hpp"

namespace heed {

/// to = factor * row / |row|; both may be one. An infinity becomes NaN.
template <class Real>
void divide_by_norm(const KernelTable<Real>& kernels, const Real* row, std::size_t count,
                    double factor, Real* to);

/// Turns the gradient of factor * row / |row| into the row's, and returns what it had along the
/// row, <row / |row|, gradient>. Where there is no gradient there is none, whatever the row holds.
template <class Real>
double go_through_norm(const KernelTable<Real>& kernels, const Real* row, std::size_t count,
                       double factor, Real* gradient);

}  // namespace heed
