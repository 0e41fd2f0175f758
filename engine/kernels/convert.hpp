// Numbers as they lie in memory, to and from numbers of the arithmetic's type; shared by all
// instruction sets. Most are plain loops, which compilers turn into vectors where elements lie next
// to each other; float16 has instructions on some CPUs. Bits are moved without branches or
// subnormal intermediates, so that the loops vectorise and do not depend on the floating-point
// environment.
#pragma once

#include "engine/kernels/constants.hpp"
#include "engine/kernels/table.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace heed {
namespace {

// Types of elements, so that overloads can tell them apart.
enum class Bf16 : std::uint16_t {};
enum class F16 : std::uint16_t {};
enum class I8 : std::int8_t {};
enum class F8E4M3 : std::uint8_t {};

/// Whether rows of the type have scales.
template <class Element>
inline constexpr bool kIsScaled = std::is_same_v<Element, I8> || std::is_same_v<Element, F8E4M3>;

/// Calls function(Element{}) with the type of rows that are read as Real and have no scales. Always
/// inline, as the function is where it is a kernel's.
template <class Real, class Function>
[[gnu::always_inline]] inline void with_element(ElementType type, Function&& function) {
  if constexpr (std::is_same_v<Real, float>) {
    if (__builtin_expect(type == ElementType::kF32, true)) return function(Real{});
    if (type == ElementType::kBf16) return function(Bf16{});
    function(F16{});
  } else {
    function(Real{});
  }
}

/// The same of rows that may have scales.
template <class Real, class Function>
[[gnu::always_inline]] inline void with_stored_element(ElementType type, Function&& function) {
  if constexpr (std::is_same_v<Real, float>) {
    if (type == ElementType::kI8) return function(I8{});
    if (type == ElementType::kF8E4M3) return function(F8E4M3{});
  }
  with_element<Real>(type, function);
}

inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float float_of(std::uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

/// condition ? yes : no, spelled out: g++ 12 compiles that to a branch, and does not vectorise it.
inline std::uint32_t choose(bool condition, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t all = 0U - static_cast<std::uint32_t>(condition);
  return (yes & all) | (no & ~all);
}

// ---- One element ---------------------------------------------------------------------------

inline float decode(float x) { return x; }
inline double decode(double x) { return x; }
inline float decode(Bf16 x) { return float_of(static_cast<std::uint32_t>(x) << 16); }

inline float decode(I8 x) { return static_cast<float>(static_cast<std::int8_t>(x)); }

/// The magnitude of a number with kMantissa bits of mantissa, and an exponent of bias kBias, as
/// bits of a float; not of infinities and NaN. Source of this and its inverse: F. Giesen, "half to
/// float done quick" and "float to half" (gist.github.com/rygorous/2156668).
template <int kMantissa, int kBias>
std::uint32_t widened_bits(std::uint32_t magnitude) {
  constexpr std::uint32_t kSmallest = (128U - kBias) << 23;  // the smallest normal number
  const std::uint32_t bits = (magnitude << (23 - kMantissa)) + ((127U - kBias) << 23);
  // Subnormal: the smallest normal number + the mantissa, less the smallest normal number.
  const std::uint32_t tiny = bits_of(float_of(bits + (1U << 23)) - float_of(kSmallest));
  return choose(magnitude < 1U << kMantissa, tiny, bits);
}

/// The other way, rounded to nearest even; not of numbers past the largest.
template <int kMantissa, int kBias>
std::uint32_t narrowed_bits(std::uint32_t magnitude) {
  constexpr std::uint32_t kSmallest = (128U - kBias) << 23;
  // Its last bit is worth as much as a subnormal number's, and so is the last bit of their sum.
  constexpr std::uint32_t kRounder = (151U - kBias - kMantissa) << 23;
  constexpr int kLost = 23 - kMantissa;
  const std::uint32_t odd = magnitude >> kLost & 1U;
  const std::uint32_t normal =
      (magnitude - ((127U - kBias) << 23) + ((1U << (kLost - 1)) - 1U + odd)) >> kLost;
  const std::uint32_t tiny = bits_of(float_of(magnitude) + float_of(kRounder)) - kRounder;
  return choose(magnitude < kSmallest, tiny, normal);
}

inline float decode(F16 x) {
  const auto half = static_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = half & 0x7fffU;
  const std::uint32_t special =
      ((magnitude << 13) + 0x70000000U) | choose(magnitude > 0x7c00U, 1U << 22, 0U);
  const std::uint32_t bits = choose(magnitude < 0x7c00U, widened_bits<10, 15>(magnitude), special);
  return float_of(bits | (half & 0x8000U) << 16);
}

/// Only one magnitude is special.
inline float decode(F8E4M3 x) {
  const auto byte = static_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = byte & 0x7fU;
  const std::uint32_t bits = choose(magnitude == 0x7fU, 0x7fc00000U, widened_bits<3, 7>(magnitude));
  return float_of(bits | (byte & 0x80U) << 24);
}

/// x rounded to nearest even.
template <class Element>
Element encode(float x);

template <>
inline Bf16 encode<Bf16>(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  const std::uint32_t quiet = bits >> 16 | 0x40U;
  return static_cast<Bf16>(choose((bits & 0x7fffffffU) > 0x7f800000U, quiet, rounded));
}

template <>
inline F16 encode<F16>(float x) {
  const std::uint32_t sign = bits_of(x) >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits_of(x) & 0x7fffffffU;
  const std::uint32_t quiet = 0x7e00U | (magnitude >> 13 & 0x1ffU);
  const std::uint32_t special = choose(magnitude > 0x7f800000U, quiet, 0x7c00U);
  return static_cast<F16>(
      choose(magnitude < 0x47800000U, narrowed_bits<10, 15>(magnitude), special) | sign);
}

/// Values past the largest, 448, become that: so the type is meant to be used (OCP 8-bit
/// Floating Point Specification, revision 1.0, "saturation").
template <>
inline F8E4M3 encode<F8E4M3>(float x) {
  const std::uint32_t sign = bits_of(x) >> 24 & 0x80U;
  const std::uint32_t magnitude = bits_of(x) & 0x7fffffffU;
  const std::uint32_t special = choose(magnitude > 0x7f800000U, 0x7fU, 0x7eU);
  return static_cast<F8E4M3>(
      choose(magnitude < 0x43e00000U, narrowed_bits<3, 7>(magnitude), special) | sign);
}

/// x as float, rounded to odd in 13 digits: x is cut off after these, and the last one is set where
/// that was not exact. float16 has two digits fewer, so rounding the result to nearest is as good
/// as rounding x. Where a float has room for fewer than 13 digits, bfloat16 is 0.
///
/// x is not compared with (double)(float)x, which g++ 12 takes for x where it makes 512-bit
/// vectors.
inline float to_odd(double x) {
  constexpr std::uint64_t kLast = std::uint64_t{1} << 40;
  std::uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const std::uint64_t cut = bits & (kLast - 1);
  bits = (bits - cut) | ((cut + (kLast - 1)) & kLast);
  __builtin_memcpy(&x, &bits, sizeof x);
  return static_cast<float>(x);
}

/// A finite value stays finite: past the largest it becomes that.
template <class Real>
Real held_as(double x) {
  if constexpr (std::is_same_v<Real, float>) {
    constexpr double kMost = kLargest<float>;
    constexpr double kFinite = kLargest<double>;
    x = x > kMost && x <= kFinite ? kMost : x;
    x = x < -kMost && x >= -kFinite ? -kMost : x;
  }
  return static_cast<Real>(x);
}

inline float narrow(float x) { return x; }
inline float narrow(double x) { return to_odd(x); }

// ---- Many ------------------------------------------------------------------------------------

inline constexpr std::size_t kAtOnce = 16;

/// Calls function(i, i % kAtOnce) for all i < count, most of them in loops of a fixed length: g++
/// at -O2 makes vectors of no others.
template <class Function>
void each_index(std::size_t count, Function&& function) {
  std::size_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce)
    for (std::size_t k = 0; k < kAtOnce; ++k) function(i + k, k);
  for (std::size_t k = 0; i + k < count; ++k) function(i + k, k);
}

/// to[i] = convert(from[i]), each `stride` elements from the last.
template <class From, class To, class Convert>
void convert_each(const From* __restrict from, std::ptrdiff_t from_stride, std::size_t count,
                  To* __restrict to, std::ptrdiff_t to_stride, Convert convert) {
  if (from_stride == 1 && to_stride == 1) {
    if constexpr (!std::is_same_v<From, To>) {
      each_index(count, [&](std::size_t i, std::size_t) { to[i] = convert(from[i]); });
    } else if (count > 0) {  // memcpy wants pointers, and there may be none
      __builtin_memcpy(to, from, count * sizeof(To));
    }
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto k = static_cast<std::ptrdiff_t>(i);
    to[k * to_stride] = convert(from[k * from_stride]);
  }
}

/// How many float16 numbers an instruction converts; 0: there is none.
#if defined(__F16C__)
inline constexpr std::size_t kHalves = 8;
inline void widen_halves(const F16* from, float* to) {
  const void* const at = from;
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(at))));
}
inline void narrow_halves(const float* from, F16* to) {
  void* const at = to;
  _mm_storeu_si128(static_cast<__m128i*>(at),
                   _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__aarch64__)
inline constexpr std::size_t kHalves = 4;
inline void widen_halves(const F16* from, float* to) {
  uint16x4_t halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  vst1q_f32(to, vcvt_f32_f16(vreinterpret_f16_u16(halves)));
}
inline void narrow_halves(const float* from, F16* to) {
  const uint16x4_t halves = vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from)));
  __builtin_memcpy(to, &halves, sizeof halves);
}
#else
inline constexpr std::size_t kHalves = 0;
inline void widen_halves(const F16* /*from*/, float* /*to*/) {}
inline void narrow_halves(const float* /*from*/, F16* /*to*/) {}
#endif

