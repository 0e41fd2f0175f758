// The bridge to xsimd: the vector operations that the kernels use, each written once, for xsimd 8.1
// and every later version. Only what is compiled for one instruction set includes it. Everything
// here has internal linkage: a function compiled with one file's flags must never be the copy that
// the linker keeps for another file (engine/README.md, "One source, many ISAs").
//
// V is a vector, Vec<Real, Arch>, so that everything is written once for float and double. No
// function here may share its name with one of xsimd's: argument-dependent lookup would find
// xsimd's and prefer it, unless the call spells V, as in store<V>(to, x).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <xsimd/xsimd.hpp>

#define HEED_INLINE [[gnu::always_inline]] inline
#define HEED_INLINE_LAMBDA __attribute__((always_inline))  // [&](auto i) HEED_INLINE_LAMBDA { ... }

/// A kernel of list.hpp as tables want it: `vectors` is an argument, and selects the instance
/// compiled for W = vectors. The table's function pointers say what the other arguments are.
#define HEED_BY_VECTORS(space, result, name)                        \
  template <class... Arguments>                                     \
  static result name(std::size_t vectors, Arguments... arguments) { \
    if (vectors == 1) return space::name<V, 1>(arguments...);       \
    if (vectors == 2) return space::name<V, 2>(arguments...);       \
    return space::name<V, 3>(arguments...);                         \
  }

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

/// Whether qk_softmax() adds to scores. With 16 registers it gains nothing beside scores that go
/// through memory, and float64 is rare.
template <class V>
inline constexpr bool kAddsToScores = kIsAvx512<V>&& kIsFloat<V>;

template <class V>
inline constexpr bool kIsNeon = std::is_base_of_v<xsimd::neon64, typename V::arch_type>;

/// Only sse2 of the architectures built here has no fused multiply-add.
template <class V>
inline constexpr bool kFusesMultiplyAdd = !std::is_same_v<typename V::arch_type, xsimd::sse2>;

template <class Function, std::size_t... Is>
HEED_INLINE void unroll_sequence(Function&& function, std::index_sequence<Is...>) {
  (function(std::integral_constant<std::size_t, Is>{}), ...);
}

/// Calls function(0) ... function(N - 1) with compile-time indices. Arrays of vectors that only
/// such indices touch live in registers; plain loops leave stack traffic behind (g++ 12).
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

template <class V>
using BitsOf =
    Vec<std::conditional_t<kIsFloat<V>, std::uint32_t, std::uint64_t>, typename V::arch_type>;

/// The bits of numbers as integers, and back.
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

/// Whether stream() goes past the caches.
#if defined(__SSE2__)
template <class V>
inline constexpr bool kStreams = true;
#else
template <class V>
inline constexpr bool kStreams = false;
#endif

/// How many numbers before `at` the last place for a whole vector is.
template <class V>
HEED_INLINE std::size_t misaligned(const RealOf<V>* at) {
  return reinterpret_cast<std::uintptr_t>(at) % sizeof(V) / sizeof(RealOf<V>);
}

/// Stores x to an aligned place without reading what is there into a cache first.
template <class V>
HEED_INLINE void stream(RealOf<V>* to, V x) {
  [[maybe_unused]] void* const at = to;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return _mm512_stream_si512(static_cast<__m512i*>(at), to_bits(x));
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32) return _mm256_stream_si256(static_cast<__m256i*>(at), to_bits(x));
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(V) == 16) return _mm_stream_si128(static_cast<__m128i*>(at), to_bits(x));
#endif
  store<V>(to, x);
}

/// Orders stream() before whatever this thread stores next, as other stores are by themselves.
template <class V>
HEED_INLINE void end_streams() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Tells the compiler that x is needed here, in a register. Between the iterations of an unrolled
/// loop it keeps the compiler from hoisting one iteration's loads into another, which would spill
/// accumulators.
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

/// a / b, correctly rounded: xsimd 8.1 estimates it for float on Arm.
template <class V>
HEED_INLINE V divide(V a, V b) {
#if defined(__aarch64__)
  if constexpr (kIsNeon<V> && kIsFloat<V>) return V(vdivq_f32(a, b));
#endif
  return a / b;
}

/// The larger of the two, and NaN where x is NaN. x86 returns its second operand when either is
/// NaN, and xsimd 14 swapped the operands; Arm returns the NaN.
template <class V>
HEED_INLINE V at_least(V bound, V x) {
#if XSIMD_VERSION_MAJOR < 14
  return xsimd::max(bound, x);
#else
  return xsimd::max(x, bound);
#endif
}

/// The smaller of the two, and NaN where x is NaN.
template <class V>
HEED_INLINE V at_most(RealOf<V> bound, V x) {
#if XSIMD_VERSION_MAJOR < 14
  return xsimd::min(V(bound), x);
#else
  return xsimd::min(x, V(bound));
#endif
}

/// Shifts the low bits of the mantissa of x up to where the exponent is.
template <class V>
HEED_INLINE V mantissa_to_exponent(V x) {
  return from_bits<V>(BitsOf<V>(to_bits(x) << (kIsFloat<V> ? 23 : 52)));
}

/// Where byte b of the numbers, counted from the lowest, is 0. The byte replaces the end of the
/// mantissa of 1, and the result is compared with 1: integer comparisons have masks of another
/// type, and the byte alone would be a subnormal number, which a program may have told its
/// processor to flush to zero.
template <std::size_t b, class V>
HEED_INLINE typename V::batch_bool_type byte_is_zero(V x) {
#if defined(__AVX512F__)
  if constexpr (kIsAvx512<V> && kIsFloat<V>)
    return _mm512_testn_epi32_mask(to_bits(x), _mm512_set1_epi32(0xff << (8 * b)));
#endif
  const BitsOf<V> byte = (to_bits(x) >> static_cast<int>(8 * b)) & BitsOf<V>(0xff);
  const V one(RealOf<V>{1});
  return from_bits<V>(byte | to_bits(one)) == one;
}

}  // namespace
}  // namespace heed
