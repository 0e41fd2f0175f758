#include "engine/tensor/unit_rows.hpp"

#include <cmath>

namespace heed {
namespace {

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

}  // namespace

template <class Real>
void divide_by_norm(const KernelTable<Real>& kernels, const Real* row, std::size_t count,
                    double factor, Real* to) {
  const Norm norm = norm_of(kernels, row, count);
  const double inverse = norm.inverse * factor;
  for (std::size_t x = 0; x < count; ++x)
    to[x] = static_cast<Real>(static_cast<double>(row[x]) * norm.scale * inverse);
}

template <class Real>
double go_through_norm(const KernelTable<Real>& kernels, const Real* row, std::size_t count,
                       double factor, Real* gradient) {
  const Norm norm = norm_of(kernels, row, count);
  double along = 0;
  for (std::size_t x = 0; x < count; ++x) {
    if (gradient[x] == 0) continue;
    along += static_cast<double>(row[x]) * norm.scale * static_cast<double>(gradient[x]);
  }
  if (along != 0) along *= norm.inverse;
  const double by = norm.inverse * norm.scale * factor;
  for (std::size_t x = 0; x < count; ++x) {
    double of_unit = static_cast<double>(gradient[x]);
    if (along != 0 && !norm.least)
      of_unit -= static_cast<double>(row[x]) * norm.scale * norm.inverse * along;
    gradient[x] = 0;
    if (of_unit != 0) gradient[x] = static_cast<Real>(of_unit * by);  // 0 * NaN is NaN
  }
  return along;
}

template void divide_by_norm(const KernelTable<float>&, const float*, std::size_t, double, float*);
template void divide_by_norm(const KernelTable<double>&, const double*, std::size_t, double,
                             double*);
template double go_through_norm(const KernelTable<float>&, const float*, std::size_t, double,
                                float*);
template double go_through_norm(const KernelTable<double>&, const double*, std::size_t, double,
                                double*);

}  // namespace heed