/// Converts whole vectors of numbers side by side; returns how many numbers that were.
template <class Real>
std::size_t read_vectors(const F16* from, std::size_t count, Real* to) {
  std::size_t i = 0;
  for (; kHalves > 0 && i + kHalves <= count; i += kHalves) {
    float part[kAtOnce];
    widen_halves(from + i, part);
    for (std::size_t k = 0; k < kHalves; ++k) to[i + k] = static_cast<Real>(part[k]);
  }
  return i;
}
template <class Real>
std::size_t write_vectors(const Real* from, std::size_t count, F16* to) {
  std::size_t i = 0;
  for (; kHalves > 0 && i + kHalves <= count; i += kHalves) {
    float part[kAtOnce];
    for (std::size_t k = 0; k < kHalves; ++k) part[k] = narrow(from[i + k]);
    narrow_halves(part, to + i);
  }
  return i;
}

#if defined(__AVX512F__)
/// Bits of floats whose upper halves are the bits of the nearest bfloat16, to nearest even; a NaN
/// stays one. Compilers make twice as many instructions of encode().
[[gnu::always_inline]] inline __m512i rounded_bits(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(_mm512_add_epi32(bits, up), nan, bits, _mm512_set1_epi32(0x00400000));
}
#endif

/// As write_vectors() of float16, where there are vectors for bfloat16.
template <class Real>
std::size_t write_vectors([[maybe_unused]] const Real* from, [[maybe_unused]] std::size_t count,
                          [[maybe_unused]] Bf16* to) {
  std::size_t i = 0;
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<Real, float>)
    for (; i + 16 <= count; i += 16) {
      void* const at = to + i;
      _mm256_storeu_si256(
          static_cast<__m256i*>(at),
          _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_bits(_mm512_loadu_ps(from + i)), 16)));
    }
