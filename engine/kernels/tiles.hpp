// Products of bfloat16 by the tiles of AMX, 16 lines of 64 bytes each:
//
//   C[i][j] += sum over k < 32 of A[i][k] * B[k][j]
//
//   C   16 x 16 floats
//   A   16 lines of 32 bfloat16
//   B   16 lines of 16 pairs of bfloat16: line l has B[2l][j] and B[2l + 1][j] side by side
//
// The two products of attention are one here too, with query rows in the columns of B and C:
//
//   scores        A: 16 keys where they lie, 32 features     B: a query panel
//   accumulators  A: 16 features of packed values, 32 keys   B: weights, rounded and paired
//
// So pairs.hpp has the panels and the softmax. Operands come in whole groups of 32,
// filled up with zeros, because the shape of tiles never changes:
//
//   query panel   [round_up(features, 32) / 2][pitch], then a line of factors
//   keys          rows of round_up(features, 32) numbers
//   values        packed, [feature block][group of 32 keys][value_block][32]
//
// A float is one value of bfloat16, or the sum of two components. Then every group of 32
// lies component by component ("part"), and all products of components are summed except small
// ones. Weights may have more components than their values: then all products are summed.
//
//   query panel   [group of 32 features][part][16][pitch], then a line of factors
//   keys          rows of [group][part][32] numbers, see split_rows()
//   values        [feature block][group of 32 keys][value_block][part][32]
#pragma once

#include "engine/kernels/edges.hpp"
#include "engine/kernels/pairs.hpp"
#include "engine/kernels/tile_products.hpp"

