// All that options do to scores between the product and the softmax: a soft cap, a bias that grows
// with distance, rows of biases, rows of masks, and limits on the keys; and the highest score of
// each row.
#pragma once

#include "engine/kernels/constants.hpp"
#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"
#include "engine/kernels/tanh.hpp"
#include "engine/kernels/transpose.hpp"

namespace heed {
namespace {

/// Measured: 3.6 ULP for float, 3.2 for double, wherever tanh(x) is a normal number.
template <class V, std::size_t W, class Real = RealOf<V>>
void softcap(Real* scores, std::size_t keys, Real factor) {
  constexpr std::size_t n = kLanes<V>;
  for (std::size_t i = 0; i < keys * W * n; i += n)
    store<V>(scores + i, tanh_of_exponent(load<V>(scores + i)) * V(factor));
}

template <class V, std::size_t W, class Real = RealOf<V>>
void alibi(Real* scores, std::size_t keys, const Real* position, const Real* slope) {
  constexpr std::size_t n = kLanes<V>;
  V at_key_0[W];
  V per_key[W];
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    at_key_0[w] = load<V>(position + w * n);
    per_key[w] = V(Real{0}) - load<V>(slope + w * n);
  });
  for (std::size_t j = 0; j < keys; ++j) {
    const V key(static_cast<Real>(j));
    unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
      Real* const at = scores + (j * W + w) * n;
      store<V>(at, multiply_add(per_key[w], xsimd::abs(at_key_0[w] - key), load<V>(at)));
    });
  }
}

/// Transposes the n elements from rows[r] + j on of each of n rows: square[i] holds key j + i. Rows
/// past `present` and keys past `keys` are not read and become zeros.
template <class V, class Real = RealOf<V>>
HEED_INLINE void transpose_rows(const Real* const* rows, std::size_t present, std::size_t j,
                                std::size_t keys, V (&square)[kLanes<V>]) {
  constexpr std::size_t n = kLanes<V>;
  if (j + n <= keys) {
    unroll<n>([&](auto r) HEED_INLINE_LAMBDA {
      square[r] = r < present ? V::load_unaligned(rows[r] + j) : V(Real{0});
    });
  } else {
    alignas(kAlignment) Real rest[n][n] = {};
    for (std::size_t r = 0; r < present; ++r)
      for (std::size_t i = 0; j + i < keys; ++i) rest[r][i] = rows[r][j + i];
    unroll<n>([&](auto r) HEED_INLINE_LAMBDA { square[r] = load<V>(rest[r]); });
  }
  transpose_square<V>(square);
}

/// add_rows() for keys [begin, end), number by number.
template <class Real>
[[gnu::noinline]] void add_far_rows(Real* scores, std::size_t pitch, std::size_t begin,
                                    std::size_t end, const Real* const* rows, std::size_t row_count,
                                    Real factor) {
  for (std::size_t j = begin; j < end; ++j)
    for (std::size_t r = 0; r < row_count; ++r)
      scores[j * pitch + r] = with_addend(scores[j * pitch + r], rows[r][j], factor);
}

