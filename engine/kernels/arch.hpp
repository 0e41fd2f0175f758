// The bridge to xsimd: the few vector operations that the kernels use, spelled once, so that
// xsimd 8.1 and every later version serve. Included by the <isa>.cpp files alone; everything
// here has internal linkage, because a function compiled with one file's flags must never be
// the copy that the linker keeps for another's (engine/README.md, "One source, many ISAs").
//
// V is a vector, Vec<Real, Arch>: everything is written once for float and double. A function
// of a vector must not be called what xsimd calls one of its own: unless V is spelled, as in
// store<V>(to, x), xsimd's would be found, and preferred.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <xsimd/xsimd.hpp>

#define HEED_INLINE [[gnu::always_inline]] inline
#define HEED_FLAT __attribute__((always_inline))  // for the lambdas that unroll() calls

namespace heed {
namespace {

template <class Real, class Arch>
using Vec = xsimd::batch<Real, Arch>;

template <class V>
using RealOf = typename V::value_type;

template <class V>
inline constexpr std::size_t kLanes = V::size;

template <class V>
inline constexpr bool kIsFloat = std::is_same_v<RealOf<V>, float>;

#if defined(__AVX512F__)
template <class V>
inline constexpr bool kIsAvx512 = std::is_base_of_v<xsimd::avx512f, typename V::arch_type>;
#else
template <class V>
inline constexpr bool kIsAvx512 = false;
#endif

template <class V>
inline constexpr bool kIsNeon = std::is_base_of_v<xsimd::neon64, typename V::arch_type>;

/// Of the architectures built here, only sse2 has to round a product before adding to it.
template <class V>
inline constexpr bool kFusesMultiplyAdd = !std::is_same_v<typename V::arch_type, xsimd::sse2>;

template <class Function, std::size_t... Is>
HEED_INLINE void unroll_sequence(Function&& function, std::index_sequence<Is...>) {
  (function(std::integral_constant<std::size_t, Is>{}), ...);
}

/// Calls function(0) ... function(N - 1) with compile-time indices, so that arrays of vectors
/// indexed by them live in registers (plain loops leave stack traffic behind, g++ 12).
template <std::size_t N, class Function>
HEED_INLINE void unroll(Function&& function) {
  unroll_sequence(function, std::make_index_sequence<N>{});
}

template <class V>
HEED_INLINE V load(const RealOf<V>* from) {
  return V::load_aligned(from);
}

template <class V>
HEED_INLINE void store(RealOf<V>* to, V x) {
  x.store_aligned(to);
}

/// Tells the compiler that x is needed here, in a register. Between the steps of an unrolled loop
/// it keeps one step's loads from being hoisted into another, which would spill accumulators.
template <class V>
HEED_INLINE void pin(V& x) {
#if defined(__x86_64__) || defined(__aarch64__)
  typename V::register_type inside = x;
#if defined(__aarch64__)
  asm volatile("" : "+w"(inside));
#else
  asm volatile("" : "+v"(inside));
#endif
  x = V(inside);
#endif
}

/// a * b + c, rounded once wherever the instruction set has a fused multiply-add.
template <class V>
HEED_INLINE V multiply_add(V a, V b, V c) {
#if defined(__AVX512F__)
  // xsimd 8.1 spells this x * y + z for AVX-512 and leaves the fusing to the compiler.
  if constexpr (kIsAvx512<V> && kIsFloat<V>) return V(_mm512_fmadd_ps(a, b, c));
  if constexpr (kIsAvx512<V> && !kIsFloat<V>) return V(_mm512_fmadd_pd(a, b, c));
#endif
#if defined(__FMA__)
  // xsimd 8.1 has no architecture of 128-bit vectors that fuses.
  if constexpr (sizeof(V) == 16 && kIsFloat<V>) return V(_mm_fmadd_ps(a, b, c));
  if constexpr (sizeof(V) == 16 && !kIsFloat<V>) return V(_mm_fmadd_pd(a, b, c));
#endif
  return xsimd::fma(a, b, c);
}

/// a / b, correctly rounded: xsimd 8.1 has an estimate for float on Arm.
template <class V>
HEED_INLINE V divide(V a, V b) {
#if defined(__aarch64__)
  if constexpr (kIsNeon<V> && kIsFloat<V>) return V(vdivq_f32(a, b));
#endif
  return a / b;
}

/// The larger of the two; x where x is NaN. x86 returns its second operand when either is NaN, and
/// xsimd 14 swapped the operands; Arm returns the NaN.
template <class V>
HEED_INLINE V at_least(RealOf<V> bound, V x) {
#if XSIMD_VERSION_MAJOR < 14
  return xsimd::max(V(bound), x);
#else
  return xsimd::max(x, V(bound));
#endif
}

template <class V>
HEED_INLINE V at_most(RealOf<V> bound, V x) {
#if XSIMD_VERSION_MAJOR < 14
  return xsimd::min(V(bound), x);
#else
  return xsimd::min(x, V(bound));
#endif
}

template <class V>
using BitsOf =
    Vec<std::conditional_t<kIsFloat<V>, std::uint32_t, std::uint64_t>, typename V::arch_type>;

/// The bits of numbers as whole numbers, and back.
template <class V>
HEED_INLINE BitsOf<V> to_bits(V x) {
#if XSIMD_VERSION_MAJOR < 9
  return xsimd::bitwise_cast<BitsOf<V>>(x);
#else
  return xsimd::bitwise_cast<typename BitsOf<V>::value_type>(x);
#endif
}
template <class V>
HEED_INLINE V from_bits(BitsOf<V> bits) {
#if XSIMD_VERSION_MAJOR < 9
  return xsimd::bitwise_cast<V>(bits);
#else
  return xsimd::bitwise_cast<RealOf<V>>(bits);
#endif
}

/// The low bits of the mantissa of x become the exponent.
template <class V>
HEED_INLINE V mantissa_to_exponent(V x) {
  return from_bits<V>(BitsOf<V>(to_bits(x) << (kIsFloat<V> ? 23 : 52)));
}

/// Where byte b of the numbers, counted from the lowest, is 0. It becomes the end of the mantissa
/// of 1 and is compared as such: integer comparisons have masks of another type, and numbers
/// made of the byte alone would be subnormal, which a program may have told its processor to
/// ignore.
template <std::size_t b, class V>
HEED_INLINE auto byte_is_zero(V x) {
  const BitsOf<V> byte = (to_bits(x) >> static_cast<int>(8 * b)) & BitsOf<V>(0xff);
  const V one(RealOf<V>{1});
  return from_bits<V>(byte | to_bits(one)) == one;
}

#if defined(__AVX512F__)
template <bool kUpper, class V>
HEED_INLINE V interleave_avx512(V a, V b) {
  if constexpr (kIsFloat<V>) {
    const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i index = _mm512_add_epi32(first, _mm512_set1_epi32(kUpper ? 8 : 0));
    return V(_mm512_permutex2var_ps(a, index, b));
  } else {
    const __m512i first = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const __m512i index = _mm512_add_epi64(first, _mm512_set1_epi64(kUpper ? 4 : 0));
    return V(_mm512_permutex2var_pd(a, index, b));
  }
}
#endif

#if defined(__AVX__)
template <bool kUpper, class V>
HEED_INLINE V interleave_avx(V a, V b) {
  if constexpr (kIsFloat<V>) {
    return V(kUpper ? _mm256_unpackhi_ps(a, b) : _mm256_unpacklo_ps(a, b));
  } else {
    return V(kUpper ? _mm256_unpackhi_pd(a, b) : _mm256_unpacklo_pd(a, b));
  }
}

/// The lower (or upper) 128 bits of a, then those of b.
template <bool kUpper, class V>
HEED_INLINE V join_halves(V a, V b) {
  constexpr int halves = kUpper ? 0x31 : 0x20;
  if constexpr (kIsFloat<V>) {
    return V(_mm256_permute2f128_ps(a, b, halves));
  } else {
    return V(_mm256_permute2f128_pd(a, b, halves));
  }
}
#endif

/// Interleaves the lower (or upper) halves of a and b: within 128-bit lanes on AVX2, across the
/// whole vector elsewhere. xsimd's zip does that for 128-bit vectors; for wider ones 8.1 and later
/// versions differ, so those are spelled out.
template <bool kUpper, class V>
HEED_INLINE V interleave(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return interleave_avx512<kUpper>(a, b);
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32) return interleave_avx<kUpper>(a, b);
#endif
  if constexpr (sizeof(V) == 16) {
    if constexpr (kUpper) return xsimd::zip_hi(a, b);
    return xsimd::zip_lo(a, b);
  }
}

constexpr std::size_t log2_of(std::size_t n) { return n <= 1 ? 0 : 1 + log2_of(n / 2); }

/// Transposes n x n elements by log2(n) rounds of perfect shuffles of rows[from] and the n - 1
/// after it; where interleave() stays within lanes, so does this.
template <std::size_t n, class V>
HEED_INLINE void shuffle_rows(V (&rows)[kLanes<V>], std::size_t from) {
  unroll<log2_of(n)>([&](auto) HEED_FLAT {
    V shuffled[n];
    unroll<n / 2>([&](auto i) HEED_FLAT {
      shuffled[2 * i] = interleave<false>(rows[from + i], rows[from + i + n / 2]);
      shuffled[2 * i + 1] = interleave<true>(rows[from + i], rows[from + i + n / 2]);
    });
    unroll<n>([&](auto i) HEED_FLAT { rows[from + i] = shuffled[i]; });
  });
}

/// Transposes a square of vectors.
template <class V>
HEED_INLINE void transpose(V (&rows)[kLanes<V>]) {
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32) {
    constexpr std::size_t half = kLanes<V> / 2;
    shuffle_rows<half, V>(rows, 0);
    shuffle_rows<half, V>(rows, half);
    unroll<half>([&](auto i) HEED_FLAT {
      const V low = join_halves<false>(rows[i], rows[i + half]);
      const V high = join_halves<true>(rows[i], rows[i + half]);
      rows[i] = low;
      rows[i + half] = high;
    });
    return;
  }
#endif
  shuffle_rows<kLanes<V>, V>(rows, 0);
}

/// Adds up n rows from rows[from] on, n lanes at a time, by log2(n) rounds of the same shuffles:
/// element i of rows[from] becomes the sum of row from + i, where interleave() stays within lanes
/// of the row's elements in the same lane.
template <std::size_t n, class V>
HEED_INLINE void fold_rows(V (&rows)[kLanes<V>], std::size_t from) {
  if constexpr (n > 1) {
    unroll<n / 2>([&](auto i) HEED_FLAT {
      const V a = rows[from + i];
      const V b = rows[from + i + n / 2];
      rows[from + i] = interleave<false>(a, b) + interleave<true>(a, b);
    });
    fold_rows<n / 2, V>(rows, from);
  }
}

/// Element i is the sum of the elements of rows[i], which does not keep its own.
template <class V>
HEED_INLINE V sum_rows(V (&rows)[kLanes<V>]) {
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32) {
    constexpr std::size_t half = kLanes<V> / 2;
    fold_rows<half, V>(rows, 0);
    fold_rows<half, V>(rows, half);
    return join_halves<false>(rows[0], rows[half]) + join_halves<true>(rows[0], rows[half]);
  }
#endif
  fold_rows<kLanes<V>, V>(rows, 0);
  return rows[0];
}

}  // namespace
}  // namespace heed
