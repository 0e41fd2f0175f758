// Vectors of rows in every type that rows are stored in: where they are multiplied, they are read
// as they lie, and become numbers of the arithmetic in registers.
#pragma once

#include "engine/kernels/convert.hpp"
#include "engine/kernels/operands.hpp"
#include "engine/kernels/operations.hpp"

namespace heed {
namespace {

/// A vector of elements that lie next to each other, as Real.
template <class V>
HEED_INLINE V read_vector(const RealOf<V>* from) {
  return V::load_unaligned(from);
}

/// bfloat16 is the upper half of a float32.
template <class V>
HEED_INLINE V read_vector(const Bf16* from) {
  [[maybe_unused]] const void* const at = from;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64)
    return V(_mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(at))), 16)));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32)
    return V(_mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(at))), 16)));
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(V) == 16)
    return V(_mm_castsi128_ps(
        _mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64(static_cast<const __m128i*>(at)))));
#elif defined(__aarch64__)
  return V(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(static_cast<const std::uint16_t*>(at)), 16)));
#endif
}

template <class V>
HEED_INLINE V read_vector(const I8* from) {
  [[maybe_unused]] const void* const at = from;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64)
    return V(
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(at)))));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32)
    return V(
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(at)))));
#endif
  [[maybe_unused]] std::int32_t four;
  __builtin_memcpy(&four, at, sizeof four);
#if defined(__SSE2__)
  if constexpr (sizeof(V) == 16) {
    const __m128i bytes = _mm_cvtsi32_si128(four);
    const __m128i twice = _mm_unpacklo_epi8(bytes, bytes);
    return V(_mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(twice, twice), 24)));
  }
#elif defined(__aarch64__)
  const int16x8_t words = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
  return V(vcvtq_f32_s32(vmovl_s16(vget_low_s16(words))));
#endif
}

/// For instruction sets without the conversion. Not in line: it is long.
template <class V, class Element>
[[gnu::noinline]] V read_by_hand(const Element* from) {
  alignas(kAlignment) RealOf<V> wide[kLanes<V>];
  for (std::size_t i = 0; i < kLanes<V>; ++i) wide[i] = decode(from[i]);
  return load<V>(wide);
}

template <class V>
HEED_INLINE V read_vector(const F16* from) {
  [[maybe_unused]] const void* const at = from;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64)
    return V(_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(at))));
#endif
#if defined(__F16C__)
  if constexpr (sizeof(V) == 32)
    return V(_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(at))));
  if constexpr (sizeof(V) == 16)
    return V(_mm_cvtph_ps(_mm_loadl_epi64(static_cast<const __m128i*>(at))));
#elif defined(__aarch64__)
  return V(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(static_cast<const std::uint16_t*>(at)))));
#endif
  return read_by_hand<V>(from);
}

/// Rows of 8 bits have scales, which are multiplied with this too.
template <class Element>
inline constexpr float kUnit = 1;
#if defined(__F16C__) || defined(__aarch64__)
template <>
inline constexpr float kUnit<F8E4M3> = 256;
#endif

/// Where there is a conversion from float16, E4M3 over kUnit: it has the sign and magnitude of a
/// float16 number with an exponent 8 less, subnormal or not. NaN becomes one of float16.
template <class V>
HEED_INLINE V read_vector(const F8E4M3* from) {
  [[maybe_unused]] const void* const at = from;
  [[maybe_unused]] constexpr auto kNumber = static_cast<std::int16_t>(0xbf80);
  [[maybe_unused]] constexpr std::int16_t kSign = INT16_MIN;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(at)));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16(kNumber));
    const __m256i nan = _mm256_cmpeq_epi16(_mm256_or_si256(half, _mm256_set1_epi16(kSign)),
                                           _mm256_set1_epi16(kNumber));
    return V(_mm512_cvtph_ps(_mm256_or_si256(half, nan)));
  }
#endif
#if defined(__F16C__) && defined(__AVX2__)
  if constexpr (sizeof(V) == 32) {
    const __m128i words = _mm_cvtepi8_epi16(_mm_loadl_epi64(static_cast<const __m128i*>(at)));
    const __m128i half = _mm_and_si128(_mm_slli_epi16(words, 7), _mm_set1_epi16(kNumber));
    const __m128i nan =
        _mm_cmpeq_epi16(_mm_or_si128(half, _mm_set1_epi16(kSign)), _mm_set1_epi16(kNumber));
    return V(_mm256_cvtph_ps(_mm_or_si128(half, nan)));
  }
