// The model of float32 arithmetic that every error bound in the tests is derived from.
//
//   computed = exact * (1 + d) + e     |d| <= kUnit, |e| <= kUnderflow, one of them 0
//
// for + - * / and a fused multiply-add, rounded to nearest (Higham, Accuracy and Stability of
// Numerical Algorithms, 2nd edition, sections 2.2 and 3.1).
#pragma once

namespace heed_test {

inline constexpr double kUnit = 0x1p-24;
inline constexpr double kUnderflow = 0x1p-150;
inline constexpr double kFloatMax = 3.4028234663852886e38;
inline constexpr double kLn2 = 0.6931471805599453;
inline constexpr double kLog2E = 1.4426950408889634;

/// n roundings one after the other are off by a factor 1 + d, |d| <= gamma_of(n). So is every
/// term of a sum of n products, added in any order, with or without fusing: the first sum,
/// with 0, is exact, so that a term sees its product's rounding and n - 1 sums' at most.
constexpr double gamma_of(double n) { return n * kUnit / (1 - n * kUnit); }

}  // namespace heed_test
