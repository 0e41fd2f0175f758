// The two products of attention are one: rows of a matrix that stays where it lies, times a panel
// with query rows in the lanes.
//
//   S^T[key][query]      = sum over features of key[key][feature] * Q^T[feature][query]
//   O^T[feature][query] += sum over keys of value[key][feature] * P^T[key][query]
//
// The sums of a few rows stay in registers. Here 4 rows times a panel of 3 vectors, for one k:
// three loads, four broadcasts, twelve multiply-adds.
//
//   panel[k]                    p0       p1       p2
//   a = row[0][k], broadcast    a * p0   a * p1   a * p2    added to sums[0]
//   b = row[1][k], broadcast    b * p0   b * p1   b * p2    added to sums[1]
//   c = row[2][k], broadcast    c * p0   c * p1   c * p2    added to sums[2]
//   d = row[3][k], broadcast    d * p0   d * p1   d * p2    added to sums[3]
#pragma once

#include "engine/kernels/constants.hpp"
#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// Products of one value times another.
template <class V>
struct Single {
  static constexpr bool kIsNumber = true;       ///< of which features lie side by side
  static constexpr bool kScalesScores = false;  ///< a panel ends with factors of the scores
  static constexpr bool kSumsWeights = true;    ///< softmax adds probabilities to row_sum
  HEED_INLINE static V add(V a, V b, V c) { return multiply_add(a, b, c); }
};

/// Rows computed together: enough independent chains to cover the latency of a multiply-add (8 on
/// the cores measured), few enough to stay in registers beside W vectors and a broadcast. That is
/// 4 x 3 of 16 registers, 8 x 3 of 32.
template <class V, std::size_t W>
inline constexpr std::size_t kRowUnroll = (kIsAvx512<V> || kIsNeon<V> || W == 1) ? 8 : 4;

/// sums[r][w] += row[r][at] * panel[w], for A <= w < B.
template <class V, class P, std::size_t A, std::size_t B, std::size_t R, std::size_t W,
          class Real = RealOf<V>>
HEED_INLINE void add_outer_product(const Real* const (&row)[R], std::ptrdiff_t at,
                                   const Real* panel, V (&sums)[R][W]) {
  V b[B - A];
  unroll<B - A>([&](auto w) HEED_INLINE_LAMBDA { b[w] = load<V>(panel + (A + w) * kLanes<V>); });
  unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
    const V a(row[r][at]);
    unroll<B - A>([&](auto w)
                      HEED_INLINE_LAMBDA { sums[r][A + w] = P::add(a, b[w], sums[r][A + w]); });
  });
}

/// sums[r][w] += sum over k < end - begin of row[r][at + k * stride] * panel[k][w], in order of k,
/// for A <= w < B; moves `at` and `panel` on. Unrolled by four, so that the end of a loop of 128
/// comes as no surprise to the branch predictor: that cost 9 % at 128 features.
///
/// Each turn of the loop prefetches a little, because many lines at once would hold up the loads of
/// the product. sse2 takes so long for its products that memory is early anyway.
template <class V, class P, std::size_t A, std::size_t B, std::size_t R, std::size_t W,
          class Real = RealOf<V>>
HEED_INLINE void add_product(const Real* const (&row)[R], std::ptrdiff_t stride, std::size_t begin,
                             std::size_t end, std::ptrdiff_t& at, const Real*& panel,
                             V (&sums)[R][W], Ahead* ahead = nullptr) {
  constexpr std::size_t pitch = W * kLanes<V>;
  constexpr std::size_t lines = !kFusesMultiplyAdd<V> ? 0 : R > 4 ? 2 : 1;
  std::size_t k = begin;
  for (; k + 4 <= end; k += 4) {
    if (lines > 0 && ahead != nullptr)
      unroll<lines>([&](auto) HEED_INLINE_LAMBDA { ahead->fetch_line(); });
    unroll<4>([&](auto) HEED_INLINE_LAMBDA {
      add_outer_product<V, P, A, B>(row, at, panel, sums);
      unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
        unroll<B - A>([&](auto w) HEED_INLINE_LAMBDA { pin<V>(sums[r][A + w]); });
      });
      panel += pitch;
      at += stride;
    });
  }
  for (; k < end; ++k) {
    add_outer_product<V, P, A, B>(row, at, panel, sums);
    panel += pitch;
    at += stride;
  }
}