/// add_rows() for panels of any width: what takes time is to transpose.
template <class V, class Real = RealOf<V>>
[[gnu::noinline]] void add_rows_to(Real* scores, std::size_t pitch, std::size_t keys,
                                   const Real* const* rows, std::size_t row_count, Real factor) {
  constexpr std::size_t n = kLanes<V>;
  const V excluded(-kInfinity<Real>);
  // Missing rows add 0 * -0, which leaves every score as it is, -0 included.
  alignas(kAlignment) Real factors[kMaxPanel];
  for (std::size_t r = 0; r < pitch; ++r) factors[r] = r < row_count ? factor : Real{-0.0};
  for (std::size_t r0 = 0; r0 < row_count; r0 += n) {
    const std::size_t present = row_count - r0 < n ? row_count - r0 : n;
    const V times = load<V>(factors + r0);
    for (std::size_t j = 0; j < keys; j += n) {
      V square[n];
      transpose_rows<V>(rows + r0, present, j, keys, square);
      V special(Real{0});
      unroll<n>([&](auto i) HEED_INLINE_LAMBDA {
        if (j + i >= keys) return;
        // Not fused: a product that overflows is cut to the lowest finite number first.
        const V sum = load<V>(scores + (j + i) * pitch + r0) +
                      at_least(V(kNoRowMax<Real>), square[i] * times);
        special = multiply_add(sum, V(Real{0}), special);
        square[i] = xsimd::select(square[i] == excluded, excluded, sum);
      });
      if (__builtin_expect(!xsimd::all(special == V(Real{0})), false)) {
        add_far_rows(scores + r0, pitch, j, j + n < keys ? j + n : keys, rows + r0, present,
                     factor);
        continue;
      }
      unroll<n>([&](auto i) HEED_INLINE_LAMBDA {
        if (j + i < keys) store<V>(scores + (j + i) * pitch + r0, square[i]);
      });
    }
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void add_rows(Real* scores, std::size_t keys, const Real* const* rows, std::size_t row_count,
              Real factor) {
  add_rows_to<V>(scores, W * kLanes<V>, keys, rows, row_count, factor);
}

/// lay_rows() for panels of any width.
template <class V, class Real = RealOf<V>>
[[gnu::noinline]] bool lay_rows_to(Real* to, std::size_t pitch, std::size_t keys,
                                   const Real* const* rows, std::size_t row_count, Real factor) {
  constexpr std::size_t n = kLanes<V>;
  if (!(factor >= kLeastFactor<Real>)) return false;  // -inf times it would not be -inf
  const V excluded(-kInfinity<Real>);
  V most(Real{0});
  // Missing rows become 0 * -0, which leaves every score as it is, -0 included.
  alignas(kAlignment) Real factors[kMaxPanel];
  for (std::size_t r = 0; r < pitch; ++r) factors[r] = r < row_count ? factor : Real{-0.0};
  for (std::size_t r0 = 0; r0 < pitch; r0 += n) {
    const std::size_t from = r0 < row_count ? r0 : row_count;
    const std::size_t present = row_count - from < n ? row_count - from : n;
    const V times = load<V>(factors + r0);
    for (std::size_t j = 0; j < keys; j += n) {
      V square[n];
      transpose_rows<V>(rows + from, present, j, keys, square);
      // Through memory: unrolled with a pitch, addresses would take the registers.
      alignas(kAlignment) Real transposed[n * n];
      unroll<n>([&](auto i) HEED_INLINE_LAMBDA { store<V>(transposed + i * n, square[i]); });
      const std::size_t here = keys - j < n ? keys - j : n;
      Real* at = to + j * pitch + r0;
      for (std::size_t i = 0; i < here; ++i, at += pitch) {
        const V x = load<V>(transposed + i * n);
        const V addend = x * times;
        most = at_least(xsimd::select(x == excluded, V(Real{0}), xsimd::abs(addend)), most);
        store<V>(at, addend);
      }
    }
  }
  return xsimd::all(most < V(kFarAddend<Real>));
}

template <class V, std::size_t W, class Real = RealOf<V>>
bool lay_rows(Real* to, std::size_t keys, const Real* const* rows, std::size_t row_count,
              Real factor) {
  constexpr std::size_t pitch = W * kLanes<V>;
  if constexpr (kAddsToScores<V>) return lay_rows_to<V>(to, pitch, keys, rows, row_count, factor);
  // In two steps, because only gradients lay out rows.
  for (std::size_t i = 0; i < keys * pitch; ++i) to[i] = Real{-0.0};
  add_rows_to<V>(to, pitch, keys, rows, row_count, factor);
  bool fits = true;
  for (std::size_t i = 0; i < keys * pitch; ++i)
    fits &= !(__builtin_fabs(to[i]) >= kFarAddend<Real>) || to[i] == -kInfinity<Real>;
  return fits;
}

/// Transposes the bytes from rows[r] + j on of each of n rows, sizeof(Real) of them as one number:
/// square[i] holds the bytes of keys j + i * sizeof(Real) and after. Rows past `present` and keys
/// past `keys` are not read and become ones.
template <class V, class Real = RealOf<V>>
HEED_INLINE void transpose_bytes(const std::uint8_t* const* rows, std::size_t present,
                                 std::size_t j, std::size_t keys, V (&square)[kLanes<V>]) {
  constexpr std::size_t n = kLanes<V>;
  alignas(kAlignment) std::uint8_t rest[n][n * sizeof(Real)];
  const auto vector_at = [](const std::uint8_t* bytes) HEED_INLINE_LAMBDA {
    return V::load_unaligned(static_cast<const Real*>(static_cast<const void*>(bytes)));
  };
  if (j + n * sizeof(Real) <= keys && present >= n) {
    unroll<n>([&](auto r) HEED_INLINE_LAMBDA { square[r] = vector_at(rows[r] + j); });
  } else {
    const std::size_t here = keys - j < sizeof rest[0] ? keys - j : sizeof rest[0];
    __builtin_memset(rest, 1, sizeof rest);
    for (std::size_t r = 0; r < n && r < present; ++r) __builtin_memcpy(rest[r], rows[r] + j, here);
    unroll<n>([&](auto r) HEED_INLINE_LAMBDA { square[r] = vector_at(rest[r]); });
  }
  transpose_square<V>(square);
}

/// mask_rows() for panels of any width. Transposes the bytes of sizeof(Real) keys at once; then
/// each key tests its byte of the numbers. For double that would be much code for little: score by
/// score.
template <class V, class Real = RealOf<V>>
[[gnu::noinline]] void mask_rows_to(Real* scores, std::size_t pitch, std::size_t keys,
                                    const std::uint8_t* const* rows, std::size_t row_count,
                                    bool fresh) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t bytes = sizeof(Real);
  alignas(kAlignment) static constexpr Real kZeros[kMaxPanel] = {};
  const Real* const from = fresh ? kZeros : scores;
  const std::size_t step = fresh ? 0 : pitch;
  if constexpr (!kIsFloat<V>) {
    for (std::size_t j = 0; j < keys; ++j)
      for (std::size_t r = 0; r < pitch; ++r)
        scores[j * pitch + r] =
            r < row_count && rows[r][j] == 0 ? -kInfinity<Real> : from[j * step + r];
  } else {
    const V excluded(-kInfinity<Real>);
    for (std::size_t r0 = 0; r0 < pitch; r0 += n) {
      const std::size_t first = r0 < row_count ? r0 : row_count;
      for (std::size_t j = 0; j < keys; j += n * bytes) {
        V square[n];
        transpose_bytes<V>(rows + first, row_count - first, j, keys, square);
        alignas(kAlignment) Real transposed[n * n];  // as in lay_rows_to()
        unroll<n>([&](auto i) HEED_INLINE_LAMBDA { store<V>(transposed + i * n, square[i]); });
        for (std::size_t i = 0; i < n && j + i * bytes < keys; ++i) {
          const V few = load<V>(transposed + i * n);
          unroll<bytes>([&](auto b) HEED_INLINE_LAMBDA {
            const std::size_t key = j + i * bytes + b;
            if (key < keys)
              store<V>(scores + key * pitch + r0, xsimd::select(byte_is_zero<b>(few), excluded,
                                                                load<V>(from + key * step + r0)));
          });
        }
      }
    }
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void mask_rows(Real* scores, std::size_t keys, const std::uint8_t* const* rows,
               std::size_t row_count, bool fresh) {
  mask_rows_to<V>(scores, W * kLanes<V>, keys, rows, row_count, fresh);
}

template <class V, std::size_t W, class Real = RealOf<V>>
void mask(Real* scores, std::size_t keys, const Real* first, const Real* limit) {
  constexpr std::size_t n = kLanes<V>;
  const V excluded(-kInfinity<Real>);
  V begin[W];
  V end[W];
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    begin[w] = load<V>(first + w * n);
    end[w] = load<V>(limit + w * n);
  });
  for (std::size_t j = 0; j < keys; ++j) {
    const V key(static_cast<Real>(j));
    unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
      Real* const at = scores + (j * W + w) * n;
      const auto attended = (begin[w] <= key) & (key < end[w]);
      store<V>(at, xsimd::select(attended, load<V>(at), excluded));
    });
  }
}

/// For hard attention. A best score of NaN stays, because nothing exceeds it.
template <class V, std::size_t W, class Real = RealOf<V>>
void argmax(const Real* scores, std::size_t keys, Real* best_of, Real* index_of) {
  constexpr std::size_t n = kLanes<V>;
  V best[W];
  V index[W];
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    best[w] = load<V>(best_of + w * n);
    index[w] = load<V>(index_of + w * n);
  });
  for (std::size_t j = 0; j < keys; ++j) {
    const V key(static_cast<Real>(j));
    unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
      const V score = load<V>(scores + (j * W + w) * n);
      const auto exceeds = score > best[w];
      index[w] = xsimd::select(exceeds, key, index[w]);
      best[w] = xsimd::select(exceeds | xsimd::isnan(score), score, best[w]);
    });
  }
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    store<V>(best_of + w * n, best[w]);
    store<V>(index_of + w * n, index[w]);
  });
}

}  // namespace
}  // namespace heed
