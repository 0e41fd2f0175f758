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
// So panels and softmax are those of pairs.hpp. What is multiplied comes in whole groups of 32,
// filled up with zeros, because the shape of tiles never changes:
//
//   query panel   [round_up(features, 32) / 2][pitch], then a line of factors
//   keys          rows of round_up(features, 32) numbers
//   values        packed, [feature block][group of 32 keys][value_block][32]
#pragma once

#include "engine/kernels/edges.hpp"
#include "engine/kernels/pairs.hpp"

namespace heed {
namespace {
namespace tiles {

/// Numbers of A and B that a tile sums over, and rows of A and columns of B.
inline constexpr std::size_t kDepth = 32;
inline constexpr std::size_t kRows = 16;
inline constexpr std::size_t kLines = kDepth / 2;

// Instructions by name: compilers lack these intrinsics, or let stores pass by them. Tiles are no
// registers to a compiler, so that none has to be saved.

/// Until release(), all eight tiles of this thread have all their lines and columns.
inline void configure() {
  struct {
    std::uint8_t palette = 1, start = 0, unused[14] = {};
    std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const shape;
  asm volatile("ldtilecfg %0" : : "m"(shape));
}
inline void release() { asm volatile("tilerelease"); }

template <std::size_t tile>
HEED_INLINE void clear_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}
/// Lines lie `stride` floats apart.
template <std::size_t tile>
HEED_INLINE void load_tile(const float* from, std::ptrdiff_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(4 * stride), "i"(tile)
               : "memory");
}
template <std::size_t tile>
HEED_INLINE void store_tile(float* to, std::ptrdiff_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(4 * stride), "i"(tile) : "memory");
}
template <std::size_t c, std::size_t a, std::size_t b>
HEED_INLINE void add_product() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
}

/// Where the tiles of A lie: that of rows 16 g on and depth 32 k on at data + g * group + k * step,
/// its lines `line` floats apart.
struct Left {
  const float* data;
  std::ptrdiff_t line, group, step;
};

/// Lines of B or C.
template <class Number>
struct Lines {
  Number* data;
  std::size_t pitch;  ///< floats from line to line
};

/// sums += products, or = if `fresh`, of R groups of rows and C groups of columns, over `steps`
/// tiles of depth. R * C of the tiles hold sums, two A and two B.
template <std::size_t R, std::size_t C>
[[gnu::noinline]] void multiply(const Left& left, const Lines<const float>& right,
                                std::size_t steps, const Lines<float>& sums, bool fresh) {
  static_assert(R * C <= 4 && C <= 2);
  constexpr std::size_t kLeft = 4;
  constexpr std::size_t kRight = 6;
  const auto pitch = static_cast<std::ptrdiff_t>(sums.pitch);
  const auto right_pitch = static_cast<std::ptrdiff_t>(right.pitch);
  const auto place = [&](std::size_t r, std::size_t c) HEED_INLINE_LAMBDA {
    return sums.data + r * kRows * sums.pitch + c * kRows;
  };
  unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
    unroll<C>([&](auto c) HEED_INLINE_LAMBDA {
      if (fresh)
        clear_tile<r * C + c>();
      else
        load_tile<r * C + c>(place(r, c), pitch);
    });
  });
  const float* a = left.data;
  const float* b = right.data;
  for (std::size_t k = 0; k < steps; ++k, a += left.step, b += kLines * right.pitch) {
    unroll<C>([&](auto c)
                  HEED_INLINE_LAMBDA { load_tile<kRight + c>(b + c * kRows, right_pitch); });
    unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
      load_tile<kLeft + r % 2>(a + static_cast<std::ptrdiff_t>(r) * left.group, left.line);
      unroll<C>([&](auto c)
                    HEED_INLINE_LAMBDA { add_product<r * C + c, kLeft + r % 2, kRight + c>(); });
    });
  }
  unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
    unroll<C>([&](auto c) HEED_INLINE_LAMBDA { store_tile<r * C + c>(place(r, c), pitch); });
  });
}

/// The same for any number of groups of rows, four tiles of sums at a time.
template <std::size_t C>
HEED_INLINE void multiply_groups(const Left& left, const Lines<const float>& right,
                                 std::size_t steps, const Lines<float>& sums, std::size_t groups,
                                 bool fresh) {
  const auto multiply_some = [&](auto some, std::size_t done) HEED_INLINE_LAMBDA {
    multiply<some, C>({left.data + static_cast<std::ptrdiff_t>(done) * left.group, left.line,
                       left.group, left.step},
                      right, steps, {sums.data + done * kRows * sums.pitch, sums.pitch}, fresh);
  };
  if constexpr (C == 1)
    in_sizes<4, 2, 1>(groups, multiply_some);
  else
    in_sizes<2, 1>(groups, multiply_some);
}

/// Calls function(C, w) for C vectors from w on.
template <std::size_t W, class Function>
HEED_INLINE void each_columns(Function&& function) {
  if constexpr (W >= 2) function(std::integral_constant<std::size_t, 2>{}, std::size_t{0});
  if constexpr (W % 2 != 0) function(std::integral_constant<std::size_t, 1>{}, W - 1);
}

