// The two products of attention, which are one: rows of a matrix that stays where it lies,
// times a panel with query rows in the lanes.
//
//   S^T[key][query]      = sum over features of key[key][feature] * Q^T[feature][query]
//   O^T[feature][query] += sum over keys of value[key][feature] * P^T[key][query]
#pragma once

#include "engine/kernels/arch.hpp"
#include "engine/kernels/constants.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// Rows computed together. Enough independent chains to cover the latency of a multiply-add
/// (8 on the cores measured), few enough to stay in registers with W vectors and a broadcast:
/// 4 x 3 of 16 registers, 8 x 3 of 32.
template <class V, std::size_t W>
inline constexpr std::size_t kGroup = (kIsAvx512<V> || kIsNeon<V> || W == 1) ? 8 : 4;

/// sums[r][w] += row[r][at] * panel[w] for A <= w < B.
template <class V, std::size_t A, std::size_t B, std::size_t R, std::size_t W,
          class Real = RealOf<V>>
HEED_INLINE void multiply_step(const Real* const (&row)[R], std::ptrdiff_t at, const Real* panel,
                               V (&sums)[R][W]) {
  V b[B - A];
  unroll<B - A>([&](auto w) HEED_FLAT { b[w] = load<V>(panel + (A + w) * kLanes<V>); });
  unroll<R>([&](auto r) HEED_FLAT {
    const V a(row[r][at]);
    unroll<B - A>([&](auto w)
                      HEED_FLAT { sums[r][A + w] = multiply_add(a, b[w], sums[r][A + w]); });
  });
}

/// sums[r][w] += sum over k < count of row[r][at + k * step] * panel[k][w], in order of k, for
/// A <= w < B; moves `at` and `panel` on. Unrolled by four, so that the end of a loop of 128 comes
/// as no surprise to the branch predictor: that cost 9 % at 128 features.
template <class V, std::size_t A, std::size_t B, std::size_t R, std::size_t W,
          class Real = RealOf<V>>
HEED_INLINE void multiply_rows(const Real* const (&row)[R], std::ptrdiff_t step, std::size_t begin,
                               std::size_t end, std::ptrdiff_t& at, const Real*& panel,
                               V (&sums)[R][W]) {
  constexpr std::size_t pitch = W * kLanes<V>;
  std::size_t k = begin;
  for (; k + 4 <= end; k += 4) {
    unroll<4>([&](auto) HEED_FLAT {
      multiply_step<V, A, B>(row, at, panel, sums);
      unroll<R>([&](auto r) HEED_FLAT {
        unroll<B - A>([&](auto w) HEED_FLAT { pin<V>(sums[r][A + w]); });
      });
      panel += pitch;
      at += step;
    });
  }
  for (; k < end; ++k) {
    multiply_step<V, A, B>(row, at, panel, sums);
    panel += pitch;
    at += step;
  }
}

/// Whether every vector needs all the keys: then there is one run, and kernels have their loop to
/// themselves.
template <std::size_t W>
HEED_INLINE bool is_one_run(const KeyRanges& keys) {
  return keys.begin[W - 1] == 0 && keys.end[0] == keys.end[W - 1];
}

/// Calls function(A, B, begin, end) for the runs of keys [begin, end) that vectors A to B - 1 and
/// no others need, in order of keys.
template <std::size_t W, class Function>
HEED_INLINE void each_run(const KeyRanges& keys, Function&& function) {
  using std::integral_constant;
  constexpr std::size_t beside = W - 1;
  unroll<beside>([&](auto w) HEED_FLAT {
    function(integral_constant<std::size_t, 0>{}, integral_constant<std::size_t, w + 1>{},
             keys.begin[w], keys.begin[w + 1]);
  });
  function(integral_constant<std::size_t, 0>{}, integral_constant<std::size_t, W>{},
           keys.begin[W - 1], keys.end[0]);
  unroll<beside>([&](auto w) HEED_FLAT {
    function(integral_constant<std::size_t, w + 1>{}, integral_constant<std::size_t, W>{},
             keys.end[w], keys.end[w + 1]);
  });
}