/// Whether every vector needs all the keys. A single vector does: its range begins at 0.
template <std::size_t W>
HEED_INLINE bool is_rectangle(const KeyRanges& keys) {
  return W == 1 || (keys.begin[W - 1] == 0 && keys.end[0] == keys.end[W - 1]);
}

/// Calls function(A, B, begin, end) for the ranges of keys [begin, end) that vectors A to B - 1 and
/// no others need, in order of keys.
template <std::size_t W, class Function>
HEED_INLINE void each_range(const KeyRanges& keys, Function&& function) {
  using std::integral_constant;
  constexpr std::size_t beside = W - 1;
  unroll<beside>([&](auto w) HEED_INLINE_LAMBDA {
    function(integral_constant<std::size_t, 0>{}, integral_constant<std::size_t, w + 1>{},
             keys.begin[w], keys.begin[w + 1]);
  });
  function(integral_constant<std::size_t, 0>{}, integral_constant<std::size_t, W>{},
           keys.begin[W - 1], keys.end[0]);
  unroll<beside>([&](auto w) HEED_INLINE_LAMBDA {
    function(integral_constant<std::size_t, w + 1>{}, integral_constant<std::size_t, W>{},
             keys.end[w], keys.end[w + 1]);
  });
}

/// How many features a run has. A rest of at most half a run is shared out among the others. All
/// runs are equally long, except that the last may be shorter.
HEED_INLINE std::size_t feature_run(std::size_t features) {
  const std::size_t runs = (features + PanelGeometry::run / 2 - 1) / PanelGeometry::run;
  return runs <= 1 ? features : ((features + runs - 1) / runs + 3) / 4 * 4;
}

/// The rows without their columns before x.
template <class Real>
HEED_INLINE RowsView<Real> from_column(const RowsView<Real>& rows, std::size_t x) {
  return {rows.data + x, rows.row_stride};
}

/// sums[r][w] += out[r][w] for A <= w < B.
template <class V, std::size_t A, std::size_t B, std::size_t R, std::size_t W,
          class Real = RealOf<V>>
HEED_INLINE void add_stored(const Real* out, V (&sums)[R][W]) {
  unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
    unroll<B - A>([&](auto w) HEED_INLINE_LAMBDA {
      sums[r][A + w] = sums[r][A + w] + load<V>(out + (r * W + A + w) * kLanes<V>);
    });
  });
}

/// sums[r][w] *= factors[w] for A <= w < B.
template <class V, std::size_t A, std::size_t B, std::size_t R, std::size_t W,
          class Real = RealOf<V>>
HEED_INLINE void multiply_rows(const Real* factors, V (&sums)[R][W]) {
  unroll<B - A>([&](auto w) HEED_INLINE_LAMBDA {
    const V factor = load<V>(factors + (A + w) * kLanes<V>);
    unroll<R>([&](auto r) HEED_INLINE_LAMBDA { sums[r][A + w] = sums[r][A + w] * factor; });
  });
}

/// One run of features of the scores of keys [begin, end) and what row_padding adds to them, for
/// vectors A to B - 1: added to what is there unless `fresh`, and that multiplied with `factors`,
/// one per row of the panel, unless that is nullptr. Past `keys` the last key is scored again,
/// because it can be read; nobody uses the result.
template <class V, class P, std::size_t A, std::size_t B, std::size_t W, class Real = RealOf<V>>
[[gnu::noinline]] void score_run(const RowsView<Real>& key, std::size_t begin, std::size_t end,
                                 std::size_t keys, const Real* panel, std::size_t features,
                                 bool fresh, Real* out, const Real* factors = nullptr) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t together = kRowUnroll<V, B - A>;
  for (std::size_t j = begin; j < end; j += together) {
    const Real* row[together];
    V sums[together][W];
    unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
      const std::size_t index = j + r < keys ? j + r : keys - 1;
      row[r] = key.data + static_cast<std::ptrdiff_t>(index) * key.row_stride;
      unroll<B - A>([&](auto w) HEED_INLINE_LAMBDA { sums[r][A + w] = V(Real{0}); });
    });
    std::ptrdiff_t at = 0;
    const Real* column = panel;
    add_product<V, P, A, B>(row, 1, 0, features, at, column, sums);
    if (!fresh) add_stored<V, A, B>(out + j * W * n, sums);
    if (P::kScalesScores && factors != nullptr) multiply_rows<V, A, B>(factors, sums);
    unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
      unroll<B - A>([&](auto w) HEED_INLINE_LAMBDA {
        store<V>(out + ((j + r) * W + A + w) * n, sums[r][A + w]);
      });
    });
  }
}

