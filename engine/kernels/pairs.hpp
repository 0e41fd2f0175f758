// Products of pairs of bfloat16: one instruction multiplies two pairs of numbers and adds both
// products to a float, which is twice the work of a multiply-add.
//
//   scores         sums[key][row] += key[2i] * query[2i][row] + key[2i + 1] * query[2i + 1][row]
//   accumulators   sums[x][row]   += value[2j][x] * prob[2j][row] + value[2j + 1][x] * ...
//
// An Element is such a pair, two bfloat16 in the place of a float, the even one in the lower half:
//
//   query panel   [(features + 1) / 2][pitch], then a line of what scores are multiplied with
//   keys          as they lie, two features in a float
//   probs         floats to softmax, paired and rounded here
//   values        packed, [feature block][(keys + 1) / 2][value_block]
//
// Queries keep their bits: of their scale only the power of two is multiplied in, and the rest, 1
// to 2, multiplies their scores. The panel's order is also the order of a matrix unit's second
// operand, [k / 2][column][2].
#pragma once

#include "engine/kernels/convert.hpp"
#include "engine/kernels/matmul.hpp"
#include "engine/kernels/operations.hpp"
#include "engine/kernels/softmax.hpp"
#include "engine/kernels/table.hpp"
#include "engine/kernels/transpose.hpp"

