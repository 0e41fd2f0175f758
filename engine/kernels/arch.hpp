// The bridge to xsimd: the few vector operations that the kernels use, spelled once, so that
// xsimd 8.1 and every later version serve. Included by the <isa>.cpp files alone; everything
// here has internal linkage, because a function compiled with one file's flags must never be
// the copy that the linker keeps for another's (engine/README.md, "One source, many ISAs").
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

template <class Arch>
using Vec = xsimd::batch<float, Arch>;

template <class Arch>
inline constexpr std::size_t kLanes = Vec<Arch>::size;

#if defined(__AVX512F__)
template <class Arch>
inline constexpr bool kIsAvx512 = std::is_base_of_v<xsimd::avx512f, Arch>;
#else
template <class Arch>
inline constexpr bool kIsAvx512 = false;
#endif

/// Of the architectures built here, only sse2 has to round a product before adding to it.
template <class Arch>
inline constexpr bool kFusesMultiplyAdd = !std::is_same_v<Arch, xsimd::sse2>;

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

template <class Arch>
HEED_INLINE Vec<Arch> load(const float* from) {
  return Vec<Arch>::load_aligned(from);
}

template <class Arch>
HEED_INLINE void store(float* to, Vec<Arch> x) {
  x.store_aligned(to);
}

/// Tells the compiler that x is needed here, in a register. Between the steps of an unrolled loop
/// it keeps one step's loads from being hoisted into another, which would spill accumulators.
template <class Arch>
HEED_INLINE void pin(Vec<Arch>& x) {
#if defined(__x86_64__) || defined(__aarch64__)
  typename Vec<Arch>::register_type inside = x;
#if defined(__aarch64__)
  asm volatile("" : "+w"(inside));
#else
  asm volatile("" : "+v"(inside));
#endif
  x = Vec<Arch>(inside);
#endif
}

/// a * b + c, rounded once wherever the instruction set has a fused multiply-add.
template <class Arch>
HEED_INLINE Vec<Arch> multiply_add(Vec<Arch> a, Vec<Arch> b, Vec<Arch> c) {
#if defined(__AVX512F__)
  // xsimd 8.1 spells this x * y + z for AVX-512 and leaves the fusing to the compiler.
  if constexpr (kIsAvx512<Arch>) return Vec<Arch>(_mm512_fmadd_ps(a, b, c));
#endif
  return xsimd::fma(a, b, c);
}

/// The larger of the two; x where x is NaN, on every instruction set and xsimd version: x86
/// returns its second operand when either is NaN, Arm returns the NaN.
template <class Arch>
HEED_INLINE Vec<Arch> at_least(float bound, Vec<Arch> x) {
  return xsimd::max(Vec<Arch>(bound), x);
}

template <class Arch>
HEED_INLINE Vec<Arch> at_most(float bound, Vec<Arch> x) {
  return xsimd::min(Vec<Arch>(bound), x);
}

/// The bits of x, shifted left by 23: the low bits of the mantissa become the exponent.
template <class Arch>
HEED_INLINE Vec<Arch> mantissa_to_exponent(Vec<Arch> x) {
#if XSIMD_VERSION_MAJOR < 9
  using Int = xsimd::batch<std::int32_t, Arch>;
  return xsimd::bitwise_cast<Vec<Arch>>(Int(xsimd::bitwise_cast<Int>(x) << 23));
#else
  return xsimd::bitwise_cast<float>(xsimd::bitwise_cast<std::int32_t>(x) << 23);
#endif
}

/// Interleaves the lower (or upper) halves of a and b: within 128-bit lanes on AVX2, across the
/// whole vector elsewhere. xsimd's zip does that for 128-bit vectors; for wider ones 8.1 and later
/// versions differ, so those are spelled out.
template <bool kUpper, class Arch>
HEED_INLINE Vec<Arch> interleave(Vec<Arch> a, Vec<Arch> b) {
#if defined(__AVX512F__)
  if constexpr (kIsAvx512<Arch>) {
    const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i index = _mm512_add_epi32(first, _mm512_set1_epi32(kUpper ? 8 : 0));
    return Vec<Arch>(_mm512_permutex2var_ps(a, index, b));
  }
#endif
#if defined(__AVX__)
  if constexpr (kLanes<Arch> == 8)
    return Vec<Arch>(kUpper ? _mm256_unpackhi_ps(a, b) : _mm256_unpacklo_ps(a, b));
#endif
  if constexpr (kLanes<Arch> == 4) {
    if constexpr (kUpper) return xsimd::zip_hi(a, b);
    return xsimd::zip_lo(a, b);
  }
}

constexpr std::size_t log2_of(std::size_t n) { return n <= 1 ? 0 : 1 + log2_of(n / 2); }

/// Transposes n x n elements by log2(n) rounds of perfect shuffles of rows[from] and the n - 1
/// after it; where interleave() stays within lanes, so does this.
template <std::size_t n, class Arch>
HEED_INLINE void shuffle_rows(Vec<Arch> (&rows)[kLanes<Arch>], std::size_t from) {
  unroll<log2_of(n)>([&](auto) HEED_FLAT {
    Vec<Arch> shuffled[n];
    unroll<n / 2>([&](auto i) HEED_FLAT {
      shuffled[2 * i] = interleave<false>(rows[from + i], rows[from + i + n / 2]);
      shuffled[2 * i + 1] = interleave<true>(rows[from + i], rows[from + i + n / 2]);
    });
    unroll<n>([&](auto i) HEED_FLAT { rows[from + i] = shuffled[i]; });
  });
}

/// Transposes a square of vectors.
template <class Arch>
HEED_INLINE void transpose(Vec<Arch> (&rows)[kLanes<Arch>]) {
#if defined(__AVX__)
  if constexpr (kLanes<Arch> == 8) {
    shuffle_rows<4, Arch>(rows, 0);
    shuffle_rows<4, Arch>(rows, 4);
    unroll<4>([&](auto i) HEED_FLAT {
      const Vec<Arch> low(_mm256_permute2f128_ps(rows[i], rows[i + 4], 0x20));
      const Vec<Arch> high(_mm256_permute2f128_ps(rows[i], rows[i + 4], 0x31));
      rows[i] = low;
      rows[i + 4] = high;
    });
    return;
  }
#endif
  shuffle_rows<kLanes<Arch>, Arch>(rows, 0);
}

}  // namespace
}  // namespace heed