/// The ranges, grown to multiples of row_padding.
template <std::size_t W>
HEED_INLINE KeyRanges padded(const KeyRanges& keys) {
  constexpr std::size_t padding = PanelGeometry::row_padding;
  KeyRanges grown;
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    const std::size_t end = (keys.end[w] + padding - 1) / padding * padding;
    grown.begin[w] = keys.begin[w] / padding * padding;
    grown.end[w] = end < keys.end[W - 1] ? end : keys.end[W - 1];
  });
  return grown;
}

template <class V, std::size_t W, class P = Single<V>, class Real = RealOf<V>>
void scores(const RowsView<Real>& key, const KeyRanges& keys, const Real* panel,
            std::size_t features, Real* out) {
  HEED_CONTRACT(keys.hold_for(W));
  const KeyRanges ranges = padded<W>(keys);
  const std::size_t run = feature_run(features);
  for (std::size_t x = 0; x < features; x += run) {
    const std::size_t count = x + run < features ? run : features - x;
    const RowsView<Real> from = from_column(key, x);
    const Real* const columns = panel + x * W * kLanes<V>;
    each_range<W>(ranges, [&](auto a, auto b, std::size_t begin,
                              std::size_t end) HEED_INLINE_LAMBDA {
      score_run<V, P, a, b, W>(from, begin, end, keys.end[W - 1], columns, count, x == 0, out,
                               x + count == features ? panel + features * W * kLanes<V> : nullptr);
    });
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void add_scores(const RowsAndPanel<Real>* parts, std::size_t part_count, std::size_t count,
                Real* out) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t together = kRowUnroll<V, W>;
  for (std::size_t j = 0; j < count; j += together) {
    V sums[together][W];
    unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
      unroll<W>([&](auto w) HEED_INLINE_LAMBDA { sums[r][w] = V(Real{0}); });
    });
    for (const RowsAndPanel<Real>* part = parts; part != parts + part_count; ++part) {
      const Real* row[together];
      unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
        const std::size_t index = j + r < count ? j + r : count - 1;
        row[r] = part->rows.data + static_cast<std::ptrdiff_t>(index) * part->rows.row_stride;
      });
      std::ptrdiff_t at = 0;
      const Real* column = part->panel;
      add_product<V, Single<V>, 0, W>(row, 1, 0, part->columns, at, column, sums);
    }
    Real* const to = out + j * W * n;
    if (j + together <= count) {
      add_stored<V, 0, W>(to, sums);
      unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
        unroll<W>([&](auto w) HEED_INLINE_LAMBDA { store<V>(to + (r * W + w) * n, sums[r][w]); });
      });
    } else {
      alignas(kAlignment) Real rest[together * W * n];
      unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
        unroll<W>([&](auto w) HEED_INLINE_LAMBDA { store<V>(rest + (r * W + w) * n, sums[r][w]); });
      });
      for (std::size_t x = 0; x < (count - j) * W * n; x += n)
        store<V>(to + x, load<V>(to + x) + load<V>(rest + x));
    }
  }
}

/// The scores of keys that all vectors need, summed over all runs of features but the last; returns
/// where the last begins. Writes nothing where there is one run.
template <class V, class P, std::size_t W, class Real = RealOf<V>>
HEED_INLINE std::size_t score_but_last_run(const RowsView<Real>& key, std::size_t keys,
                                           const Real* panel, std::size_t features, Real* out) {
  const std::size_t run = feature_run(features);
  std::size_t x = 0;
  for (; x + run < features; x += run)
    score_run<V, P, 0, W, W>(from_column(key, x), 0, keys, keys, panel + x * W * kLanes<V>, run,
                             x == 0, out);
  return x;
}