#elif defined(__aarch64__)
  std::int32_t four;
  __builtin_memcpy(&four, at, sizeof four);
  const int16x4_t words = vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))));
  const int16x4_t half = vand_s16(vshl_n_s16(words, 7), vdup_n_s16(kNumber));
  const uint16x4_t nan = vceq_s16(vorr_s16(half, vdup_n_s16(kSign)), vdup_n_s16(kNumber));
  return V(vcvt_f32_f16(vreinterpret_f16_u16(vorr_u16(vreinterpret_u16_s16(half), nan))));
#endif
  return read_by_hand<V>(from);
}

/// Whether lines of 64 elements are read at once, into four vectors whose elements take turns:
/// element 4q + i of vector v is element 16q + line_place(i, v) of the line.
template <class V, class Element>
inline constexpr bool kTakesTurns = false;
constexpr std::size_t line_place(std::size_t i, std::size_t v) { return v / 2 * 8 + 2 * i + v % 2; }

#if defined(__AVX512VBMI__)
template <>
inline constexpr bool kTakesTurns<Vec<float, xsimd::avx512bw>, F8E4M3> = true;

/// The bytes of E4M3's magnitudes over kUnit as bfloat16.
struct E4M3Bytes {
  constexpr E4M3Bytes() {
    for (unsigned x = 0; x < 128; ++x) {
      const unsigned exponent = x >> 3;
      unsigned fraction = x & 7U;
      unsigned shift = 0;  // of a subnormal number
      while (exponent == 0 && fraction != 0 && (fraction << shift & 8U) == 0) ++shift;
      if (exponent == 0) fraction = fraction << shift & 7U;
      unsigned word = (exponent + (exponent == 0 ? 1 : 0) - shift + 127 - 7 - 8) << 7 | fraction
                                                                                            << 4;
      if (x == 0) word = 0;
      if (x == 127) word = 0x7fc0;
      lower[x] = static_cast<std::uint8_t>(word);
      upper[x] = static_cast<std::uint8_t>(word >> 8);
    }
  }
  alignas(64) std::uint8_t lower[128] = {}, upper[128] = {};
};
inline constexpr E4M3Bytes kE4M3Bytes;
static_assert(kUnit<F8E4M3> == 256);

/// 64 lookups at once.
template <class V>
HEED_INLINE void read_line(const F8E4M3* from, V (&line)[4]) {
  const auto look_up = [](const std::uint8_t* bytes, __m512i x) HEED_INLINE_LAMBDA {
    return _mm512_permutex2var_epi8(_mm512_load_si512(bytes), x, _mm512_load_si512(bytes + 64));
  };
  constexpr int kOrAnd = 0xf8;  // a | (b & c)
  const __m512i x = _mm512_loadu_si512(from);
  const __m512i lower = look_up(kE4M3Bytes.lower, x);
  const __m512i upper = _mm512_ternarylogic_epi32(
      look_up(kE4M3Bytes.upper, x), x, _mm512_set1_epi32(static_cast<int>(0x80808080U)), kOrAnd);
  const __m512i words[] = {_mm512_unpacklo_epi8(lower, upper), _mm512_unpackhi_epi8(lower, upper)};
  unroll<2>([&](auto i) HEED_INLINE_LAMBDA {
    line[2 * i] = V(_mm512_castsi512_ps(_mm512_slli_epi32(words[i], 16)));
    line[2 * i + 1] = V(_mm512_castsi512_ps(
        _mm512_and_si512(words[i], _mm512_set1_epi32(static_cast<int>(0xffff0000U)))));
  });
}
#endif

/// The scales of `count` rows, H times each; the last one's fill the vector.
template <class V, std::size_t H>
HEED_INLINE V repeated_scales(const float* scales, std::size_t count) {
  constexpr std::size_t n = kLanes<V>;
  if (H == 1 && count == n) return V::load_unaligned(scales);
  alignas(kAlignment) float lanes[n];
  for (std::size_t i = 0; i < n; ++i) lanes[i] = static_cast<float>(i);
  V all(scales[0]);
  unroll<n / H - 1>([&](auto i) HEED_INLINE_LAMBDA {
    const V scale(scales[i + 1 < count ? i + 1 : count - 1]);
    all = xsimd::select(load<V>(lanes) >= V(static_cast<float>((i + 1) * H)), scale, all);
  });
  return all;
}

}  // namespace
}  // namespace heed
