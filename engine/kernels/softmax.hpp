// Online softmax over keys. Query rows lie in the lanes, so maxima and sums over keys are plain
// vertical operations.
#pragma once

#include "engine/kernels/constants.hpp"
#include "engine/kernels/exp2.hpp"
#include "engine/kernels/matmul.hpp"
#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// Scores of +inf count as the largest finite number, and so does a maximum of +inf in rescale():
/// then they share the row's probability evenly, and nothing computes inf - inf.
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
/// side by side where they need the same keys, else one by one, which takes little code.
template <std::size_t W, class Function>
HEED_INLINE void each_column(const KeyRanges& keys, Function&& function) {
  if (is_rectangle<W>(keys)) {
    function(std::integral_constant<std::size_t, W>{}, 0, 0, keys.end[0]);
  } else {
    for (std::size_t w = 0; w < W; ++w)
      function(std::integral_constant<std::size_t, 1>{}, w, keys.begin[w], keys.end[w]);
  }
}

/// The keys [begin, end) of `count` vectors in rows of `pitch` numbers. They are summed apart from
/// the keys before them, so that a row's error does not grow with the number of its keys.
template <class V, class P, std::size_t count, class Real = RealOf<V>>
[[gnu::noinline]] void add_exponentials(Real* scores, std::size_t pitch, std::size_t begin,
                                        std::size_t end, const Real* row_max_of, Real* row_sum) {
  constexpr std::size_t n = kLanes<V>;
  V row_max[count];
  V sum[count];
  unroll<count>([&](auto w) HEED_INLINE_LAMBDA {
    row_max[w] = load<V>(row_max_of + w * n);
    sum[w] = V(Real{0});
  });
  for (std::size_t j = begin; j < end; ++j) {
    unroll<count>([&](auto w) HEED_INLINE_LAMBDA {
      Real* const at = scores + j * pitch + w * n;
      const V prob = exp2_of(load<V>(at) - row_max[w]);
      if constexpr (P::kSumsWeights) sum[w] = sum[w] + prob;
      store<V>(at, prob);
    });
  }
  if constexpr (P::kSumsWeights)
    unroll<count>([&](auto w) HEED_INLINE_LAMBDA {
      store<V>(row_sum + w * n, load<V>(row_sum + w * n) + sum[w]);
    });
}

template <class V, class P, std::size_t W, class Real = RealOf<V>>
void exponentials_of(Real* scores, const KeyRanges& keys, const Real* row_max, Real* row_sum) {
  constexpr std::size_t n = kLanes<V>;
  bool infinite = false;  // Only rows with the largest row_max can have scores of +inf.
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    infinite = infinite || xsimd::any(load<V>(row_max + w * n) == V(kLargest<Real>));
  });
  if (__builtin_expect(infinite, false)) make_finite<V>(scores, keys.end[W - 1] * W * n);
  each_column<W>(
      keys, [&](auto count, std::size_t w, std::size_t begin, std::size_t end) HEED_INLINE_LAMBDA {
        add_exponentials<V, P, count>(scores + w * n, W * n, begin, end, row_max + w * n,
                                      row_sum + w * n);
      });
}

template <class V, std::size_t W, class Real = RealOf<V>>
void exponentials(Real* scores, std::size_t keys, const Real* row_max, Real* row_sum) {
  exponentials_of<V, Single<V>, W>(scores, all_keys(keys), row_max, row_sum);
}

template <class V, std::size_t W, class Real = RealOf<V>>
void softmax_gradient(Real* scores, std::size_t keys, const Real* whole, const Real* rest,
                      const Real* delta_of, Real* gradients) {
  constexpr std::size_t n = kLanes<V>;
  Exponent<V> exponent[W];
  V lse[W];
  V delta[W];
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    exponent[w] = Exponent<V>(load<V>(whole + w * n));
    lse[w] = load<V>(rest + w * n);
    delta[w] = load<V>(delta_of + w * n);
  });
  for (std::size_t j = 0; j < keys; ++j) {
    unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
      const std::size_t at = (j * W + w) * n;
      const V score = load<V>(scores + at);
      const V prob = exp2_of(score - lse[w], exponent[w]);
      const V gradient = prob * (load<V>(gradients + at) - delta[w]);
      store<V>(scores + at, prob);
      store<V>(gradients + at, xsimd::select(score == V(-kInfinity<Real>), V(Real{0}), gradient));
    });
  }
}

