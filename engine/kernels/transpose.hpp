// Shuffles: squares of vectors transposed, and vectors summed over their lanes by the same moves.
//
// A round of perfect shuffles interleaves row i with row i + n / 2, for every i < n / 2. Two rounds
// transpose four rows of four:
//
//   rows          first round   second round
//   a0 a1 a2 a3   a0 c0 a1 c1   a0 b0 c0 d0
//   b0 b1 b2 b3   a2 c2 a3 c3   a1 b1 c1 d1
//   c0 c1 c2 c3   b0 d0 b1 d1   a2 b2 c2 d2
//   d0 d1 d2 d3   b2 d2 b3 d3   a3 b3 c3 d3
//
// n rows take log2(n) rounds. Wider vectors are shuffled within each 128 bits, so many rows apart
// as these hold numbers, and whole 128 bits change places at the end: by join_halves() on AVX2, by
// two rounds of every_other() on AVX-512. (There instructions that interleave whole vectors exist,
// but Zen 4 takes twice as long for them.)
#pragma once

#include "engine/kernels/operations.hpp"

namespace heed {
namespace {

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

#if defined(__AVX512F__)
/// The even (or odd) 128 bits of a, then those of b.
template <bool kOdd, class V>
HEED_INLINE V every_other(V a, V b) {
  constexpr int which = kOdd ? 0xdd : 0x88;
  if constexpr (kIsFloat<V>) {
    return V(_mm512_shuffle_f32x4(a, b, which));
  } else {
    return V(_mm512_shuffle_f64x2(a, b, which));
  }
}
#endif

/// Interleaves the lower (or upper) halves of each 128 bits of a and b. xsimd's zip does so for
/// vectors of 128 bits; for wider ones xsimd 8.1 and later versions differ, so the instructions are
/// spelled out.
template <bool kUpper, class V>
HEED_INLINE V interleave(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && kIsFloat<V>)
    return V(kUpper ? _mm512_unpackhi_ps(a, b) : _mm512_unpacklo_ps(a, b));
  if constexpr (sizeof(V) == 64 && !kIsFloat<V>)
    return V(kUpper ? _mm512_unpackhi_pd(a, b) : _mm512_unpacklo_pd(a, b));
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

/// Transposes n x n elements of each 128 bits, rows[from] and the n - 1 after it, by log2(n) rounds
/// of perfect shuffles.
template <std::size_t n, class V>
HEED_INLINE void shuffle_rows(V (&rows)[kLanes<V>], std::size_t from) {
  unroll<log2_of(n)>([&](auto) HEED_INLINE_LAMBDA {
    V shuffled[n];
    unroll<n / 2>([&](auto i) HEED_INLINE_LAMBDA {
      shuffled[2 * i] = interleave<false>(rows[from + i], rows[from + i + n / 2]);
      shuffled[2 * i + 1] = interleave<true>(rows[from + i], rows[from + i + n / 2]);
    });
    unroll<n>([&](auto i) HEED_INLINE_LAMBDA { rows[from + i] = shuffled[i]; });
  });
}

/// Transposes a square of vectors.
template <class V>
HEED_INLINE void transpose_square(V (&rows)[kLanes<V>]) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    constexpr std::size_t within = kLanes<V> / 4;
    unroll<4>([&](auto i) HEED_INLINE_LAMBDA { shuffle_rows<within, V>(rows, i * within); });
    unroll<within>([&](auto i) HEED_INLINE_LAMBDA {
      const V even = every_other<false>(rows[i], rows[i + within]);
      const V odd = every_other<true>(rows[i], rows[i + within]);
      const V later_even = every_other<false>(rows[i + 2 * within], rows[i + 3 * within]);
      const V later_odd = every_other<true>(rows[i + 2 * within], rows[i + 3 * within]);
      rows[i] = every_other<false>(even, later_even);
      rows[i + within] = every_other<false>(odd, later_odd);
      rows[i + 2 * within] = every_other<true>(even, later_even);
      rows[i + 3 * within] = every_other<true>(odd, later_odd);
    });
    return;
  }
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32) {
    constexpr std::size_t half = kLanes<V> / 2;
    shuffle_rows<half, V>(rows, 0);
    shuffle_rows<half, V>(rows, half);
    unroll<half>([&](auto i) HEED_INLINE_LAMBDA {
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

/// Sums each of the n rows from rows[from] on over its elements, by log2(n) rounds of shuffles,
/// each 128 bits alone: element i of these in rows[from] becomes a sum of row from + i.
template <std::size_t n, class V, class Add>
HEED_INLINE void fold_rows(V (&rows)[kLanes<V>], std::size_t from, Add add) {
  if constexpr (n > 1) {
    unroll<n / 2>([&](auto i) HEED_INLINE_LAMBDA {
      const V a = rows[from + i];
      const V b = rows[from + i + n / 2];
      rows[from + i] = add(interleave<false>(a, b), interleave<true>(a, b));
    });
    fold_rows<n / 2, V>(rows, from, add);
  }
}

struct AddNumbers {
  template <class V>
  HEED_INLINE V operator()(V a, V b) const {
    return a + b;
  }
};

/// Element i of the result is the sum of the elements of rows[i], which may be anything of their
/// size that `add` adds. Overwrites the rows.
template <class V, class Add = AddNumbers>
HEED_INLINE V sum_rows(V (&rows)[kLanes<V>], Add add = {}) {
  constexpr std::size_t within = 16 / sizeof(RealOf<V>);
  unroll<kLanes<V> / within>(
      [&](auto i) HEED_INLINE_LAMBDA { fold_rows<within, V>(rows, i * within, add); });
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    // Sums of neighbouring 128 bits: those of a, then those of b.
    const auto add_neighbours = [&](V a, V b) HEED_INLINE_LAMBDA {
      return add(every_other<false>(a, b), every_other<true>(a, b));
    };
    return add_neighbours(add_neighbours(rows[0], rows[within]),
                          add_neighbours(rows[2 * within], rows[3 * within]));
  }
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32)
    return add(join_halves<false>(rows[0], rows[within]), join_halves<true>(rows[0], rows[within]));
#endif
  return rows[0];
}

}  // namespace
}  // namespace heed
