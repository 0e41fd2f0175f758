// Dropout of weights. The bits of a pair come from a counter of its place, so that a mask depends
// on nothing else and is made again wherever it is needed.
#pragma once

#include <algorithm>

#include "engine/kernels/operations.hpp"
#include "engine/kernels/philox.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// Integers of 64 bits, of which the lower halves count.
template <class V>
using Words = Vec<std::uint64_t, typename V::arch_type>;

/// The products of the lower halves of x and a number of 32 bits.
template <class U>
HEED_INLINE U multiply_halves(U x, std::uint32_t by) {
#if defined(__AVX512F__)
  if constexpr (sizeof(U) == 64) return U(_mm512_mul_epu32(x, _mm512_set1_epi64(by)));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(U) == 32) return U(_mm256_mul_epu32(x, _mm256_set1_epi64x(by)));
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(U) == 16) return U(_mm_mul_epu32(x, _mm_set1_epi64x(by)));
#elif defined(__aarch64__)
  return U(vmull_n_u32(vmovn_u64(x), by));
#endif
}

/// philox() of as many counters side by side.
template <class U>
HEED_INLINE void philox_of(const std::uint32_t (&key)[2], U (&counter)[4]) {
  std::uint32_t round_key[2] = {key[0], key[1]};
  for (int round = 0; round < Philox::kRounds; ++round) {
    const U first = multiply_halves(counter[0], Philox::kMultipliers[0]);
    const U second = multiply_halves(counter[2], Philox::kMultipliers[1]);
    counter[0] = (second >> 32) ^ counter[1] ^ U(std::uint64_t{round_key[0]});
    counter[1] = second;
    counter[2] = (first >> 32) ^ counter[3] ^ U(std::uint64_t{round_key[1]});
    counter[3] = first;
    round_key[0] += Philox::kKeySteps[0];
    round_key[1] += Philox::kKeySteps[1];
  }
}

/// The bytes of kDropoutKeys keys, from a multiple of that on, for a vector of rows: words[q] has
/// those of keys 4q to 4q + 3, the lowest first.
template <class V>
HEED_INLINE void draw_bytes(const DroppedPairs& pairs, std::size_t row, std::uint32_t group,
                            typename BitsOf<V>::value_type (&words)[4][kLanes<V>]) {
  using U = Words<V>;
  constexpr std::size_t n = kLanes<U>;
  for (std::size_t half = 0; half < kLanes<V>; half += n) {
    alignas(kAlignment) std::uint64_t wide[4][n];
    for (std::size_t i = 0; i < n; ++i) wide[1][i] = pairs.rows[row + half + i];
    for (std::size_t i = 0; i < n; ++i) wide[2][i] = pairs.heads[row + half + i];
    U counter[4] = {U(std::uint64_t{group}), load<U>(wide[1]), load<U>(wide[2]),
                    U(std::uint64_t{pairs.batch})};
    philox_of(pairs.key, counter);
    unroll<4>([&](auto q) HEED_INLINE_LAMBDA {
      store<U>(wide[q], counter[q]);
      for (std::size_t i = 0; i < n; ++i)
        words[q][half + i] = static_cast<std::uint32_t>(wide[q][i]);
    });
  }
}

/// drop() for any number of vectors: what takes time are bits, which one vector needs as another.
template <class V, class Real = RealOf<V>>
[[gnu::noinline]] void drop_pairs(std::size_t vectors, const DroppedPairs& pairs,
                                  const KeyRanges& keys, const Real* from, Real factor, Real* to,
                                  Real* dropped) {
  HEED_CONTRACT(keys.hold_for(vectors));
  using Bits = BitsOf<V>;
  constexpr std::size_t n = kLanes<V>;
  const std::size_t pitch = vectors * n;
  // As byte_is_zero() compares: bytes at the end of the mantissa of 1.
  const Bits one = to_bits(V(Real{1}));
  const V threshold = from_bits<V>(Bits(pairs.threshold) | one);
  for (std::size_t w = 0; w < vectors; ++w) {
    V sum(Real{0});
    const std::uint64_t end = pairs.first_key + keys.end[w];
    for (std::uint64_t key = pairs.first_key + keys.begin[w]; key < end;) {
      const std::uint64_t group = key / kDropoutKeys;
      const std::uint64_t first = key % kDropoutKeys;
      const std::uint64_t last = std::min<std::uint64_t>(end - group * kDropoutKeys, kDropoutKeys);
      alignas(kAlignment) typename Bits::value_type words[4][n];
      draw_bytes<V>(pairs, w * n, static_cast<std::uint32_t>(group), words);
      const std::size_t at = ((group * kDropoutKeys - pairs.first_key) * vectors + w) * n;
      unroll<kDropoutKeys>([&](auto k) HEED_INLINE_LAMBDA {
        if (k < first || k >= last) return;
        const Bits byte = (Bits::load_aligned(words[k / 4]) >> (8 * (k % 4))) & Bits(0xff);
        const auto falls = from_bits<V>(byte | one) < threshold;
        const V x = load<V>(from + (at + k * pitch));
        store<V>(to + (at + k * pitch), xsimd::select(falls, V(Real{0}), x * V(factor)));
        if (dropped != nullptr) sum = sum + xsimd::select(falls, x, V(Real{0}));
      });
      key = group * kDropoutKeys + last;
    }
    if (dropped != nullptr) store<V>(dropped + w * n, load<V>(dropped + w * n) + sum);
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void drop(const DroppedPairs& pairs, const KeyRanges& keys, const Real* from, Real factor, Real* to,
          Real* dropped) {
  drop_pairs<V>(W, pairs, keys, from, factor, to, dropped);
}

}  // namespace
}  // namespace heed