#endif
  return i;
}

template <class Element, class Real>
void read_as(const void* from, std::ptrdiff_t stride, std::size_t count, Real* to) {
  const auto* element = static_cast<const Element*>(from);
  if constexpr (std::is_same_v<Element, F16>) {
    const std::size_t done = stride == 1 ? read_vectors(element, count, to) : 0;
    element += done;
    count -= done;
    to += done;
  }
  convert_each(element, stride, count, to, 1, [](Element x) {
    if constexpr (std::is_same_v<Element, double>) return held_as<Real>(x);
    return static_cast<Real>(decode(x));
  });
}

template <class Element, class Real>
void write_as(const Real* from, std::size_t count, void* to, std::ptrdiff_t stride) {
  auto* element = static_cast<Element*>(to);
  if constexpr (std::is_floating_point_v<Element>) {
    convert_each(from, 1, count, element, stride, [](Real x) { return static_cast<Element>(x); });
  } else {
    if constexpr (std::is_same_v<Element, F16> || std::is_same_v<Element, Bf16>) {
      const std::size_t done = stride == 1 ? write_vectors(from, count, element) : 0;
      from += done;
      count -= done;
      element += done;
    }
    convert_each(from, 1, count, element, stride,
                 [](Real x) { return encode<Element>(narrow(x)); });
  }
}