HEED_INLINE std::size_t groups_of(std::size_t numbers, std::size_t group) {
  return (numbers + group - 1) / group;
}

/// The groups [begin, end) that have some of the numbers [begin, end).
struct Groups {
  std::size_t begin, end;
};
HEED_INLINE Groups groups_between(std::size_t begin, std::size_t end, std::size_t group) {
  if (begin >= end) return {0, 0};
  return {begin / group, groups_of(end, group)};
}

template <class V, std::size_t W, class Real = RealOf<V>>
void pack_query(const Real* const* rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                std::size_t features, Real scale, Real* panel) {
  pairs::pack_query<V, W, kDepth>(rows, row_count, feature_stride, features, scale, panel);
}

/// Fewer keys than a tile has rows, with copies of the last one after them: nothing past them is
/// read, and nothing written but what row_padding adds.
template <class V, std::size_t C, class Real = RealOf<V>>
[[gnu::noinline]] void multiply_rest(const MatrixView<Real>& key, std::size_t count,
                                     const Lines<const Real>& panel, std::size_t steps,
                                     const Lines<Real>& out) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t together = 8;
  constexpr std::size_t pitch = C * n;
  constexpr std::size_t padding = PanelGeometry::row_padding;
  alignas(kAlignment) Real rows[together * kRows * n];
  alignas(kAlignment) Real sums[kRows * pitch];
  for (std::size_t k = 0; k < steps; k += together) {
    const std::size_t some = k + together < steps ? together : steps - k;
    for (std::size_t j = 0; j < kRows; ++j) {
      const Real* const from =
          key.data + static_cast<std::ptrdiff_t>(j < count ? j : count - 1) * key.row_stride +
          k * n;
      for (std::size_t i = 0; i < some; ++i)
        store<V>(rows + (i * kRows + j) * n, V::load_unaligned(from + i * n));
    }
    multiply<1, C>({rows, n, 0, kRows * n}, {panel.data + k * kLines * panel.pitch, panel.pitch},
                   some, {sums, pitch}, k == 0);
  }
  for (std::size_t j = 0; j < groups_of(count, padding) * padding; ++j)
    unroll<C>([&](auto c) HEED_INLINE_LAMBDA {
      store<V>(out.data + j * out.pitch + c * n, load<V>(sums + j * pitch + c * n));
    });
}

/// Products of the keys that vectors need, not yet multiplied with the factors.
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void multiply_keys(const MatrixView<Real>& key, const KeyRanges& keys,
                               const Real* panel, std::size_t features, Real* out) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
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
          Left{at(begin), key.row_stride, static_cast<std::ptrdiff_t>(kRows) * key.row_stride, n},
          right, steps, Lines<Real>{out + begin * kRows * pitch + w * n, pitch}, groups - begin,
          true);
    if (end > whole)
      multiply_rest<V, C>({at(whole), key.row_stride, 1}, keys.end[W - 1] - whole * kRows, right,
                          steps, {out + whole * kRows * pitch + w * n, pitch});
  });
}

/// The line of factors of a panel.
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE const Real* factors_of(const Real* panel, std::size_t features) {
  return panel + groups_of(features, kDepth) * kLines * W * kLanes<V>;
}

template <class V, std::size_t W, class Real = RealOf<V>>
void scores(const MatrixView<Real>& key, const KeyRanges& keys, const Real* panel,
            std::size_t features, Real* out) {
  constexpr std::size_t n = kLanes<V>;
  const Real* const factors = factors_of<V, W>(panel, features);
  multiply_keys<V, W>(key, keys, panel, features, out);
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
void softmax(Real* scores, const KeyRanges& keys, std::size_t pending, const RowState<Real>& rows,
             std::size_t accumulated) {
  pairs::softmax<V, W>(scores, keys, pending, rows, accumulated);
}

template <class V, std::size_t W, class Real = RealOf<V>>
void qk_softmax(const MatrixView<Real>& key, std::size_t keys, const Real* panel,
                std::size_t features, Real* probs, std::size_t pending, const RowState<Real>& rows,
                std::size_t accumulated) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t together = kRowUnroll<V, W>;
  multiply_keys<V, W>(key, all_keys(keys), panel, features, probs);
  for (std::size_t j = 0; j < keys; j += together) {
    Real* const at = probs + j * W * n;
    V scores[together][W];
    unroll<together>([&](auto r) HEED_INLINE_LAMBDA {
      unroll<W>([&](auto w) HEED_INLINE_LAMBDA { scores[r][w] = load<V>(at + (r * W + w) * n); });
    });
    multiply_rows<V, 0, W>(factors_of<V, W>(panel, features), scores);
    weigh<V, pairs::Product<V>>(scores, at, pending + j, rows, accumulated);
  }
}

/// Keys whose weights are rounded and multiplied at once: scores and pairs stay in the L1 cache,
/// and tiles of sums pass once for four of each operand.
inline constexpr std::size_t kKeyBlock = 128;

