// Vectors over numbers that lie one after the other.
#pragma once

#include "engine/kernels/exp2.hpp"
#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

template <class V>
void exp2(const RealOf<V>* x, RealOf<V>* y, std::size_t count) {
  constexpr std::size_t n = kLanes<V>;
  std::size_t i = 0;
  for (; i + n <= count; i += n) exp2_of(V::load_unaligned(x + i)).store_unaligned(y + i);
  if (i == count) return;
  alignas(kAlignment) RealOf<V> rest[n] = {};
  for (std::size_t k = 0; i + k < count; ++k) rest[k] = x[i + k];
  store<V>(rest, exp2_of(load<V>(rest)));
  for (std::size_t k = 0; i + k < count; ++k) y[i + k] = rest[k];
}

/// Zero times a number is 0 unless the number is infinite or NaN.
template <class V, class Real = RealOf<V>>
bool all_finite(const Real* numbers, std::size_t count) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t chains = 4;
  const V zero(Real{0});
  V special[chains];
  unroll<chains>([&](auto c) HEED_INLINE_LAMBDA { special[c] = zero; });
  std::size_t i = 0;
  for (; i + chains * n <= count; i += chains * n)
    unroll<chains>([&](auto c) HEED_INLINE_LAMBDA {
      special[c] = multiply_add(load<V>(numbers + i + c * n), zero, special[c]);
    });
  for (; i < count; i += n) special[0] = multiply_add(load<V>(numbers + i), zero, special[0]);
  const V sum = (special[0] + special[1]) + (special[2] + special[3]);
  return xsimd::all(sum == zero);
}

}  // namespace
}  // namespace heed