namespace heed {
namespace {
namespace tiles {

template <class V, std::size_t W, class Real = RealOf<V>>
void pack_query(Parts parts, const Real* const* rows, std::size_t row_count,
                std::ptrdiff_t feature_stride, std::size_t features, Real scale, Real* panel) {
  pairs::pack_rows<V, kDepth>(parts, W * kLanes<V>, rows, row_count, feature_stride, features,
                              scale, panel);
}

/// Fewer keys than a tile has rows, with copies of the last one after them: nothing past them is
/// read, and nothing written but what row_padding adds.
template <class V, std::size_t C, class Real = RealOf<V>>
[[gnu::noinline]] void multiply_rest(Parts parts, const RowsView<Real>& key, std::size_t count,
                                     const Lines<const Real>& panel, std::size_t steps,
                                     const Lines<Real>& out) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t most = 8;  // tiles of keys at a time
  const std::size_t together = most / parts.count;
  constexpr std::size_t pitch = C * n;
  constexpr std::size_t padding = PanelGeometry::row_padding;
  alignas(kAlignment) Real rows[most * kRows * n];
  alignas(kAlignment) Real sums[kRows * pitch];
  for (std::size_t k = 0; k < steps; k += together) {
    const std::size_t some = k + together < steps ? together : steps - k;
    for (std::size_t j = 0; j < kRows; ++j) {
      const Real* const from =
          key.data + static_cast<std::ptrdiff_t>(j < count ? j : count - 1) * key.row_stride +
          k * parts.count * n;
      for (std::size_t i = 0; i < some * parts.count; ++i)
        store<V>(rows + (i * kRows + j) * n, V::load_unaligned(from + i * n));
    }
    multiply<1, C>(products_of(parts),
                   {rows, n, 0, static_cast<std::ptrdiff_t>(parts.count * kRows * n), kRows * n},
                   {panel.data + k * parts.count * kLines * panel.pitch, panel.pitch}, some,
                   {sums, pitch}, k == 0);
  }
  for (std::size_t j = 0; j < groups_of(count, padding) * padding; ++j)
    unroll<C>([&](auto c) HEED_INLINE_LAMBDA {
      store<V>(out.data + j * out.pitch + c * n, load<V>(sums + j * pitch + c * n));
    });
}

/// Products of the keys that vectors need, not yet multiplied with the factors.
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void multiply_keys(Parts parts, const RowsView<Real>& key, const KeyRanges& keys,
                               const Real* panel, std::size_t features, Real* out) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
  HEED_CONTRACT(keys.hold_for(W));
  const std::size_t steps = groups_of(features, kDepth);
  const std::size_t whole = keys.end[W - 1] / kRows;
  each_columns<W>([&](auto C, std::size_t w) HEED_INLINE_LAMBDA {
    const auto [begin, end] = groups_between(keys.begin[w], keys.end[w + C - 1], kRows);
    const std::size_t groups = end < whole ? end : whole;
    const Lines<const Real> right = {panel + w * n, pitch};
    const auto at = [&](std::size_t g) HEED_INLINE_LAMBDA {
      return key.data + static_cast<std::ptrdiff_t>(g * kRows) * key.row_stride;
    };
    if (begin < groups)
      multiply_groups<C>(
          products_of(parts),
          Left{at(begin), key.row_stride, static_cast<std::ptrdiff_t>(kRows) * key.row_stride,
               static_cast<std::ptrdiff_t>(parts.count * n), n},
          right, steps, Lines<Real>{out + begin * kRows * pitch + w * n, pitch}, groups - begin,
          true);
    if (end > whole)
      multiply_rest<V, C>(parts, {at(whole), key.row_stride}, keys.end[W - 1] - whole * kRows,
                          right, steps, {out + whole * kRows * pitch + w * n, pitch});
  });
}

/// The line of factors of a panel.
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE const Real* factors_of(Parts parts, const Real* panel, std::size_t features) {
  return panel + groups_of(features, kDepth) * parts.count * kLines * W * kLanes<V>;
}

template <class V, std::size_t W, class Real = RealOf<V>>
void scores(Parts parts, const RowsView<Real>& key, const KeyRanges& keys, const Real* panel,
            std::size_t features, Real* out) {
  constexpr std::size_t n = kLanes<V>;
  const Real* const factors = factors_of<V, W>(parts, panel, features);
  multiply_keys<V, W>(parts, key, keys, panel, features, out);
  each_column<W>(
      keys, [&](auto count, std::size_t w, std::size_t begin, std::size_t end) HEED_INLINE_LAMBDA {
        for (std::size_t j = begin; j < end; ++j)
          unroll<count>([&](auto c) HEED_INLINE_LAMBDA {
            Real* const at = out + (j * W + w + c) * n;
            store<V>(at, load<V>(at) * load<V>(factors + (w + c) * n));
          });
      });
}

template <class V, std::size_t W, class Real = RealOf<V>>
void softmax(Parts /*parts*/, Real* scores, const KeyRanges& keys, std::size_t pending,
             const RowState<Real>& rows, std::size_t accumulated) {
  pairs::softmax<V, W>(scores, keys, pending, rows, accumulated);
}

template <class V, std::size_t W, class Real = RealOf<V>>
void qk_softmax(Parts parts, const RowsView<Real>& key, std::size_t keys, const Real* panel,
                std::size_t features, Real* probs, std::size_t pending, const RowState<Real>& rows,
                std::size_t accumulated) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t together = kRowUnroll<V, W>;
  HEED_CONTRACT(keys % PanelGeometry::row_padding == 0);
  const Real* const factors = factors_of<V, W>(parts, panel, features);
  multiply_keys<V, W>(parts, key, all_keys(keys), panel, features, probs);
  for (std::size_t j = 0; j < keys; j += together) {
    Real* const at = probs + j * W * n;
    V scores[together][W];
    unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
      unroll<W>([&](auto w) HEED_INLINE_LAMBDA { scores[r][w] = load<V>(at + (r * W + w) * n); });
    });
    multiply_rows<V, 0, W>(factors, scores);
    weigh<V, pairs::Product<V>>(scores, at, pending + j, rows, accumulated);
  }
}

/// Keys whose weights are split and multiplied at once: pairs stay in the L1 cache, and tiles of
/// sums pass once for some of each operand.
inline constexpr Parts kOnePart = {1, 1};
inline constexpr Parts kExactPart = {1, 3};
constexpr std::size_t key_block(Parts parts) { return parts.weights == 1 ? 256 : 64; }

