// The numbers that the vector kernels and the scalar ones share. They have internal linkage, as all
// that kernel files include.
#pragma once

#include "engine/kernels/table.hpp"

namespace heed {
namespace {

template <class Real>
inline constexpr Real kInfinity = static_cast<Real>(__builtin_huge_val());

template <class Real>
inline constexpr Real kLargest = -kNoRowMax<Real>;

template <class Real>
bool is_finite(Real x) {
  return x >= kNoRowMax<Real> && x <= kLargest<Real>;
}

/// A sum or product of finite numbers, which may have overflowed.
template <class Real>
Real held(Real x) {
  if (x < kNoRowMax<Real>) return kNoRowMax<Real>;
  return x > kLargest<Real> ? kHighestScore<Real> : x;
}

/// score + addend * factor, as add_rows has it.
template <class Real>
Real with_addend(Real score, Real addend, Real factor) {
  if (addend == -kInfinity<Real>) return addend;
  const Real product = is_finite(addend) ? held(addend * factor) : addend * factor;
  const Real sum = score + product;
  return is_finite(score) && is_finite(addend) ? held(sum) : sum;
}

/// No finite score overflows with an addend closer to 0, of either sign.
template <class Real>
inline constexpr Real kFarAddend = static_cast<Real>(std::is_same_v<Real, float> ? 0x1p102
                                                                                 : 0x1p969);

/// The smallest number that no program's processor takes for 0.
template <class Real>
inline constexpr Real kLeastFactor = static_cast<Real>(std::is_same_v<Real, float> ? 0x1p-126
                                                                                   : 0x1p-1022);

/// softcap cuts exponents off here: 1 - 2^-64 and 1 + 2^-64 are 1 in either type.
template <class Real>
inline constexpr Real kSaturated = 64;

/// tanh(x) is computed from 2 log2(e) x.
template <class Real>
inline constexpr Real kTwiceLog2E = static_cast<Real>(2.8853900817779268);

/// The constants of 2^x = 2^n (1 + f p(f)), n = round(x) and f = x - n; see exp2.hpp.
template <class Real>
struct Exp2;

/// Cephes' polynomial of degree 6 for 2^f.
template <>
struct Exp2<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr float kRounder = 12582912.0F + 127.0F;  ///< 1.5 * 2^23 + the exponent's bias
  static constexpr float kLowest = -127.0F;                ///< n = -127 makes 2^n exactly 0
  /// p from its highest coefficient to the last but one.
  static constexpr float kCoefficients[] = {1.535336188319500e-4F, 1.339887440266574e-3F,
                                            9.618437357674640e-3F, 5.550332471162809e-2F,
                                            2.402264791363012e-1F};
  static constexpr float kLast = 6.931472028550421e-1F;
  static constexpr float kLastLessHalf = 1.931472028550421e-1F;
};

/// Degree 11, fitted to 2^f on [-1/2, 1/2] for the least relative error (least squares over 400
/// Chebyshev nodes, coefficients rounded one at a time from the lowest, the others fitted again):
/// off by 5.6e-18, 0.05 ULP.
template <>
struct Exp2<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr double kRounder = 6755399441055744.0 + 1023.0;  ///< 1.5 * 2^52 + the bias
  static constexpr double kLowest = -1023.0;
  static constexpr double kCoefficients[] = {
      4.449955477539561e-10,  7.073826046303358e-09, 1.0178086773687693e-07, 1.3215435001110848e-06,
      1.5252733805508415e-05, 1.5403530457765014e-4, 1.3333558146380658e-3,  9.618129107593498e-3,
      5.550410866482226e-2,   2.4022650695910133e-1};
  static constexpr double kLast = 6.931471805599453e-1;
  static constexpr double kLastLessHalf = 1.931471805599453e-1;
};

template <class Real>
inline constexpr std::size_t kExp2Coefficients = sizeof Exp2<Real>::kCoefficients / sizeof(Real);

}  // namespace
}  // namespace heed