/// data[i][w] *= factor[w].
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void scale_columns(Real* data, std::size_t count, const V (&factor)[W]) {
  for (std::size_t i = 0; i < count; ++i) {
    unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
      Real* const at = data + (i * W + w) * kLanes<V>;
      store<V>(at, load<V>(at) * factor[w]);
    });
  }
}

/// Moves row_max where the maximum `top` has outgrown it, and rescales what is relative to it:
/// row_sum, the accumulators and the `pending` rows of probabilities that end where `scores`
/// begins. The other query rows are multiplied by exactly 1.
template <class V, std::size_t W, class Real = RealOf<V>>
[[gnu::noinline]] void rescale(Real* scores, const RowState<Real>& rows, std::size_t accumulated,
                               const Real* top, std::size_t pending) {
  constexpr std::size_t n = kLanes<V>;
  V factor[W];
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    const V old = load<V>(rows.row_max + w * n);
    const V maximum = load<V>(top + w * n);
    const V moved = xsimd::select(maximum > old + V(kRescaleThreshold<Real>),
                                  at_most(kLargest<Real>, maximum), old);
    factor[w] = exp2_of(old - moved);
    store<V>(rows.row_max + w * n, moved);
    store<V>(rows.row_sum + w * n, load<V>(rows.row_sum + w * n) * factor[w]);
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
  unroll<count>([&](auto w) HEED_INLINE_LAMBDA { top[w] = V(kNoRowMax<Real>); });
  for (std::size_t j = begin; j < end; ++j)
    unroll<count>([&](auto w) HEED_INLINE_LAMBDA {
      top[w] = xsimd::max(top[w], load<V>(scores + j * pitch + w * n));
    });
  unroll<count>([&](auto w) HEED_INLINE_LAMBDA { store<V>(top_of + w * n, top[w]); });
}

template <class V, std::size_t W, class P = Single<V>, class Real = RealOf<V>>
void softmax(Real* scores, const KeyRanges& keys, std::size_t pending, const RowState<Real>& rows,
             std::size_t accumulated) {
  HEED_CONTRACT(keys.hold_for(W));
  constexpr std::size_t n = kLanes<V>;
  alignas(kAlignment) Real top_of[W * n];
  each_column<W>(
      keys, [&](auto count, std::size_t w, std::size_t begin, std::size_t end) HEED_INLINE_LAMBDA {
        take_maxima<V, count>(scores + w * n, W * n, begin, end, top_of + w * n);
      });
  bool grown = false;
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    const V row_max = load<V>(rows.row_max + w * n);
    grown = grown || xsimd::any(load<V>(top_of + w * n) > row_max + V(kRescaleThreshold<Real>));
  });
  if (grown) rescale<V, W>(scores, rows, accumulated, top_of, pending);
  exponentials_of<V, P, W>(scores, keys, rows.row_max, rows.row_sum);
}

/// The first step of softmax(), for R keys.
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
    unroll<N / 2>([&](auto i) HEED_INLINE_LAMBDA { pair[i] = x[i] + x[i + N / 2]; });
    return sum_of_all(pair);
  } else {
    return x[0];
  }
}

/// Adds what was summed apart to row_sum, and starts that again from zero.
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void flush(Real* apart, Real* row_sum) {
  constexpr std::size_t n = kLanes<V>;
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    store<V>(row_sum + w * n, load<V>(row_sum + w * n) + load<V>(apart + w * n));
    store<V>(apart + w * n, V(Real{0}));
  });
}