/// Where the first component of a line of paired weights lies, among the lines of all groups.
HEED_INLINE std::size_t line_at(Parts parts, std::size_t line) {
  return line / kLines * parts.weights * kLines + line % kLines;
}

/// Clears lines of a vector that tiles have before and after its keys.
template <class V, class Real = RealOf<V>>
HEED_INLINE void clear_lines(Parts parts, Real* paired, std::size_t pitch, std::size_t begin,
                             std::size_t end) {
  for (std::size_t line = begin; line < end; ++line)
    for (std::size_t part = 0; part < parts.weights; ++part)
      store<V>(paired + (line_at(parts, line) + part * kLines) * pitch, V(Real{0}));
}

/// As pair_probs(), part by part; what is summed is not rounded.
template <class V, std::size_t count, class Real = RealOf<V>>
[[gnu::noinline]] void split_probs(Parts parts, const Real* probs, std::size_t pitch,
                                   std::size_t begin, std::size_t end, Real* to, Real* row_sum) {
  constexpr std::size_t n = kLanes<V>;
  V sum[count];
  unroll<count>([&](auto w) HEED_INLINE_LAMBDA { sum[w] = V(Real{0}); });
  for (std::size_t line = begin / 2; line < pairs::lines_of(end); ++line) {
    const bool has_even = 2 * line >= begin;
    const bool has_odd = 2 * line + 1 < end;
    unroll<count>([&](auto w) HEED_INLINE_LAMBDA {
      const Real* const at = probs + 2 * line * pitch + w * n;
      V even = has_even ? load<V>(at) : V(Real{0});
      V odd = has_odd ? load<V>(at + pitch) : V(Real{0});
      sum[w] = sum[w] + even + odd;
      Real* const first = to + line_at(parts, line) * pitch + w * n;
      for (std::size_t part = 0; part + 1 < parts.weights; ++part) {
        store<V>(first + part * kLines * pitch, pairs::round_to_pairs<V>(even, odd));
        even = pairs::without_part(even);
        odd = pairs::without_part(odd);
      }
      store<V>(first + (parts.weights - 1) * kLines * pitch, pairs::round_to_pairs<V>(even, odd));
    });
  }
  unroll<count>([&](auto w) HEED_INLINE_LAMBDA {
    store<V>(row_sum + w * n, load<V>(row_sum + w * n) + sum[w]);
  });
}

/// accumulators += values times the weights of `steps` tiles of keys, for C vectors in lines of
/// `pitch`.
template <class V, std::size_t C, class Real = RealOf<V>>
HEED_INLINE void multiply_values(const PartProducts& products, const ValueView<Real>& value,
                                 const Lines<const Real>& paired, std::size_t steps,
                                 std::size_t features, const Lines<Real>& sums, bool fresh) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t half = PanelGeometry::row_padding;
  static_assert(2 * half == kRows);
  const std::size_t halves = groups_of(features, half);
  const Left left = {value.data, value.feature_stride, value.block_stride, value.key_stride, n};
  multiply_groups<C>(products, left, paired, steps, sums, halves / 2, fresh);
  if (halves % 2 == 0) return;
  const std::size_t last = halves / 2;
  Real* const at = sums.data + last * kRows * sums.pitch;
  alignas(kAlignment) Real rest[kRows * C * n] = {};
  const auto each = [&](auto&& copy) HEED_INLINE_LAMBDA {
    for (std::size_t x = 0; x < half; ++x)
      unroll<C>([&](auto c) HEED_INLINE_LAMBDA {
        copy(rest + (x * C + c) * n, at + x * sums.pitch + c * n);
      });
  };
  if (!fresh)
    each([](Real* to, const Real* from) HEED_INLINE_LAMBDA { store<V>(to, load<V>(from)); });
  multiply<1, C>(products,
                 {left.data + static_cast<std::ptrdiff_t>(last) * left.group, left.line, left.group,
                  left.step, left.part},
                 paired, steps, {rest, C * n}, fresh);
  each([](const Real* from, Real* to) HEED_INLINE_LAMBDA { store<V>(to, load<V>(from)); });
}

