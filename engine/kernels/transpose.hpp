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
// as these hold numbers, and whole 128 bits change places at the end: by one round of every_other()
// on AVX2, by two on AVX-512. (There instructions that interleave whole vectors exist, but Zen 4
// takes twice as long for them.) Compilers know the instructions from the lanes that are picked.
#pragma once

#include "engine/kernels/operations.hpp"

namespace heed {
namespace {

/// Lane i of the result is lane place(i) of a, or of b where that is past the lanes of a.
template <class V, class Place, std::size_t... Is>
HEED_INLINE V pick_lanes(V a, V b, Place place, std::index_sequence<Is...>) {
  using Register = typename V::register_type;
  return V(__builtin_shufflevector(static_cast<Register>(a), static_cast<Register>(b),
                                   static_cast<int>(place(Is))...));
}
template <class V, class Place>
HEED_INLINE V pick_lanes(V a, V b, Place place) {
  return pick_lanes(a, b, place, std::make_index_sequence<kLanes<V>>{});
}

/// Lanes of 128 bits.
template <class V>
inline constexpr std::size_t kLanesWithin = 16 / sizeof(RealOf<V>);

/// Interleaves the lower (or upper) halves of each 128 bits of a and b.
template <bool kUpper, class V>
HEED_INLINE V interleave(V a, V b) {
  return pick_lanes(a, b, [](std::size_t i) {
    constexpr std::size_t n = kLanesWithin<V>;
    return i / n * n + (kUpper ? n / 2 : 0) + i % n / 2 + i % 2 * kLanes<V>;
  });
}

/// The even (or odd) 128 bits of a, then of b.
template <bool kOdd, class V>
HEED_INLINE V every_other(V a, V b) {
  return pick_lanes(a, b, [](std::size_t i) {
    constexpr std::size_t n = kLanesWithin<V>;
    return (i / n * 2 + (kOdd ? 1 : 0)) * n + i % n;
  });
}

/// to[q] holds the q-th 128 bits of a, b, c and d.
template <class V>
HEED_INLINE void transpose_quarters(V a, V b, V c, V d, V* to) {
  const V even = every_other<false>(a, b);
  const V odd = every_other<true>(a, b);
  const V later_even = every_other<false>(c, d);
  const V later_odd = every_other<true>(c, d);
  to[0] = every_other<false>(even, later_even);
  to[1] = every_other<false>(odd, later_odd);
  to[2] = every_other<true>(even, later_even);
  to[3] = every_other<true>(odd, later_odd);
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
  constexpr std::size_t n = kLanesWithin<V>;
  constexpr std::size_t blocks = kLanes<V> / n;
  unroll<blocks>([&](auto i) HEED_INLINE_LAMBDA { shuffle_rows<n, V>(rows, i * n); });
  if constexpr (blocks == 2) {
    unroll<n>([&](auto i) HEED_INLINE_LAMBDA {
      const V even = every_other<false>(rows[i], rows[i + n]);
      rows[i + n] = every_other<true>(rows[i], rows[i + n]);
      rows[i] = even;
    });
  } else if constexpr (blocks == 4) {
    unroll<n>([&](auto i) HEED_INLINE_LAMBDA {
      V quarters[4];
      transpose_quarters(rows[i], rows[i + n], rows[i + 2 * n], rows[i + 3 * n], quarters);
      unroll<4>([&](auto q) HEED_INLINE_LAMBDA { rows[i + q * n] = quarters[q]; });
    });
  }
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
  constexpr std::size_t n = kLanesWithin<V>;
  constexpr std::size_t blocks = kLanes<V> / n;
  unroll<blocks>([&](auto i) HEED_INLINE_LAMBDA { fold_rows<n, V>(rows, i * n, add); });
  // Sums of neighbouring 128 bits: of a, and then of b.
  const auto add_neighbours = [&](V a, V b) HEED_INLINE_LAMBDA {
    return add(every_other<false>(a, b), every_other<true>(a, b));
  };
  if constexpr (blocks == 1) return rows[0];
  if constexpr (blocks == 2) return add_neighbours(rows[0], rows[n]);
  if constexpr (blocks == 4)
    return add_neighbours(add_neighbours(rows[0], rows[n]),
                          add_neighbours(rows[2 * n], rows[3 * n]));
}

}  // namespace
}  // namespace heed