/// Calls function(element) with the type of elements in memory; not of masks.
template <class Function>
void with_type(ElementType type, Function&& function) {
  switch (type) {
    case ElementType::kF32:
      return function(float{});
    case ElementType::kF64:
      return function(double{});
    case ElementType::kBf16:
      return function(Bf16{});
    case ElementType::kF16:
      return function(F16{});
    case ElementType::kI8:
      return function(I8{});
    case ElementType::kF8E4M3:
      return function(F8E4M3{});
    case ElementType::kMask:
      return;
  }
}

/// An instruction set's kernels are instantiated for `For`, a vector or a number. Conversions are
/// the same for all.
template <class For, class Real>
void read(ElementType type, const void* from, std::ptrdiff_t stride, std::size_t count, Real* to) {
  with_type(type, [&](auto element) { read_as<decltype(element)>(from, stride, count, to); });
}

template <class For, class Real>
void write(ElementType type, const Real* from, std::size_t count, void* to, std::ptrdiff_t stride) {
  with_type(type, [&](auto element) {
    using Element = decltype(element);
    if constexpr (!std::is_same_v<Element, I8>)  // needs a scale
      write_as<Element>(from, count, to, stride);
  });
}

/// Quotients are rounded by adding a number whose last bit is 1; the sum's last byte is the result.
template <class For, class Real>
void quantise(const Real* __restrict from, std::size_t count, std::int8_t* __restrict to,
              float* scale) {
  using Bits = typename Exp2<Real>::Bits;
  constexpr Bits kMagnitude = static_cast<Bits>(-1) >> 1;
  constexpr Real kRounder =
      std::is_same_v<Real, float> ? static_cast<Real>(0x1.8p23) : static_cast<Real>(0x1.8p52);
  Bits parts[kAtOnce] = {};  // the largest magnitudes: bits are in their order, NaN above all
  each_index(count, [&](std::size_t i, std::size_t k) {
    Bits bits;
    __builtin_memcpy(&bits, from + i, sizeof bits);
    bits &= kMagnitude;
    parts[k] = bits > parts[k] ? bits : parts[k];
  });
  Bits largest = 0;
  for (const Bits part : parts) largest = part > largest ? part : largest;
  Real most;
  __builtin_memcpy(&most, &largest, sizeof most);
  const auto step = static_cast<float>(most / 127);
  const bool normal = step >= 0x1p-126F && step <= kLargest<float>;
  *scale = normal ? step : (step < 1 ? 0.0F : __builtin_nanf(""));
  if (!normal) {
    for (std::size_t i = 0; i < count; ++i) to[i] = 0;
    return;
  }
  const Real divisor = step;
  each_index(count, [&](std::size_t i, std::size_t) {
    const Real rounded = from[i] / divisor + kRounder;
    Bits bits;
    __builtin_memcpy(&bits, &rounded, sizeof bits);
    to[i] = static_cast<std::int8_t>(bits & 0xffU);
  });
}

}  // namespace
}  // namespace heed