template <class V, std::size_t W, class Real = RealOf<V>>
void accumulate(Parts parts, const ValueView<Real>& value, const KeyRanges& keys,
                std::size_t /*first_run*/, const Real* probs, const RowState<Real>& rows,
                std::size_t features) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
  HEED_CONTRACT(keys.hold_for(W));
  alignas(kAlignment) Real paired[key_block(kOnePart) / 2 * pitch];
  static_assert(key_block(kExactPart) * 3 <= key_block(kOnePart));
  const std::size_t together = key_block(parts);
  std::size_t begin = 0;
  do {
    const KeyRanges here = clipped(keys, begin, begin + together);
    each_column<W>(
        here, [&](auto count, std::size_t w, std::size_t from, std::size_t to) HEED_INLINE_LAMBDA {
          const Real* const at = probs + begin * pitch + w * n;
          if (parts.weights == 1)
            pairs::pair_probs<V, count>(at, pitch, from, to, paired + w * n, rows.row_sum + w * n);
          else
            split_probs<V, count>(parts, at, pitch, from, to, paired + w * n, rows.row_sum + w * n);
        });
    each_columns<W>([&](auto C, std::size_t w) HEED_INLINE_LAMBDA {
      const auto [first, last] = groups_between(here.begin[w], here.end[w + C - 1], kDepth);
      for (std::size_t c = w; c < w + C; ++c) {
        clear_lines<V>(parts, paired + c * n, pitch, first * kLines, here.begin[c] / 2);
        clear_lines<V>(parts, paired + c * n, pitch, pairs::lines_of(here.end[c]), last * kLines);
      }
      const bool fresh = rows.fresh && begin == 0;
      if (first == last && !fresh) return;
      ValueView<Real> from = value;
      from.data += static_cast<std::ptrdiff_t>(begin / kDepth + first) * value.key_stride;
      multiply_values<V, C>(weighted_products_of(parts), from,
                            {paired + first * parts.weights * kLines * pitch + w * n, pitch},
                            last - first, features, {rows.accumulators + w * n, pitch}, fresh);
    });
    begin += together;
  } while (begin < keys.end[W - 1]);
}

/// Half of what the last bit of a bfloat16 in [1, 2) is worth.
inline constexpr float kHalfBit = 0x1p-8F;

/// 2^x of weights that become bfloat16, times (1 + more): with kHalfBit it is rounded where it is
/// cut off after these digits. The polynomial's relative error is 4e-6, less than what rounding
/// leaves of 2^-8. NaN for NaN.
template <class V>
HEED_INLINE V exp2_of_weight(V x, float more) {
  const V f(_mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF));  // x - floor(x)
  V p = multiply_add(V(0.0135341678F), f, V(0.0520114601F));
  p = multiply_add(p, f, V(0.241442755F));
  p = multiply_add(p, f, V(0.693003833F));
  p = multiply_add(p, f, V(1.00000262F + more));
  return V(_mm512_scalef_ps(p, x));  // times 2^floor(x)
}

/// Pair i is lower[i] and upper[i], cut off after the digits of a bfloat16.
template <class V>
HEED_INLINE V cut_to_pairs(V lower, V upper) {
  const __m512i below = _mm512_srli_epi32(_mm512_castps_si512(lower), 16);
  return V(
      _mm512_castsi512_ps(_mm512_mask_blend_epi16(0xaaaaaaaaU, below, _mm512_castps_si512(upper))));
}