/// Features of a run: a rest of half a run joins the others. All but the last, which may be
/// shorter, have as many.
HEED_INLINE std::size_t feature_run(std::size_t features) {
  const std::size_t runs = (features + kRun / 2 - 1) / kRun;
  return runs <= 1 ? features : ((features + runs - 1) / runs + 3) / 4 * 4;
}

/// The matrix without its columns before x.
template <class Real>
HEED_INLINE MatrixView<Real> from_column(const MatrixView<Real>& matrix, std::size_t x) {
  return {matrix.data + static_cast<std::ptrdiff_t>(x) * matrix.column_stride, matrix.row_stride,
          matrix.column_stride};
}

/// sums[r][w] += out[r][w] for A <= w < B.
template <class V, std::size_t A, std::size_t B, std::size_t R, std::size_t W,
          class Real = RealOf<V>>
HEED_INLINE void add_stored(const Real* out, V (&sums)[R][W]) {
  unroll<R>([&](auto r) HEED_FLAT {
    unroll<B - A>([&](auto w) HEED_FLAT {
      sums[r][A + w] = sums[r][A + w] + load<V>(out + (r * W + A + w) * kLanes<V>);
    });
  });
}

/// The scores of keys [begin, end) for vectors A to B - 1, in whole groups, added to what is there
/// unless `fresh`. Past `keys` the last key is scored again: reading it is safe, the result unused.
template <class V, std::size_t A, std::size_t B, std::size_t W, class Real = RealOf<V>>
[[gnu::noinline]] void score_run(const MatrixView<Real>& key, std::size_t begin, std::size_t end,
                                 std::size_t keys, const Real* panel, std::size_t features,
                                 bool fresh, Real* out) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t group = kGroup<V, B - A>;
  for (std::size_t j = begin; j < end; j += group) {
    const Real* row[group];
    V sums[group][W];
    unroll<group>([&](auto r) HEED_FLAT {
      const std::size_t index = j + r < keys ? j + r : keys - 1;
      row[r] = key.data + static_cast<std::ptrdiff_t>(index) * key.row_stride;
      unroll<B - A>([&](auto w) HEED_FLAT { sums[r][A + w] = V(Real{0}); });
    });
    std::ptrdiff_t at = 0;
    const Real* column = panel;
    multiply_rows<V, A, B>(row, key.column_stride, 0, features, at, column, sums);
    if (!fresh) add_stored<V, A, B>(out + j * W * n, sums);
    unroll<group>([&](auto r) HEED_FLAT {
      unroll<B - A>([&](auto w)
                        HEED_FLAT { store<V>(out + ((j + r) * W + A + w) * n, sums[r][A + w]); });
    });
  }
}

/// The ranges, grown to whole groups of keys.
template <std::size_t W>
HEED_INLINE KeyRanges whole_groups(const KeyRanges& keys) {
  KeyRanges grown;
  unroll<W>([&](auto w) HEED_FLAT {
    const std::size_t end = (keys.end[w] + kRowPadding - 1) / kRowPadding * kRowPadding;
    grown.begin[w] = keys.begin[w] / kRowPadding * kRowPadding;
    grown.end[w] = end < keys.end[W - 1] ? end : keys.end[W - 1];
  });
  return grown;
}

template <class V, std::size_t W, class Real = RealOf<V>>
void scores(const MatrixView<Real>& key, const KeyRanges& keys, const Real* panel,
            std::size_t features, Real* out) {
  const KeyRanges groups = whole_groups<W>(keys);
  const std::size_t run = feature_run(features);
  for (std::size_t x = 0; x < features; x += run) {
    const std::size_t count = x + run < features ? run : features - x;
    const MatrixView<Real> from = from_column(key, x);
    const Real* const columns = panel + x * W * kLanes<V>;
    each_run<W>(groups, [&](auto a, auto b, std::size_t begin, std::size_t end) HEED_FLAT {
      score_run<V, a, b, W>(from, begin, end, keys.end[W - 1], columns, count, x == 0, out);
    });
  }
}

