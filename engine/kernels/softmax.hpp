// Online softmax down the columns of a score tile: query rows lie in the lanes, so maxima and
// sums over keys are plain vertical operations.
#pragma once

#include "engine/kernels/arch.hpp"
#include "engine/kernels/constants.hpp"
#include "engine/kernels/exp2.hpp"
#include "engine/kernels/product.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// Scores of +inf count as the largest finite number, as does a maximum of +inf in rescale(): they
/// share the weight evenly, and nothing is inf - inf.
template <class V>
HEED_INLINE V finite(V score) {
  return at_most(kLargest<RealOf<V>>, score);
}

template <class V, class Real = RealOf<V>>
[[gnu::noinline]] void make_finite(Real* scores, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kLanes<V>)
    store<V>(scores + i, finite(load<V>(scores + i)));
}

/// Calls function(N, w, begin, end) for N vectors from w on that need the keys [begin, end): all
/// side by side where they need the same, else one by one, in as little code as that takes.
template <std::size_t W, class Function>
HEED_INLINE void each_column(const KeyRanges& keys, Function&& function) {
  if (W == 1 || is_one_run<W>(keys)) {
    function(std::integral_constant<std::size_t, W>{}, 0, 0, keys.end[0]);
  } else {
    for (std::size_t w = 0; w < W; ++w)
      function(std::integral_constant<std::size_t, 1>{}, w, keys.begin[w], keys.end[w]);
  }
}

/// The keys [begin, end) of `count` vectors in rows of `pitch` numbers. A step's weights are summed
/// apart from those before them, so that a row's error does not grow with its keys.
template <class V, std::size_t count, class Real = RealOf<V>>
[[gnu::noinline]] void add_exponentials(Real* scores, std::size_t pitch, std::size_t begin,
                                        std::size_t end, const Real* reference_of, Real* sum_of) {
  constexpr std::size_t n = kLanes<V>;
  V reference[count];
  V sum[count];
  unroll<count>([&](auto w) HEED_FLAT {
    reference[w] = load<V>(reference_of + w * n);
    sum[w] = V(Real{0});
  });
  for (std::size_t j = begin; j < end; ++j) {
    unroll<count>([&](auto w) HEED_FLAT {
      Real* const at = scores + j * pitch + w * n;
      const V weight = exp2_of(load<V>(at) - reference[w]);
      sum[w] = sum[w] + weight;
      store<V>(at, weight);
    });
  }
  unroll<count>([&](auto w)
                    HEED_FLAT { store<V>(sum_of + w * n, load<V>(sum_of + w * n) + sum[w]); });
}

template <class V, std::size_t W, class Real = RealOf<V>>
void exponentials(Real* scores, const KeyRanges& keys, const Real* reference, Real* sum) {
  constexpr std::size_t n = kLanes<V>;
  bool infinite = false;  // may be: only rows with the largest reference have scores of +inf
  unroll<W>([&](auto w) HEED_FLAT {
    infinite = infinite || xsimd::any(load<V>(reference + w * n) == V(kLargest<Real>));
  });
  if (__builtin_expect(infinite, false)) make_finite<V>(scores, keys.end[W - 1] * W * n);
  each_column<W>(keys, [&](auto count, std::size_t w, std::size_t begin,
                           std::size_t end) HEED_FLAT {
    add_exponentials<V, count>(scores + w * n, W * n, begin, end, reference + w * n, sum + w * n);
  });
}

/// data[i][w] *= factor[w].
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void scale_columns(Real* data, std::size_t count, const V (&factor)[W]) {
  for (std::size_t i = 0; i < count; ++i) {
    unroll<W>([&](auto w) HEED_FLAT {
      Real* const at = data + (i * W + w) * kLanes<V>;
      store<V>(at, load<V>(at) * factor[w]);
    });
  }
}

/// Moves the references of the rows whose maximum `top` has outgrown them, and rescales their sums,
/// their accumulators and the `pending` rows of weights that end where `scores` begins. The other
/// rows are multiplied by exactly 1.
template <class V, std::size_t W, class Real = RealOf<V>>
[[gnu::noinline]] void rescale(Real* scores, const RowState<Real>& rows, std::size_t accumulated,
                               const Real* top, std::size_t pending) {
  constexpr std::size_t n = kLanes<V>;
  V factor[W];
  unroll<W>([&](auto w) HEED_FLAT {
    const V old = load<V>(rows.reference + w * n);
    const V maximum = load<V>(top + w * n);
    const V moved = xsimd::select(maximum > old + V(kRescaleThreshold<Real>),
                                  at_most(kLargest<Real>, maximum), old);
    factor[w] = exp2_of(old - moved);
    store<V>(rows.reference + w * n, moved);
    store<V>(rows.sum + w * n, load<V>(rows.sum + w * n) * factor[w]);
  });
  scale_columns<V, W>(scores - pending * W * n, pending, factor);
  if (!rows.fresh) scale_columns<V, W>(rows.accumulators, accumulated, factor);
}

/// The maxima of keys [begin, end), of `count` vectors in rows of `pitch` numbers.
template <class V, std::size_t count, class Real = RealOf<V>>
HEED_INLINE void take_maxima(const Real* scores, std::size_t pitch, std::size_t begin,
                             std::size_t end, Real* top_of) {
  constexpr std::size_t n = kLanes<V>;
  V top[count];
  unroll<count>([&](auto w) HEED_FLAT { top[w] = V(kNoReference<Real>); });
  for (std::size_t j = begin; j < end; ++j)
    unroll<count>([&](auto w) HEED_FLAT {
      top[w] = xsimd::max(top[w], load<V>(scores + j * pitch + w * n));
    });
  unroll<count>([&](auto w) HEED_FLAT { store<V>(top_of + w * n, top[w]); });
}