namespace heed {
namespace {
namespace pairs {

#if defined(__AVX512BF16__)
template <class V>
HEED_INLINE __m512bh bfloat16(V pairs) {
  return (__m512bh)_mm512_castps_si512(pairs);
}

/// c + a[0] * b[0] + a[1] * b[1] of the pairs a and b.
template <class V>
HEED_INLINE V add_products(V a, V b, V c) {
  return V(_mm512_dpbf16_ps(c, bfloat16(a), bfloat16(b)));
}

/// Numbers rounded to bfloat16, to nearest even, in the lower half of a vector. (The instruction
/// for two vectors at once ignores one of them on bochs 3.0.)
template <class V>
HEED_INLINE __m512i round_to_half(V numbers) {
  return _mm512_castsi256_si512((__m256i)_mm512_cvtneps_pbh(numbers));
}

/// The rounded values of `lower`, then of `upper`.
template <class V>
HEED_INLINE V round_side_by_side(V lower, V upper) {
  const __m256i last = _mm512_castsi512_si256(round_to_half(upper));
  return V(_mm512_castsi512_ps(_mm512_inserti64x4(round_to_half(lower), last, 1)));
}

/// The same in pairs: pair i is lower[i] and upper[i].
template <class V>
HEED_INLINE V round_to_pairs(V lower, V upper) {
  alignas(kAlignment) static constexpr std::uint16_t kPlaces[32] = {
      0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
      8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i places = _mm512_load_si512(static_cast<const void*>(kPlaces));
  return V(_mm512_castsi512_ps(
      _mm512_permutex2var_epi16(round_to_half(lower), places, round_to_half(upper))));
}

/// The same of subnormal numbers too, which the instruction takes for 0: what is packed once may be
/// read again where 0 would make NaN of an infinity.
template <class V>
HEED_INLINE V round_all_to_pairs(V lower, V upper) {
  const __m512i high = _mm512_and_si512(rounded_bits(upper), _mm512_set1_epi32(-0x10000));
  return V(_mm512_castsi512_ps(_mm512_or_si512(_mm512_srli_epi32(rounded_bits(lower), 16), high)));
}
#else
// BFDOT. BFMMLA does twice the work, but wants both operands four numbers deep, two rows to a
// vector: keys could not be read where they lie, nor would panels be as on other instruction sets.
template <class V>
HEED_INLINE V add_products(V a, V b, V c) {
  return V(vbfdotq_f32(c, vreinterpretq_bf16_f32(a), vreinterpretq_bf16_f32(b)));
}

/// Values rounded to bfloat16, to nearest even: first of `lower`, then of `upper`.
template <class V>
HEED_INLINE V round_side_by_side(V lower, V upper) {
  return V(vreinterpretq_f32_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(lower), upper)));
}

/// The same in pairs: pair i is lower[i] and upper[i].
template <class V>
HEED_INLINE V round_to_pairs(V lower, V upper) {
  const uint16x8_t both = vreinterpretq_u16_f32(round_side_by_side(lower, upper));
  return V(vreinterpretq_f32_u16(vzip1q_u16(both, vextq_u16(both, both, 4))));
}
template <class V>
HEED_INLINE V round_all_to_pairs(V lower, V upper) {
  return round_to_pairs<V>(lower, upper);
}
#endif

/// Products of pairs. The processor takes subnormal numbers for 0, and makes none.
template <class V>
struct Product {
  static constexpr bool kIsNumber = false;
  static constexpr bool kScalesScores = true;
  static constexpr bool kSumsWeights = false;  // accumulate() rounds them, and then sums them
  HEED_INLINE static V add(V a, V b, V c) { return add_products(a, b, c); }
};

/// The components of bfloat16 that stand for a float: one, rounded, or several that sum up to it.
struct OnePart {
  static constexpr std::size_t count = 1;
};

#if defined(__AVX512BF16__)
/// Subtracts the next component of floats, which leaves less than 2^-8 of them. Components are
/// rounded, so that the rest has any sign, and products left out do not add up. An infinity leaves
/// NaN.
template <class V>
HEED_INLINE V without_part(V x) {
  const __m512i half = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
  return x - V(_mm512_castsi512_ps(_mm512_slli_epi32(half, 16)));
}
#endif

HEED_INLINE std::size_t lines_of(std::size_t numbers) { return (numbers + 1) / 2; }

/// scale = power * rest, where power is a power of two and rest between 1 and 2, signs aside.
struct Scale {
  float power, rest;
};
HEED_INLINE Scale split(float scale) {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &scale, sizeof bits);
  const std::uint32_t exponent = bits & 0x7f800000U;
  if (exponent == 0 || exponent == 0x7f800000U) return {1, scale};
  Scale of{};
  __builtin_memcpy(&of.power, &exponent, sizeof exponent);
  of.rest = scale / of.power;
  return of;
}

/// Transposes 2 n features of n rows, the first of them at rows[r] + x, to pairs of features.
template <class V, class Parts, class Real = RealOf<V>>
HEED_INLINE void transpose_pairs(const Real* const* rows, std::size_t present, std::size_t x,
                                 Real power, [[maybe_unused]] std::size_t part,
                                 V (&square)[kLanes<V>]) {
  constexpr std::size_t n = kLanes<V>;
  unroll<n>([&](auto r) HEED_INLINE_LAMBDA {
    square[r] = V(Real{0});
    if (r >= present) return;
    V lower = V::load_unaligned(rows[r] + x) * V(power);
    V upper = V::load_unaligned(rows[r] + x + n) * V(power);
    if constexpr (!std::is_same_v<Parts, OnePart>)
      for (std::size_t i = 0; i < part; ++i) {
        lower = without_part(lower);
        upper = without_part(upper);
      }
    square[r] = round_side_by_side(lower, upper);
  });
  transpose_square<V>(square);
}

/// Features come in groups of `depth`, the last one filled up with 0, each group part by part. One
/// for panels of any width, because it is large.
template <class V, std::size_t depth = 2, class Parts, class Real = RealOf<V>>
[[gnu::noinline]] void pack_rows(Parts parts, std::size_t pitch, const Real* const* rows,
                                 std::size_t row_count, std::ptrdiff_t feature_stride,
                                 std::size_t features, Real scale, Real* panel) {
  constexpr std::size_t n = kLanes<V>;
  static_assert(std::is_same_v<Parts, OnePart> ? 2 * n % depth == 0 : 2 * n == depth);
  const std::size_t lines = parts.count * ((features + depth - 1) / depth * depth / 2);
  const Scale factors = split(scale);
  const std::size_t whole = feature_stride == 1 ? features / (2 * n) * (2 * n) : 0;
  for (std::size_t r0 = 0; r0 < pitch; r0 += n) {
    const std::size_t present = row_count < r0 ? 0 : (row_count - r0 < n ? row_count - r0 : n);
    V square[n];
    for (std::size_t x = 0; x < whole; x += 2 * n) {
      for (std::size_t part = 0; part < parts.count; ++part) {
        Real* const to = panel + (x / 2 * parts.count + part * n) * pitch + r0;
        transpose_pairs<V, Parts>(rows + r0, present, x, factors.power, part, square);
        unroll<n>([&](auto i) HEED_INLINE_LAMBDA { store<V>(to + i * pitch, square[i]); });
      }
    }
    for (std::size_t x = whole; x < features; x += 2 * n) {
      Real rest[n][2 * n] = {};
      const Real* rest_rows[n] = {};
      for (std::size_t r = 0; r < present; ++r) {
        rest_rows[r] = rest[r];
        for (std::size_t i = 0; i < 2 * n && x + i < features; ++i)
          rest[r][i] = rows[r0 + r][static_cast<std::ptrdiff_t>(x + i) * feature_stride];
      }
      for (std::size_t part = 0; part < parts.count; ++part) {
        const std::size_t line = x / 2 * parts.count + part * n;
        transpose_pairs<V, Parts>(rest_rows, present, 0, factors.power, part, square);
        unroll<n>([&](auto i) HEED_INLINE_LAMBDA {
          if (line + i < lines) store<V>(panel + (line + i) * pitch + r0, square[i]);
        });
      }
    }
    store<V>(panel + lines * pitch + r0, V(factors.rest));
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void pack_query(const Real* const* rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                std::size_t features, Real scale, Real* panel) {
  pack_rows<V>(OnePart{}, W * kLanes<V>, rows, row_count, feature_stride, features, scale, panel);
}

template <class V, std::size_t W, class Real = RealOf<V>>
void scores(const RowsView<Real>& key, const KeyRanges& keys, const Real* panel,
            std::size_t features, Real* out) {
  heed::scores<V, W, Product<V>>(key, keys, panel, lines_of(features), out);
}

template <class V, std::size_t W, class Real = RealOf<V>>
void softmax(Real* scores, const KeyRanges& keys, std::size_t pending, const RowState<Real>& rows,
             std::size_t accumulated) {
  heed::softmax<V, W, Product<V>>(scores, keys, pending, rows, accumulated);
}

/// See ProductKernels::round_rows.
template <class V, class Real = RealOf<V>>
void round_rows(const Real* from, std::size_t pitch, std::size_t rows, std::size_t columns,
                std::size_t width, std::uint16_t* to, std::size_t to_pitch) {
  constexpr std::size_t n = kLanes<V>;
  for (std::size_t j = 0; j < rows; ++j) {
    const Real* const row = from + j * pitch;
    const auto vector = [&](std::size_t begin) HEED_INLINE_LAMBDA {
      if (begin + n <= columns) return load<V>(row + begin);
      alignas(kAlignment) Real some[n] = {};
      for (std::size_t r = begin; r < columns; ++r) some[r - begin] = row[r];
      return load<V>(some);
    };
    for (std::size_t r = 0; r < width; r += 2 * n) {
      alignas(kAlignment) Real both[n];
      store<V>(both, round_side_by_side<V>(vector(r), vector(r + n)));
      __builtin_memcpy(to + j * to_pitch + r, both,
                       r + 2 * n <= width ? sizeof both : 2 * (width - r));
    }
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void qk_softmax(const RowsView<Real>& key, std::size_t keys, const Real* panel,
                std::size_t features, Real* probs, std::size_t pending, const RowState<Real>& rows,
                std::size_t accumulated) {
  heed::qk_softmax<V, W, Product<V>>(key, keys, panel, lines_of(features), probs, pending, rows,
                                     accumulated);
}

/// Pairs of the keys [begin, end) of `count` vectors in rows of `pitch` numbers, 0 where a pair has
/// a key outside; they are summed apart from what row_sum holds.
template <class V, std::size_t count, class Real = RealOf<V>>
[[gnu::noinline]] void pair_probs(const Real* probs, std::size_t pitch, std::size_t begin,
                                  std::size_t end, Real* to, Real* row_sum) {
  constexpr std::size_t n = kLanes<V>;
  const V ones = from_bits<V>(BitsOf<V>(0x3f803f80U));  // pairs of 1
  V sum[count];
  unroll<count>([&](auto w) HEED_INLINE_LAMBDA { sum[w] = V(Real{0}); });
  const auto pair = [&](std::size_t line, bool has_even, bool has_odd) HEED_INLINE_LAMBDA {
    unroll<count>([&](auto w) HEED_INLINE_LAMBDA {
      const Real* const at = probs + 2 * line * pitch + w * n;
      const V both = round_to_pairs<V>(has_even ? load<V>(at) : V(Real{0}),
                                       has_odd ? load<V>(at + pitch) : V(Real{0}));
      sum[w] = Product<V>::add(both, ones, sum[w]);
      store<V>(to + line * pitch + w * n, both);
    });
  };
  std::size_t line = begin / 2;
  if (begin % 2 != 0) pair(line++, false, begin < end);  // also where there are no keys
  for (; 2 * line + 2 <= end; ++line) pair(line, true, true);
  if (2 * line < end) pair(line, true, false);
  unroll<count>([&](auto w) HEED_INLINE_LAMBDA {
    store<V>(row_sum + w * n, load<V>(row_sum + w * n) + sum[w]);
  });
}

/// Keys that are paired at once: their pairs stay in the L1 cache.
inline constexpr std::size_t kPairedKeys = 64;

template <class V, std::size_t W, class Real = RealOf<V>>
void accumulate(const ValueView<Real>& value, const KeyRanges& keys, std::size_t /*first_run*/,
                const Real* probs, const RowState<Real>& rows, std::size_t features) {
  HEED_CONTRACT(keys.hold_for(W));
  constexpr std::size_t n = kLanes<V>;
  alignas(kAlignment) Real paired[kPairedKeys / 2 * W * n];
  std::size_t begin = 0;
  do {
    const KeyRanges here = clipped(keys, begin, begin + kPairedKeys);
    KeyRanges lines{};
    unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
      lines.begin[w] = here.begin[w] / 2;
      lines.end[w] = lines_of(here.end[w]);
    });
    each_column<W>(
        here, [&](auto count, std::size_t w, std::size_t from, std::size_t to) HEED_INLINE_LAMBDA {
          pair_probs<V, count>(probs + begin * W * n + w * n, W * n, from, to, paired + w * n,
                               rows.row_sum + w * n);
        });
    ValueView<Real> from = value;
    from.data += static_cast<std::ptrdiff_t>(begin / 2) * value.key_stride;
    accumulate_lines<V, Product<V>, W>(from, lines, PanelGeometry::run, paired, rows.accumulators,
                                       features, rows.fresh && begin == 0);
    begin += kPairedKeys;
  } while (begin < keys.end[W - 1]);
}

template <class V, std::size_t W, class Real = RealOf<V>>
void multiply_panel(const ValueView<Real>& value, std::size_t keys, const Real* panel, Real* sums,
                    std::size_t features, bool fresh) {
  const std::size_t lines = lines_of(keys);
  accumulate_lines<V, Product<V>, W>(value, all_keys(lines), lines, panel, sums, features, fresh);
}

/// A vector of numbers of row j, from number x0 on, 0 past the last row and the last number.
template <class V, class Real = RealOf<V>>
HEED_INLINE V load_some(const MatrixView<Real>& rows, std::size_t count, std::size_t numbers,
                        std::size_t j, std::size_t x0) {
  constexpr std::size_t n = kLanes<V>;
  if (j >= count || x0 >= numbers) return V(Real{0});
  const Real* const from = rows.data + static_cast<std::ptrdiff_t>(j) * rows.row_stride +
                           static_cast<std::ptrdiff_t>(x0) * rows.column_stride;
  if (rows.column_stride == 1 && x0 + n <= numbers) return V::load_unaligned(from);
  alignas(kAlignment) Real some[n] = {};
  for (std::size_t x = 0; x0 + x < numbers && x < n; ++x)
    some[x] = from[static_cast<std::ptrdiff_t>(x) * rows.column_stride];
  return load<V>(some);
}

template <class V, class Real = RealOf<V>>
void pack_values(const MatrixView<Real>& value, std::size_t keys, std::size_t features,
                 Real* packed) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t block = PanelGeometry::value_block;
  static_assert(block % n == 0);
  const std::size_t lines = lines_of(keys);
  for (std::size_t line = 0; line < lines; ++line)
    for (std::size_t x0 = 0; x0 < features; x0 += block)
      for (std::size_t i = 0; i < block; i += n)
        store<V>(packed + x0 * lines + line * block + i,
                 round_all_to_pairs<V>(load_some<V>(value, keys, features, 2 * line, x0 + i),
                                       load_some<V>(value, keys, features, 2 * line + 1, x0 + i)));
}

}  // namespace pairs

template <class V>
struct PairEntries {
#define HEED_PANEL_KERNEL(result, name, parameters)
#define HEED_PRODUCT_KERNEL(result, name, parameters) HEED_BY_VECTORS(pairs, result, name)
#define HEED_PACK_KERNEL(result, name, parameters) static constexpr auto name = pairs::name<V>;
#include "engine/kernels/list.hpp"
  static constexpr auto round_rows = pairs::round_rows<V>;
};

/// The table of these entries.
template <class Entries>
constexpr ProductKernels<float> table_of(std::uint32_t depth, std::uint32_t key_block,
                                         std::uint32_t parts = 1, bool adds = false) {
  ProductKernels<float> products{};
  products.depth = depth;
  products.key_block = key_block;
  products.parts = parts;
  products.adds = adds;
#define HEED_PANEL_KERNEL(result, name, parameters)
#define HEED_PRODUCT_KERNEL(result, name, parameters) products.name = Entries::name;
#define HEED_PACK_KERNEL HEED_PRODUCT_KERNEL
#include "engine/kernels/list.hpp"
  products.round_rows = Entries::round_rows;
  return products;
}

}  // namespace
}  // namespace heed