/// The same for keys that all vectors need, up to the last run of features; returns where that one
/// begins. Without a run before it, nothing is written.
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE std::size_t score_but_last_run(const MatrixView<Real>& key, std::size_t keys,
                                           const Real* panel, std::size_t features, Real* out) {
  const std::size_t run = feature_run(features);
  std::size_t x = 0;
  for (; x + run < features; x += run)
    score_run<V, 0, W, W>(from_column(key, x), 0, keys, keys, panel + x * W * kLanes<V>, run,
                          x == 0, out);
  return x;
}

/// All keys of one run after the other (kOneRun: every vector needs all of them), or one run with
/// what each vector needs.
template <class V, std::size_t W, bool kOneRun, class Real = RealOf<V>>
void accumulate_runs(const ValueView<Real>& value, const KeyRanges& keys, std::size_t first_run,
                     const Real* weights, Real* accumulators, std::size_t features, bool fresh) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t group = kGroup<V, W>;
  for (std::size_t x = 0; x < features; x += group) {
    const Real* row[group];
    unroll<group>([&](auto r) HEED_FLAT {
      const std::size_t feature = x + r < features ? x + r : features - 1;
      row[r] = value.data +
               static_cast<std::ptrdiff_t>(feature / kValueBlock) * value.block_stride +
               static_cast<std::ptrdiff_t>(feature % kValueBlock) * value.feature_stride;
    });
    Real* const out = accumulators + x * W * n;
    const Real* weight = weights;
    std::ptrdiff_t at = 0;
    std::size_t begin = 0;
    std::size_t next = kOneRun ? first_run : keys.end[W - 1];
    do {
      const std::size_t end = next < keys.end[W - 1] ? next : keys.end[W - 1];
      V sums[group][W];
      unroll<group>(
          [&](auto r) HEED_FLAT { unroll<W>([&](auto w) HEED_FLAT { sums[r][w] = V(Real{0}); }); });
      if constexpr (kOneRun) {
        multiply_rows<V, 0, W>(row, value.key_stride, begin, end, at, weight, sums);
      } else {
        each_run<W>(keys, [&](auto a, auto b, std::size_t from, std::size_t to) HEED_FLAT {
          multiply_rows<V, a, b>(row, value.key_stride, from, to, at, weight, sums);
        });
      }
      if (!fresh || begin != 0) add_stored<V, 0, W>(out, sums);
      unroll<group>([&](auto r) HEED_FLAT {
        unroll<W>([&](auto w) HEED_FLAT { store<V>(out + (r * W + w) * n, sums[r][w]); });
      });
      begin = end;
      next += kRun;
    } while (begin < keys.end[W - 1]);
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void accumulate(const ValueView<Real>& value, const KeyRanges& keys, std::size_t first_run,
                const Real* weights, Real* accumulators, std::size_t features, bool fresh) {
  if (is_one_run<W>(keys))
    return accumulate_runs<V, W, true>(value, keys, first_run, weights, accumulators, features,
                                       fresh);
  std::size_t begin = 0;
  for (std::size_t end = first_run; begin < keys.end[W - 1]; begin = end, end += kRun) {
    ValueView<Real> from = value;
    from.data += static_cast<std::ptrdiff_t>(begin) * value.key_stride;
    accumulate_runs<V, W, false>(from, part(keys, begin, end), kRun,
                                 weights + begin * W * kLanes<V>, accumulators, features,
                                 fresh && begin == 0);
  }
}

/// Zero times a number is 0 unless the number is infinite or NaN.
template <class V, class Real = RealOf<V>>
bool all_finite(const Real* numbers, std::size_t count) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t chains = 4;
  const V zero(Real{0});
  V special[chains];
  unroll<chains>([&](auto c) HEED_FLAT { special[c] = zero; });
  std::size_t i = 0;
  for (; i + chains * n <= count; i += chains * n)
    unroll<chains>([&](auto c) HEED_FLAT {
      special[c] = multiply_add(load<V>(numbers + i + c * n), zero, special[c]);
    });
  for (; i < count; i += n) special[0] = multiply_add(load<V>(numbers + i), zero, special[0]);
  const V sum = (special[0] + special[1]) + (special[2] + special[3]);
  return xsimd::all(sum == zero);
}

}  // namespace
}  // namespace heed