template <class V, std::size_t W, class Real = RealOf<V>>
void softmax(Real* scores, const KeyRanges& keys, std::size_t pending, const RowState<Real>& rows,
             std::size_t accumulated) {
  constexpr std::size_t n = kLanes<V>;
  alignas(kAlignment) Real top_of[W * n];
  each_column<W>(keys,
                 [&](auto count, std::size_t w, std::size_t begin, std::size_t end) HEED_FLAT {
                   take_maxima<V, count>(scores + w * n, W * n, begin, end, top_of + w * n);
                 });
  bool grown = false;
  unroll<W>([&](auto w) HEED_FLAT {
    const V reference = load<V>(rows.reference + w * n);
    grown = grown || xsimd::any(load<V>(top_of + w * n) > reference + V(kRescaleThreshold<Real>));
  });
  if (grown) rescale<V, W>(scores, rows, accumulated, top_of, pending);
  exponentials<V, W>(scores, keys, rows.reference, rows.sum);
}

/// What softmax() does first, for one group of scores.
template <class V, std::size_t W, std::size_t R, class Real = RealOf<V>>
[[gnu::noinline]] void rescale_for(Real* scores, std::size_t pending, const RowState<Real>& rows,
                                   std::size_t accumulated) {
  alignas(kAlignment) Real top[W * kLanes<V>];
  take_maxima<V, W>(scores, W * kLanes<V>, 0, R, top);
  rescale<V, W>(scores, rows, accumulated, top, pending);
}

/// x[0] + ... + x[N - 1], in pairs.
template <class V, std::size_t N>
HEED_INLINE V sum_of_all(V (&x)[N]) {
  if constexpr (N > 1) {
    V pair[N / 2];
    unroll<N / 2>([&](auto i) HEED_FLAT { pair[i] = x[i] + x[i + N / 2]; });
    return sum_of_all(pair);
  } else {
    return x[0];
  }
}

/// Adds the weights that were summed apart to a row's sum, and forgets them.
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void flush(Real* apart, Real* sum) {
  constexpr std::size_t n = kLanes<V>;
  unroll<W>([&](auto w) HEED_FLAT {
    store<V>(sum + w * n, load<V>(sum + w * n) + load<V>(apart + w * n));
    store<V>(apart + w * n, V(Real{0}));
  });
}

/// Scores and softmax in one: each group of scores becomes weights while it is still in
/// registers, and the exponentials of one group overlap with the products of the next.
template <class V, std::size_t W, class Real = RealOf<V>>
void weights(const MatrixView<Real>& key, std::size_t keys, const Real* panel, std::size_t features,
             Real* out, std::size_t pending, const RowState<Real>& rows, std::size_t accumulated) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t group = kGroup<V, W>;
  static_assert(kRowPadding % group == 0);
  const V threshold(kRescaleThreshold<Real>);
  const std::size_t before = score_but_last_run<V, W>(key, keys, panel, features, out);
  const MatrixView<Real> last = from_column(key, before);
  alignas(kAlignment) Real apart[W * n] = {};
  for (std::size_t j = 0; j < keys; j += group) {
    Real* const at = out + j * W * n;
    const Real* row[group];
    V scores[group][W];
    unroll<group>([&](auto r) HEED_FLAT {
      row[r] = last.data + static_cast<std::ptrdiff_t>(j + r) * key.row_stride;
      unroll<W>([&](auto w) HEED_FLAT { scores[r][w] = V(Real{0}); });
    });
    std::ptrdiff_t step = 0;
    const Real* column = panel + before * W * n;
    multiply_rows<V, 0, W>(row, key.column_stride, before, features, step, column, scores);
    if (before != 0) add_stored<V, 0, W>(at, scores);

    // Row by row: a NaN hides what its own row does, which no longer matters, and nothing else.
    auto grown = V(Real{0}) > V(Real{0});
    unroll<W>([&](auto w) HEED_FLAT {
      V top = scores[0][w];
      unroll<group - 1>([&](auto r) HEED_FLAT { top = xsimd::max(top, scores[r + 1][w]); });
      grown = grown | (top > load<V>(rows.reference + w * n) + threshold);
    });
    if (__builtin_expect(xsimd::any(grown), false)) {
      unroll<group>([&](auto r) HEED_FLAT {
        unroll<W>([&](auto w) HEED_FLAT { store<V>(at + (r * W + w) * n, scores[r][w]); });
      });
      flush<V, W>(apart, rows.sum);
      rescale_for<V, W, group>(at, pending + j, rows, accumulated);
      unroll<group>([&](auto r) HEED_FLAT {
        unroll<W>([&](auto w) HEED_FLAT { scores[r][w] = finite(scores[r][w]); });
      });
    }

    unroll<W>([&](auto w) HEED_FLAT {
      const V reference = load<V>(rows.reference + w * n);
      V weight[group];
      unroll<group>([&](auto r) HEED_FLAT {
        weight[r] = exp2_of(scores[r][w] - reference);
        store<V>(at + (r * W + w) * n, weight[r]);
      });
      store<V>(apart + w * n, load<V>(apart + w * n) + sum_of_all(weight));
    });
  }
  flush<V, W>(apart, rows.sum);
}

}  // namespace
}  // namespace heed