/// Weights of kDepth keys from their products, `factors` not yet multiplied in: to pairs and their
/// sums where weights have one part, else to floats, which split_probs() sums. True if a score has
/// outgrown its row_max, and weights are no good.
template <class V, std::size_t W, bool kOne, class Real = RealOf<V>>
[[gnu::noinline]] bool weigh_group(const Real* products, const Real* factors, const Real* row_max,
                                   Real* weights, Real* sums) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
  const V ones = from_bits<V>(BitsOf<V>(0x3f803f80U));  // pairs of 1
  V factor[W], less[W], top[W], sum[W];
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    factor[w] = load<V>(factors + w * n);
    less[w] = V(Real{0}) - load<V>(row_max + w * n);
    top[w] = V(kNoRowMax<Real>);
    sum[w] = V(Real{0});
  });
  for (std::size_t line = 0; line < kLines; ++line)
    unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
      const Real* const at = products + 2 * line * pitch + w * n;
      const V even = multiply_add(load<V>(at), factor[w], less[w]);
      const V odd = multiply_add(load<V>(at + pitch), factor[w], less[w]);
      top[w] = xsimd::max(even, top[w]);
      top[w] = xsimd::max(odd, top[w]);
      if constexpr (kOne) {
        const V both =
            cut_to_pairs<V>(exp2_of_weight(even, kHalfBit), exp2_of_weight(odd, kHalfBit));
        sum[w] = pairs::add_products(both, ones, sum[w]);
        store<V>(weights + line * pitch + w * n, both);
      } else {
        Real* const to = weights + 2 * line * pitch + w * n;
        store<V>(to, exp2_of(even));
        store<V>(to + pitch, exp2_of(odd));
      }
    });
  auto grown = V(Real{0}) > V(Real{0});
  unroll<W>([&](auto w)
                HEED_INLINE_LAMBDA { grown = grown | (top[w] > V(kRescaleThreshold<Real>)); });
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA { store<V>(sums + w * n, sum[w]); });
  return xsimd::any(grown);
}

/// qk_softmax() and accumulate() of whole groups of kDepth keys: scores and weights of a group pass
/// through a few lines of the L1 cache.
template <class V, std::size_t W, class Real = RealOf<V>>
void attend(Parts parts, const RowsView<Real>& key, std::size_t keys, const Real* panel,
            std::size_t features, const ValueView<Real>& value, std::size_t value_features,
            const RowState<Real>& state, std::size_t accumulated) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
  HEED_CONTRACT(keys % kDepth == 0);
  RowState<Real> rows = state;
  alignas(kAlignment) Real paired[key_block(kOnePart) / 2 * pitch];
  alignas(kAlignment) Real products[2][kDepth * pitch];
  alignas(kAlignment) Real probs[kDepth * pitch];
  alignas(kAlignment) Real sums[pitch];
  const Real* const factors = factors_of<V, W>(parts, panel, features);
  const std::size_t group_lines = parts.weights * kLines;
  const std::size_t together = key_block(parts) / kDepth;
  const std::size_t groups = keys / kDepth;
  std::size_t first = 0;  // the first group that is not accumulated yet
  const auto paired_at = [&](std::size_t g) { return paired + (g - first) * group_lines * pitch; };
  const auto add = [&](std::size_t end) {
    if (first == end) return;
    ValueView<Real> from = value;
    from.data += static_cast<std::ptrdiff_t>(first) * value.key_stride;
    each_columns<W>([&](auto C, std::size_t w) HEED_INLINE_LAMBDA {
      multiply_values<V, C>(weighted_products_of(parts), from, {paired + w * n, pitch}, end - first,
                            value_features, {rows.accumulators + w * n, pitch}, rows.fresh);
    });
    rows.fresh = false;
    first = end;
  };
  const auto multiply = [&](std::size_t g) {
    multiply_keys<V, W>(
        parts,
        {key.data + static_cast<std::ptrdiff_t>(g * kDepth) * key.row_stride, key.row_stride},
        all_keys(kDepth), panel, features, products[g % 2]);
  };
  multiply(0);
  for (std::size_t g = 0; g < groups; ++g) {
    if (g + 1 < groups) multiply(g + 1);  // while the vectors weigh this group
    Real* const here = products[g % 2];
    const auto weigh = [&](const Real* by) {
      return parts.weights == 1
                 ? weigh_group<V, W, true>(here, by, rows.row_max, paired_at(g), sums)
                 : weigh_group<V, W, false>(here, by, rows.row_max, probs, sums);
    };
    if (__builtin_expect(weigh(factors), false)) {
      add(g);
      unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
        const V factor = load<V>(factors + w * n);
        for (std::size_t j = 0; j < kDepth; ++j) {
          Real* const at = here + j * pitch + w * n;
          store<V>(at, load<V>(at) * factor);
        }
        store<V>(sums + w * n, V(Real{1}));
      });
      rescale_for<V, W, kDepth>(here, 0, rows, accumulated);
      make_finite<V>(here, kDepth * pitch);
      weigh(sums);  // by factors of 1, before it stores there
    }
    if (parts.weights == 1)
      flush<V, W>(sums, rows.row_sum);
    else
      split_probs<V, W>(parts, probs, pitch, 0, kDepth, paired_at(g), rows.row_sum);
    if (g + 1 - first == together) add(g + 1);
  }
  add(groups);
}

