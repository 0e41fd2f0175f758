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

/// The key of every round, which all counters share.
struct RoundKeys {
  explicit RoundKeys(const std::uint32_t (&key)[2]) {
    for (std::size_t i = 0; i < 2; ++i)
      for (std::uint32_t round = 0; round < Philox::kRounds; ++round)
        of[round][i] = key[i] + round * Philox::kKeySteps[i];
  }
  std::uint64_t of[Philox::kRounds][2];  ///< 32 bits of each count
};

/// philox() of as many counters side by side, in N groups that take turns: a round waits for the
/// multiplications of the one before.
template <std::size_t N, class U>
HEED_INLINE void philox_of(const RoundKeys& keys, U (&counter)[4][N]) {
  for (const auto& key : keys.of) {
    const U key0(key[0]);
    const U key1(key[1]);
    unroll<N>([&](auto i) HEED_INLINE_LAMBDA {
      const U first = multiply_halves(counter[0][i], Philox::kMultipliers[0]);
      const U second = multiply_halves(counter[2][i], Philox::kMultipliers[1]);
      counter[0][i] = (second >> 32) ^ counter[1][i] ^ key0;
      counter[1][i] = second;
      counter[2][i] = (first >> 32) ^ counter[3][i] ^ key1;
      counter[3][i] = first;
    });
  }
}

/// The lower halves, side by side.
template <class U>
HEED_INLINE void store_halves(U x, std::uint32_t* to) {
#if defined(__AVX512F__)
  if constexpr (sizeof(U) == 64)
    return _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi64_epi32(x));
#endif
  alignas(kAlignment) std::uint64_t wide[kLanes<U>];
  store<U>(wide, x);
  for (std::size_t i = 0; i < kLanes<U>; ++i) to[i] = static_cast<std::uint32_t>(wide[i]);
}
/// For lanes of 64 bits, of which the lower halves count.
template <class U>
HEED_INLINE void store_halves(U x, std::uint64_t* to) {
  store<U>(to, x);
}

/// The random bytes of a vector of rows.
template <class V>
struct RowBytes {
  using U = Words<V>;
  using Bits = BitsOf<V>;
  static constexpr std::size_t kGroups = kLanes<V> / kLanes<U>;

  RowBytes(const DroppedPairs& pairs, std::size_t first)
      : round_keys(pairs.key), batch(pairs.batch) {
    for (std::size_t i = 0; i < kLanes<V>; ++i) {
      places[0][i] = pairs.rows[first + i];
      places[1][i] = pairs.heads[first + i];
    }
  }

  /// Draws the bytes of kDropoutKeys keys, from a multiple of that on: words[q] has the bytes of
  /// keys 4q to 4q + 3, the lowest first.
  HEED_INLINE void draw(std::uint32_t group) {
    U counter[4][kGroups];
    unroll<kGroups>([&](auto i) HEED_INLINE_LAMBDA {
      counter[0][i] = U(std::uint64_t{group});
      counter[1][i] = load<U>(places[0] + i * kLanes<U>);
      counter[2][i] = load<U>(places[1] + i * kLanes<U>);
      counter[3][i] = U(batch);
    });
    philox_of(round_keys, counter);
    unroll<4>([&](auto q) HEED_INLINE_LAMBDA {
      unroll<kGroups>([&](auto i) HEED_INLINE_LAMBDA {
        store_halves(counter[q][i], words[q] + i * kLanes<U>);
      });
    });
  }

  alignas(kAlignment) std::uint64_t places[2][kLanes<V>];  ///< rows, and heads
  alignas(kAlignment) typename Bits::value_type words[4][kLanes<V>];
  const RoundKeys round_keys;
  const std::uint64_t batch;
};

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
  const V by(factor);
  const V zero(Real{0});
  for (std::size_t w = 0; w < vectors; ++w) {
    RowBytes<V> bytes(pairs, w * n);
    V sum(Real{0});
    const std::uint64_t end = pairs.first_key + keys.end[w];
    for (std::uint64_t key = pairs.first_key + keys.begin[w]; key < end;) {
      const std::uint64_t group = key / kDropoutKeys;
      const std::uint64_t first = key % kDropoutKeys;
      const std::uint64_t last = std::min<std::uint64_t>(end - group * kDropoutKeys, kDropoutKeys);
      bytes.draw(static_cast<std::uint32_t>(group));
      std::size_t at = ((group * kDropoutKeys - pairs.first_key) * vectors + w) * n;
      for (std::size_t q = 0; q < kDropoutKeys; q += 4) {
        const Bits word = Bits::load_aligned(bytes.words[q / 4]);
        unroll<4>([&](auto k) HEED_INLINE_LAMBDA {
          const std::size_t here = at;
          at += pitch;
          if (q + k < first || q + k >= last) return;
          const Bits byte = (word >> (8 * k)) & Bits(0xff);
          const auto falls = from_bits<V>(byte | one) < threshold;
          const V x = load<V>(from + here);
          store<V>(to + here, xsimd::select(!falls, x * by, zero));
          sum = xsimd::select(falls, sum + x, sum);
        });
      }
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