/// Lines of a vector that tiles have before and after those of its keys.
template <class V, class Real = RealOf<V>>
HEED_INLINE void clear_lines(Real* paired, std::size_t pitch, std::size_t begin, std::size_t end) {
  for (std::size_t line = begin; line < end; ++line) store<V>(paired + line * pitch, V(Real{0}));
}

/// accumulators += values times the weights of `steps` tiles of keys, for C vectors in lines of
/// `pitch`.
template <class V, std::size_t C, class Real = RealOf<V>>
HEED_INLINE void multiply_values(const ValueView<Real>& value, const Lines<const Real>& paired,
                                 std::size_t steps, std::size_t features, const Lines<Real>& sums,
                                 bool fresh) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t half = PanelGeometry::row_padding;
  static_assert(2 * half == kRows);
  const std::size_t halves = groups_of(features, half);
  const Left left = {value.data, value.feature_stride, value.block_stride, value.key_stride};
  multiply_groups<C>(left, paired, steps, sums, halves / 2, fresh);
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
  multiply<1, C>({left.data + static_cast<std::ptrdiff_t>(last) * left.group, left.line, left.group,
                  left.step},
                 paired, steps, {rest, C * n}, fresh);
  each([](const Real* from, Real* to) HEED_INLINE_LAMBDA { store<V>(to, load<V>(from)); });
}

template <class V, std::size_t W, class Real = RealOf<V>>
void accumulate(const ValueView<Real>& value, const KeyRanges& keys, std::size_t /*first_run*/,
                const Real* probs, const RowState<Real>& rows, std::size_t features) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
  alignas(kAlignment) Real paired[kKeyBlock / 2 * pitch];
  std::size_t begin = 0;
  do {
    const KeyRanges here = clipped(keys, begin, begin + kKeyBlock);
    each_column<W>(
        here, [&](auto count, std::size_t w, std::size_t from, std::size_t to) HEED_INLINE_LAMBDA {
          pairs::pair_probs<V, count>(probs + begin * pitch + w * n, pitch, from, to,
                                      paired + w * n, rows.row_sum + w * n);
        });
    each_columns<W>([&](auto C, std::size_t w) HEED_INLINE_LAMBDA {
      const auto [first, last] = groups_between(here.begin[w], here.end[w + C - 1], kDepth);
      for (std::size_t c = w; c < w + C; ++c) {
        clear_lines<V>(paired + c * n, pitch, first * kLines, here.begin[c] / 2);
        clear_lines<V>(paired + c * n, pitch, pairs::lines_of(here.end[c]), last * kLines);
      }
      const bool fresh = rows.fresh && begin == 0;
      if (first == last && !fresh) return;
      ValueView<Real> from = value;
      from.data += static_cast<std::ptrdiff_t>(begin / kDepth + first) * value.key_stride;
      multiply_values<V, C>(from, {paired + first * kLines * pitch + w * n, pitch}, last - first,
                            features, {rows.accumulators + w * n, pitch}, fresh);
    });
    begin += kKeyBlock;
  } while (begin < keys.end[W - 1]);
}

template <class V, std::size_t W, class Real = RealOf<V>>
void multiply_panel(const ValueView<Real>& value, std::size_t keys, const Real* panel, Real* sums,
                    std::size_t features, bool fresh) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
  each_columns<W>([&](auto C, std::size_t w) HEED_INLINE_LAMBDA {
    multiply_values<V, C>(value, {panel + w * n, pitch}, groups_of(keys, kDepth), features,
                          {sums + w * n, pitch}, fresh);
  });
}

template <class V, class Real = RealOf<V>>
void pack_values(const MatrixView<Real>& value, std::size_t keys, std::size_t features,
                 Real* packed) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t block = PanelGeometry::value_block;
  const std::size_t groups = groups_of(keys, kDepth);
  for (std::size_t g = 0; g < groups; ++g)
    for (std::size_t x = 0; x < features; x += block) {
      alignas(kAlignment) Real lines[kLines * n];
      for (std::size_t i = 0; i < kLines; ++i)
        store<V>(lines + i * n, pairs::pair_of_keys<V>(value, keys, features, g * kLines + i, x));
      V square[n];
      unroll<n>([&](auto i) HEED_INLINE_LAMBDA { square[i] = load<V>(lines + i * n); });
      transpose<V>(square);
      Real* const to = packed + (x / block * groups + g) * block * n;
      unroll<n>([&](auto i) HEED_INLINE_LAMBDA { store<V>(to + i * n, square[i]); });
    }
}

}  // namespace tiles

template <class V>
struct TileEntries {
#define HEED_PANEL_KERNEL(result, name, parameters)
#define HEED_PRODUCT_KERNEL(result, name, parameters) HEED_BY_VECTORS(tiles, result, name)
#define HEED_PACK_KERNEL(result, name, parameters) static constexpr auto name = tiles::name<V>;
#include "engine/kernels/list.hpp"
};

template <class V>
constexpr ProductKernels<float> tile_products() {
  ProductKernels<float> products = table_of<TileEntries<V>>(tiles::kDepth, tiles::kKeyBlock);
  products.begin = tiles::configure;
  products.end = tiles::release;
  return products;
}

}  // namespace
}  // namespace heed