/// The last part of qk_softmax(), for R keys whose scores are in registers: they become
/// probabilities, stored at `at`, and are summed apart.
template <class V, class P, std::size_t R, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void weigh(V (&scores)[R][W], Real* at, std::size_t pending, const RowState<Real>& rows,
                       std::size_t accumulated, [[maybe_unused]] Real* apart = nullptr) {
  constexpr std::size_t n = kLanes<V>;
  const V threshold(kRescaleThreshold<Real>);
  // Lane by lane: a NaN hides the maximum of its own query row, which no longer matters, and of
  // no other.
  auto grown = V(Real{0}) > V(Real{0});
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    V top = scores[0][w];
    unroll<R - 1>([&](auto r) HEED_INLINE_LAMBDA { top = xsimd::max(top, scores[r + 1][w]); });
    grown = grown | (top > load<V>(rows.row_max + w * n) + threshold);
  });
  if (__builtin_expect(xsimd::any(grown), false)) {
    unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
      unroll<W>([&](auto w) HEED_INLINE_LAMBDA { store<V>(at + (r * W + w) * n, scores[r][w]); });
    });
    if constexpr (P::kSumsWeights) flush<V, W>(apart, rows.row_sum);
    rescale_for<V, W, R>(at, pending, rows, accumulated);
    unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
      unroll<W>([&](auto w) HEED_INLINE_LAMBDA { scores[r][w] = finite(scores[r][w]); });
    });
  }

  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    const V row_max = load<V>(rows.row_max + w * n);
    V prob[R];
    unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
      prob[r] = exp2_of(scores[r][w] - row_max);
      store<V>(at + (r * W + w) * n, prob[r]);
    });
    if constexpr (P::kSumsWeights)
      store<V>(apart + w * n, load<V>(apart + w * n) + sum_of_all(prob));
  });
}

/// Scores and softmax fused: a few keys at a time, scores become probabilities in the registers
/// that they were computed in. The processor overlaps their exponentials with the products of the
/// next keys.
template <class V, std::size_t W, class P = Single<V>, class Real = RealOf<V>>
void qk_softmax(const RowsView<Real>& key, std::size_t keys, const Real* panel,
                std::size_t features, Real* probs, std::size_t pending, const RowState<Real>& rows,
                std::size_t accumulated) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t together = kRowUnroll<V, W>;
  static_assert(PanelGeometry::row_padding % together == 0);
  HEED_CONTRACT(keys % PanelGeometry::row_padding == 0);
  const std::size_t before = score_but_last_run<V, P, W>(key, keys, panel, features, probs);
  const RowsView<Real> last = from_column(key, before);
  [[maybe_unused]] alignas(kAlignment) Real apart[W * n] = {};
  for (std::size_t j = 0; j < keys; j += together) {
    Real* const at = probs + j * W * n;
    const Real* row[together];
    V scores[together][W];
    unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
      row[r] = last.data + static_cast<std::ptrdiff_t>(j + r) * last.row_stride;
      unroll<W>([&](auto w) HEED_INLINE_LAMBDA { scores[r][w] = V(Real{0}); });
    });
    std::ptrdiff_t feature = 0;
    const Real* column = panel + before * W * n;
    add_product<V, P, 0, W>(row, 1, before, features, feature, column, scores, rows.ahead);
    if (before != 0) add_stored<V, 0, W>(at, scores);
    if constexpr (P::kScalesScores) multiply_rows<V, 0, W>(panel + features * W * n, scores);
    if constexpr (kAddsToScores<V>)
      if (rows.addend != nullptr) add_stored<V, 0, W>(rows.addend + j * W * n, scores);
    weigh<V, P>(scores, at, pending + j, rows, accumulated, apart);
  }
  if constexpr (P::kSumsWeights) flush<V, W>(apart, rows.row_sum);
}

}  // namespace
}  // namespace heed
