#include "engine/tensor/scale.hpp"

#include <cmath>

#include "engine/runtime/error.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {
namespace {

/// As a float it has all its digits.
constexpr double kLargestSlope = 1e30;

/// A factor must not overflow: 0 times infinity would be NaN.
void check_factor(bool float64, const char* field, double value, double factor) {
  const double largest = float64 ? 1.7976931348623157e+308 : 3.4028234663852886e+38;
  if (!(std::fabs(factor) <= largest))
    refuse("desc.%s is %g; with it scores would be multiplied by %g, which must be at most %g",
           field, value, factor, largest);
}

void check_score(const ScoreFields& desc) {
  check_choice("score", desc.score, "a heed_score", HEED_SCORE_COSINE);
  check_choice("activation", desc.activation, "a heed_activation", HEED_ACTIVATION_TANH);
  if (desc.score != HEED_SCORE_SUM && desc.score != HEED_SCORE_ADDITIVE && desc.activation != 0)
    refuse(
        "desc.activation is %u; it must be 0 unless desc.score is HEED_SCORE_SUM (1) or "
        "HEED_SCORE_ADDITIVE (2)",
        desc.activation);
  if (desc.activation != HEED_ACTIVATION_LEAKY_RELU && desc.slope != 0)
    refuse(
        "desc.slope is %g; it must be 0 unless desc.activation is HEED_ACTIVATION_LEAKY_RELU (1)",
        desc.slope);
  if (!(std::fabs(desc.slope) <= kLargestSlope))
    refuse("desc.slope is %g; it must be %g to %g", desc.slope, -kLargestSlope, kLargestSlope);
  if (desc.score == HEED_SCORE_SUM && desc.features != 1)
    refuse("desc.features is %lld; it must be 1 with desc.score HEED_SCORE_SUM (1)",
           lld(desc.features));
}

}  // namespace

Scaling resolve_scaling(const ScoreFields& desc, bool float64) {
  check_score(desc);
  check_choice("hard", desc.hard, "a switch", 1);
  if (!std::isfinite(desc.scale)) refuse("desc.scale is %g; it must be finite", desc.scale);
  if (!(desc.softcap >= 0 && std::isfinite(desc.softcap)))
    refuse("desc.softcap is %g; it must be finite and at least 0", desc.softcap);
  if (!(desc.temperature >= 0))
    refuse("desc.temperature is %g; it must be above 0, or 0 for the default 1", desc.temperature);
  if (desc.hard != 0 && desc.temperature != 0)
    refuse("desc.temperature is %g; it must be 0 with desc.hard", desc.temperature);
  Scaling s{};
  s.score = static_cast<heed_score>(desc.score);
  s.activation = static_cast<heed_activation>(desc.activation);
  s.slope = desc.slope;
  const double usual = s.is_dot() ? 1 / std::sqrt(static_cast<double>(desc.features)) : 1;
  s.scale = desc.scale != 0 ? desc.scale : usual;
  s.softcap = desc.softcap;
  s.temperature = desc.temperature == 0 ? 1 : desc.temperature;
  s.hard = desc.hard != 0;
  s.log2_unit = kLog2E / s.temperature;
  check_factor(float64, "temperature", s.temperature, s.log2_unit);
  check_factor(float64, "scale", s.scale, s.scale * s.log2_unit);
  if (s.softcap == 0) return s;
  s.cap_scale = 2 * kLog2E * s.scale / s.softcap;
  check_factor(float64, "softcap", s.softcap, s.cap_scale);
  check_factor(float64, "softcap", s.softcap, s.softcap * s.log2_unit);
  return s;
}

// ---- Rows of length 1 ---------------------------------------------------------------------------

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
