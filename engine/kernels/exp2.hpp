// 2^x for vectors of float32.
#pragma once

#include "engine/kernels/arch.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// 2^x, error at most 1 ULP for x in [-126, 127.5]; +0 below -126.5, NaN for NaN.
///
/// x = n + f with n = round(x) and |f| <= 1/2. Adding 1.5 * 2^23 + 127 rounds x to n and
/// leaves n + 127 in the low bits of the mantissa: shifted by 23 that is the float 2^n. The
/// polynomial of degree 6 is Cephes' for 2^f (error 0.98 ULP evaluated in fused
/// multiply-adds, and exactly 1 at 0, so a row's largest weight is exactly 1). Multiplying by
/// 2^n rather than adding to the exponent keeps a NaN a NaN, whatever its payload.
///
/// Without a fused multiply-add the last two steps would round too often (1.2 ULP): there
/// 1 + f / 2 is summed with its rounding error kept, and the rest added to that (0.72 ULP).
template <class Arch>
HEED_INLINE Vec<Arch> exp2(Vec<Arch> x) {
  const Vec<Arch> rounder(12582912.0F + 127.0F);
  x = at_least(-127.0F, x);  // n = -127 makes 2^n exactly 0
  const Vec<Arch> shifted = x + rounder;
  const Vec<Arch> f = x - (shifted - rounder);
  Vec<Arch> p(1.535336188319500e-4F);
  p = multiply_add(p, f, Vec<Arch>(1.339887440266574e-3F));
  p = multiply_add(p, f, Vec<Arch>(9.618437357674640e-3F));
  p = multiply_add(p, f, Vec<Arch>(5.550332471162809e-2F));
  p = multiply_add(p, f, Vec<Arch>(2.402264791363012e-1F));
  if constexpr (kFusesMultiplyAdd<Arch>) {
    p = multiply_add(p, f, Vec<Arch>(6.931472028550421e-1F));
    p = multiply_add(p, f, Vec<Arch>(1.0F));
  } else {
    p = multiply_add(p, f, Vec<Arch>(1.931472028550421e-1F));
    const Vec<Arch> half = f * Vec<Arch>(0.5F);
    const Vec<Arch> sum = half + Vec<Arch>(1.0F);
    const Vec<Arch> lost = half - (sum - Vec<Arch>(1.0F));
    p = sum + (p * f + lost);
  }
  return p * mantissa_to_exponent(shifted);
}

template <class Arch>
void exp2_array(const float* x, float* y, std::size_t count) {
  constexpr std::size_t n = kLanes<Arch>;
  std::size_t i = 0;
  for (; i + n <= count; i += n) exp2(Vec<Arch>::load_unaligned(x + i)).store_unaligned(y + i);
  if (i == count) return;
  alignas(kAlignment) float rest[n] = {};
  for (std::size_t k = 0; i + k < count; ++k) rest[k] = x[i + k];
  store(rest, exp2(load<Arch>(rest)));
  for (std::size_t k = 0; i + k < count; ++k) y[i + k] = rest[k];
}

}  // namespace
}  // namespace heed