/// The rounded values of W vectors, side by side.
template <class V, std::size_t W>
HEED_INLINE void round_line(const V (&from)[W], std::uint16_t* to) {
  constexpr std::size_t n = kLanes<V>;
  if constexpr (W > 1) _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(from[1], from[0]));
  if constexpr (W % 2 != 0)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (W - 1) * n),
                        _mm512_castsi512_si256(pairs::round_to_half(from[W - 1])));
}

/// Probabilities and gradients of kDepth keys, from their scores and the ones of their values.
template <class V, std::size_t W, class Real = RealOf<V>>
[[gnu::noinline]] void weigh_gradients(const Real* scores, const Real* factors, const Real* grads,
                                       const GradientPanels<Real, Real>& rows,
                                       const RoundedGradients<Real>& to) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
  V factor[W], whole[W], rest[W], delta[W];
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    factor[w] = load<V>(factors + w * n);
    whole[w] = V(Real{0}) - load<V>(rows.whole + w * n);
    rest[w] = load<V>(rows.rest + w * n);
    delta[w] = load<V>(rows.delta + w * n);
  });
  for (std::size_t j = 0; j < kDepth; j += 2) {
    V gradient[2][W];
    unroll<2>([&](auto i) HEED_INLINE_LAMBDA {
      V prob[W];
      unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
        const std::size_t at = (j + i) * pitch + w * n;
        const V score = multiply_add(load<V>(scores + at), factor[w], whole[w]) - rest[w];
        prob[w] = exp2_of_weight(score, 0);
        gradient[i][w] = prob[w] * (load<V>(grads + at) - delta[w]);
      });
      round_line<V, W>(prob, to.probs + (j + i) * to.pitch);
      round_line<V, W>(gradient[i], to.gradients + (j + i) * to.pitch);
    });
    unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
      store<V>(to.paired + j / 2 * pitch + w * n,
               pairs::round_to_pairs<V>(gradient[0][w], gradient[1][w]));
    });
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void score_gradients(Parts parts, const RowsView<Real>& key, const RowsView<Real>& value,
                     std::size_t keys, const GradientPanels<Real, Real>& rows,
                     const RoundedGradients<Real>& to) {
  constexpr std::size_t pitch = W * kLanes<V>;
  HEED_CONTRACT(keys % kDepth == 0);
  alignas(kAlignment) Real scores[2][kDepth * pitch];
  alignas(kAlignment) Real grads[2][kDepth * pitch];
  const Real* const factors = factors_of<V, W>(parts, rows.query, rows.features);
  const auto multiply = [&](std::size_t g) {
    const auto from = static_cast<std::ptrdiff_t>(g * kDepth);
    multiply_keys<V, W>(parts, {key.data + from * key.row_stride, key.row_stride}, all_keys(kDepth),
                        rows.query, rows.features, scores[g % 2]);
    multiply_keys<V, W>(parts, {value.data + from * value.row_stride, value.row_stride},
                        all_keys(kDepth), rows.grad_out, rows.value_features, grads[g % 2]);
  };
  const std::size_t groups = keys / kDepth;
  multiply(0);
  for (std::size_t g = 0; g < groups; ++g) {
    if (g + 1 < groups) multiply(g + 1);  // while the vectors weigh this group
    const std::size_t before = g * kDepth * to.pitch;
    weigh_gradients<V, W>(
        scores[g % 2], factors, grads[g % 2], rows,
        {to.probs + before, to.gradients + before, to.pitch, to.paired + g * kLines * pitch});
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void multiply_panel(Parts parts, const ValueView<Real>& value, std::size_t keys, const Real* panel,
                    Real* sums, std::size_t features, bool fresh) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
  each_columns<W>([&](auto C, std::size_t w) HEED_INLINE_LAMBDA {
    multiply_values<V, C>(products_of(parts), value, {panel + w * n, pitch},
                          groups_of(keys, kDepth), features, {sums + w * n, pitch}, fresh);
  });
}

/// Packs values part by part: line(part, j, x) is that part of a block of features from x on of
/// keys j and j + 1, in pairs, and parts of a pair are asked for in order.
template <class V, class Line, class Real = RealOf<V>>
HEED_INLINE void pack_lines(std::size_t parts, std::size_t keys, std::size_t features, Real* packed,
                            Line&& line) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t block = PanelGeometry::value_block;
  const std::size_t groups = groups_of(keys, kDepth);
  for (std::size_t g = 0; g < groups; ++g)
    for (std::size_t x = 0; x < features; x += block) {
      alignas(kAlignment) Real lines[2][kLines * n];
      for (std::size_t i = 0; i < kLines; ++i)
        for (std::size_t part = 0; part < parts; ++part)
          store<V>(lines[part] + i * n, line(part, g * kDepth + 2 * i, x));
      Real* const to = packed + (x / block * groups + g) * parts * block * n;
      for (std::size_t part = 0; part < parts; ++part) {
        V square[n];
        unroll<n>([&](auto i) HEED_INLINE_LAMBDA { square[i] = load<V>(lines[part] + i * n); });
        transpose_square<V>(square);
        unroll<n>([&](auto i)
                      HEED_INLINE_LAMBDA { store<V>(to + (i * parts + part) * n, square[i]); });
      }
    }
}