/// All runs of keys one after the other where every vector needs all keys (kRectangle); else one
/// run, with what each vector needs of it. Features side by side share an address: the addresses of
/// eight were 3 % of the time.
template <class V, class P, std::size_t W, bool kRectangle, class Real = RealOf<V>>
void accumulate_runs(const ValueView<Real>& value, const KeyRanges& keys, std::size_t first_run,
                     const Real* probs, Real* accumulators, std::size_t features, bool fresh,
                     Ahead* ahead) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t block = PanelGeometry::value_block;
  constexpr std::size_t together = kRowUnroll<V, W>;
  static_assert(block % together == 0);
  const std::ptrdiff_t step = P::kIsNumber ? 1 : value.feature_stride;
  for (std::size_t x = 0; x < features; x += together) {
    const Real* const feature = value.data +
                                static_cast<std::ptrdiff_t>(x / block) * value.block_stride +
                                static_cast<std::ptrdiff_t>(x % block) * step;
    const Real* row[together];
    unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
      row[r] = feature + static_cast<std::ptrdiff_t>(r) * step;
    });
    Real* const out = accumulators + x * W * n;
    const Real* prob = probs;
    std::ptrdiff_t at = 0;
    std::size_t begin = 0;
    std::size_t next = kRectangle ? first_run : keys.end[W - 1];
    do {
      const std::size_t end = next < keys.end[W - 1] ? next : keys.end[W - 1];
      V sums[together][W];
      unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
        unroll<W>([&](auto w) HEED_INLINE_LAMBDA { sums[r][w] = V(Real{0}); });
      });
      if constexpr (kRectangle) {
        add_product<V, P, 0, W>(row, value.key_stride, begin, end, at, prob, sums, ahead);
      } else {
        each_range<W>(keys,
                      [&](auto a, auto b, std::size_t from, std::size_t to) HEED_INLINE_LAMBDA {
                        add_product<V, P, a, b>(row, value.key_stride, from, to, at, prob, sums);
                      });
      }
      if (!fresh || begin != 0) add_stored<V, 0, W>(out, sums);
      unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
        unroll<W>([&](auto w) HEED_INLINE_LAMBDA { store<V>(out + (r * W + w) * n, sums[r][w]); });
      });
      begin = end;
      next += PanelGeometry::run;
    } while (begin < keys.end[W - 1]);
  }
}

template <class V, class P, std::size_t W, class Real = RealOf<V>>
void accumulate_lines(const ValueView<Real>& value, const KeyRanges& keys, std::size_t first_run,
                      const Real* probs, Real* accumulators, std::size_t features, bool fresh,
                      Ahead* ahead = nullptr) {
  if (is_rectangle<W>(keys))
    return accumulate_runs<V, P, W, true>(value, keys, first_run, probs, accumulators, features,
                                          fresh, ahead);
  std::size_t begin = 0;
  for (std::size_t end = first_run; begin < keys.end[W - 1];
       begin = end, end += PanelGeometry::run) {
    ValueView<Real> from = value;
    from.data += static_cast<std::ptrdiff_t>(begin) * value.key_stride;
    accumulate_runs<V, P, W, false>(from, clipped(keys, begin, end), PanelGeometry::run,
                                    probs + begin * W * kLanes<V>, accumulators, features,
                                    fresh && begin == 0, ahead);
  }
}

template <class V, std::size_t W, class P = Single<V>, class Real = RealOf<V>>
void accumulate(const ValueView<Real>& value, const KeyRanges& keys, std::size_t first_run,
                const Real* probs, const RowState<Real>& rows, std::size_t features) {
  HEED_CONTRACT(keys.hold_for(W) && first_run > 0 && first_run <= PanelGeometry::run);
  accumulate_lines<V, P, W>(value, keys, first_run, probs, rows.accumulators, features, rows.fresh,
                            rows.ahead);
}

template <class V, std::size_t W, class Real = RealOf<V>>
void multiply_panel(const ValueView<Real>& value, std::size_t keys, const Real* panel, Real* sums,
                    std::size_t features, bool fresh) {
  accumulate_lines<V, Single<V>, W>(value, all_keys(keys), PanelGeometry::run, panel, sums,
                                    features, fresh);
}

}  // namespace
}  // namespace heed
