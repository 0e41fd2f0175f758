// Vectors over numbers that lie one after the other.
#include <cstddef>
#include <type_traits>

#include "engine/kernels/convert.hpp"
#include "engine/kernels/exp2.hpp"
#include "engine/kernels/instance.hpp"
#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// to[i] = function(from[i], to[i]), a vector at a time.
template <class V, class Function, class Real = RealOf<V>>
HEED_INLINE void each_vector(const Real* from, std::size_t count, Real* to, Function&& function) {
  constexpr std::size_t n = kLanes<V>;
  std::size_t i = 0;
  for (; i + n <= count; i += n)
    function(V::load_unaligned(from + i), V::load_unaligned(to + i)).store_unaligned(to + i);
  if (i == count) return;
  alignas(kAlignment) Real rest[2][n] = {};
  for (std::size_t k = 0; i + k < count; ++k) rest[0][k] = from[i + k], rest[1][k] = to[i + k];
  store<V>(rest[0], function(load<V>(rest[0]), load<V>(rest[1])));
  for (std::size_t k = 0; i + k < count; ++k) to[i + k] = rest[0][k];
}

template <class V>
void exp2(const RealOf<V>* x, RealOf<V>* y, std::size_t count) {
  each_vector<V>(x, count, y, [](V from, V /*to*/) HEED_INLINE_LAMBDA { return exp2_of(from); });
}

template <class V>
void add_onto(const RealOf<V>* from, std::size_t count, RealOf<V>* to) {
  each_vector<V>(from, count, to, [](V a, V b) HEED_INLINE_LAMBDA { return b + a; });
}

template <class V, class Real = RealOf<V>>
void scale_scores(Real factor, std::size_t count, Real* scores) {
  each_vector<V>(scores, count, scores, [&](V score, V /*to*/) HEED_INLINE_LAMBDA {
    const V product = at_least(V(kNoRowMax<Real>), score * V(factor));
    const V cut = xsimd::select(product > V(kLargest<Real>), V(kHighestScore<Real>), product);
    return xsimd::select(xsimd::abs(score) <= V(kLargest<Real>), cut, score);
  });
}

/// Zero times a number is 0 unless the number is infinite or NaN.
template <class V, class Real = RealOf<V>>
bool all_finite(const Real* numbers, std::size_t count) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t chains = 4;
  HEED_CONTRACT(count % n == 0);
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

/// Numbers become float64 in memory, in loops that compilers make vectors of; sums stay in vectors.
template <class V, class Real = RealOf<V>>
double inner_product(const Real* a, const Real* b, std::size_t count) {
  using Sum = xsimd::batch<double, typename V::arch_type>;
  constexpr std::size_t n = kLanes<Sum>;
  constexpr std::size_t together = 16;
  constexpr std::size_t chains = together / n;
  Sum sums[chains];
  unroll<chains>([&](auto c) HEED_INLINE_LAMBDA { sums[c] = Sum(0.0); });
  alignas(kAlignment) double left[together];
  alignas(kAlignment) double right[together];
  const auto add = [&]() HEED_INLINE_LAMBDA {
    unroll<chains>([&](auto c) HEED_INLINE_LAMBDA {
      sums[c] = sums[c] + load<Sum>(left + c * n) * load<Sum>(right + c * n);
    });
  };
  std::size_t i = 0;
  for (; i + together <= count; i += together) {
    for (std::size_t k = 0; k < together; ++k) left[k] = static_cast<double>(a[i + k]);
    for (std::size_t k = 0; k < together; ++k) right[k] = static_cast<double>(b[i + k]);
    add();
  }
  if (i < count) {
    for (std::size_t k = 0; k < together; ++k) left[k] = right[k] = 0;
    for (std::size_t k = 0; i + k < count; ++k) {
      left[k] = static_cast<double>(a[i + k]);
      right[k] = static_cast<double>(b[i + k]);
    }
    add();
  }
  const auto halve = [&](auto half) HEED_INLINE_LAMBDA {
    if constexpr (half < chains)
      unroll<half>([&](auto c) HEED_INLINE_LAMBDA { sums[c] = sums[c] + sums[c + half]; });
  };
  halve(std::integral_constant<std::size_t, 4>{});
  halve(std::integral_constant<std::size_t, 2>{});
  halve(std::integral_constant<std::size_t, 1>{});
  store<Sum>(left, sums[0]);
  for (std::size_t some = n / 2; some > 0; some /= 2)
    for (std::size_t k = 0; k < some; ++k) left[k] += left[k + some];
  return left[0];
}

template <class V>
constexpr NumberKernels<RealOf<V>> number_kernels() {
  NumberKernels<RealOf<V>> numbers{};
#define HEED_NUMBER_KERNEL(result, name, parameters) numbers.name = heed::name<V>;
#include "engine/kernels/list.hpp"
  return numbers;
}

}  // namespace

const NumberKernels<Real> HEED_FAMILY_TABLE(Numbers) = number_kernels<Vector>();

}  // namespace heed