template <class V, class Real = RealOf<V>>
void pack_values(Parts parts, const MatrixView<Real>& value, std::size_t keys, std::size_t features,
                 Real* packed) {
  V even(Real{0});
  V odd(Real{0});
  pack_lines<V>(parts.count, keys, features, packed,
                [&](std::size_t part, std::size_t j, std::size_t x) HEED_INLINE_LAMBDA {
                  if (part > 0) {
                    even = pairs::without_part(even);
                    odd = pairs::without_part(odd);
                  } else {
                    even = pairs::load_some<V>(value, keys, features, j, x);
                    odd = pairs::load_some<V>(value, keys, features, j + 1, x);
                  }
                  return parts.count == 1 ? pairs::round_all_to_pairs<V>(even, odd)
                                          : pairs::round_to_pairs<V>(even, odd);
                });
}

template <class V, class Real = RealOf<V>>
void pack_bf16_values(const std::uint16_t* rows, std::ptrdiff_t row_stride, std::size_t keys,
                      std::size_t features, Real* packed) {
  const auto widened = [&](std::size_t j, std::size_t x) HEED_INLINE_LAMBDA {
    const std::size_t some = j < keys ? features - x : 0;
    const __mmask32 mask = some < kLanes<V> ? (1U << some) - 1 : 0xffffU;
    return _mm512_cvtepu16_epi32(_mm512_castsi512_si256(
        _mm512_maskz_loadu_epi16(mask, rows + static_cast<std::ptrdiff_t>(j) * row_stride + x)));
  };
  pack_lines<V>(1, keys, features, packed,
                [&](std::size_t, std::size_t j, std::size_t x) HEED_INLINE_LAMBDA {
                  return V(_mm512_castsi512_ps(
                      _mm512_or_si512(widened(j, x), _mm512_slli_epi32(widened(j + 1, x), 16))));
                });
}

/// The whole scale multiplies scores: of numbers that are bfloat16 no digit would be lost to it.
template <class V, class Real = RealOf<V>>
void pack_bf16_query(std::size_t vectors, const std::uint16_t* const* rows, std::size_t row_count,
                     std::size_t features, Real scale, Real* panel) {
  constexpr std::size_t n = kLanes<V>;
  const std::size_t pitch = vectors * n;
  for (std::size_t r0 = 0; r0 < pitch; r0 += n) {
    Real* to = panel + r0;
    for (std::size_t x = 0; x < features; x += kDepth) {
      const std::size_t some = features - x;
      const __mmask32 mask = some < kDepth ? (1U << some) - 1 : 0xffffffffU;
      V square[n];
      unroll<n>([&](auto r) HEED_INLINE_LAMBDA {
        square[r] = r0 + r < row_count
                        ? V(_mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, rows[r0 + r] + x)))
                        : V(Real{0});
      });
      transpose_square<V>(square);
      unroll<n>([&](auto i) HEED_INLINE_LAMBDA { store<V>(to + i * pitch, square[i]); });
      to += kLines * pitch;
    }
    store<V>(to, V(scale));
  }
}

template <class V, class Real = RealOf<V>>
void split_rows(Parts parts, const RowsView<Real>& rows, std::size_t count, std::size_t features,
                Real* to) {
  constexpr std::size_t n = kLanes<V>;
  const MatrixView<Real> from = {rows.data, rows.row_stride, 1};
  for (std::size_t j = 0; j < count; ++j)
    for (std::size_t x = 0; x < features; x += kDepth) {
      V lower = pairs::load_some<V>(from, count, features, j, x);
      V upper = pairs::load_some<V>(from, count, features, j, x + n);
      for (std::size_t part = 0; part < parts.count; ++part, to += n) {
        store<V>(to, pairs::round_side_by_side(lower, upper));
        lower = pairs::without_part(lower);
        upper = pairs::without_part(upper);
      }
    }
}

}  // namespace tiles

template <class V, std::size_t parts, std::size_t weights>
struct TileEntries {
  static constexpr tiles::Parts kParts = {parts, weights};
#define HEED_BY_VECTORS_OF_TILES(result, name)                        \
  template <class... Arguments>                                       \
  static result name(std::size_t vectors, Arguments... arguments) {   \
    if (vectors == 1) return tiles::name<V, 1>(kParts, arguments...); \
    if (vectors == 2) return tiles::name<V, 2>(kParts, arguments...); \
    return tiles::name<V, 3>(kParts, arguments...);                   \
  }
#define HEED_PANEL_KERNEL(result, name, parameters)
#define HEED_PRODUCT_KERNEL(result, name, parameters) HEED_BY_VECTORS_OF_TILES(result, name)
#define HEED_PACK_KERNEL(result, name, parameters) \
  template <class... Arguments>                    \
  static result name(Arguments... arguments) {     \
    return tiles::name<V>(kParts, arguments...);   \
  }
#include "engine/kernels/list.hpp"
  HEED_BY_VECTORS_OF_TILES(void, attend)
  HEED_BY_VECTORS_OF_TILES(void, score_gradients)
#undef HEED_BY_VECTORS_OF_TILES
  static constexpr auto round_rows = pairs::round_rows<V>;
  static void split_rows(const RowsView<float>& rows, std::size_t count, std::size_t features,
                         float* to) {
    tiles::split_rows<V>(kParts, rows, count, features, to);
  }
};

/// Products of floats split into so many components, and of weights into theirs.
template <class V, std::size_t parts, std::size_t weights = parts>
constexpr ProductKernels<float> tile_products() {
  using Entries = TileEntries<V, parts, weights>;
  ProductKernels<float> products =
      table_of<Entries>(tiles::kDepth, tiles::key_block(Entries::kParts), parts);
  if (parts > 1) products.split_rows = Entries::split_rows;
  if (parts == 1) {
    products.pack_bf16_query = tiles::pack_bf16_query<V>;
    products.pack_bf16_values = tiles::pack_bf16_values<V>;
  }
  if (parts == 1 && weights == 1) products.score_gradients = Entries::score_gradients;
  products.attend = Entries::attend;
  products.begin = tiles::configure;
  products.end = tiles::release;
  return products;
}

}  // namespace
}  // namespace heed
