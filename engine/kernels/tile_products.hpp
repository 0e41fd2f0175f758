// The instructions of AMX, and products of any number of its tiles: of bfloat16, or of floats as
// sums of two parts, or weights of three. tiles.hpp says what the tiles hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/kernels/edges.hpp"
#include "engine/kernels/operations.hpp"

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

/// Components of bfloat16 in a value that is given, and in a weight.
struct Parts {
  std::size_t count, weights;
};

/// A product of two components, and which of its tiles the product before has not loaded.
struct PartProduct {
  std::uint8_t left, right;
  bool new_left, new_right;
};
struct PartProducts {
  const PartProduct *begin, *end;
  std::size_t right;  ///< parts of the second operand
};

/// The products of components, small ones first, in the order that loads the fewest tiles. With
/// two components, the product of both rests is left out.
[[gnu::noinline]] inline PartProducts products_of(Parts parts) {
  static constexpr PartProduct one[] = {{0, 0, true, true}};
  static constexpr PartProduct two[] = {
      {0, 1, true, true}, {0, 0, false, true}, {1, 0, true, false}};
  if (parts.count == 1) return {one, one + 1, 1};
  return {two, two + 3, 2};
}

/// The products of values' and weights' components.
[[gnu::noinline]] inline PartProducts weighted_products_of(Parts parts) {
  static constexpr PartProduct of_three[] = {
      {0, 2, true, true}, {0, 1, false, true}, {0, 0, false, true}};
  if (parts.weights == 3) return {of_three, of_three + 3, 3};
  return products_of(parts);
}

/// Where the tiles of A lie: the one of rows 16 g on and depth 32 k on at data + g * group +
/// k * step, its components `part` floats after each other, its lines `line` floats apart.
struct Left {
  const float* data;
  std::ptrdiff_t line, group, step, part;
};

/// Lines of B or C.
template <class Number>
struct Lines {
  Number* data;
  std::size_t pitch;  ///< floats from line to line
};

/// sums += products, or = if `fresh`, of R groups of rows and C groups of columns, over `steps`
/// tiles of depth. R * C of the tiles hold sums, two A and two B; parts of B lie one after the
/// other.
template <std::size_t R, std::size_t C>
[[gnu::noinline]] void multiply(const PartProducts& products, const Left& left,
                                const Lines<const float>& right, std::size_t steps,
                                const Lines<float>& sums, bool fresh) {
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
  const std::size_t part = kLines * right.pitch;
  for (std::size_t k = 0; k < steps; ++k, a += left.step, b += products.right * part) {
    for (const PartProduct* p = products.begin; p != products.end; ++p) {
      if (p->new_right)
        unroll<C>([&](auto c) HEED_INLINE_LAMBDA {
          load_tile<kRight + c>(b + p->right * part + c * kRows, right_pitch);
        });
      const float* const from = a + p->left * left.part;
      unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
        if (R > 2 || p->new_left)
          load_tile<kLeft + r % 2>(from + static_cast<std::ptrdiff_t>(r) * left.group, left.line);
        unroll<C>([&](auto c)
                      HEED_INLINE_LAMBDA { add_product<r * C + c, kLeft + r % 2, kRight + c>(); });
      });
    }
  }
  unroll<R>([&](auto r) HEED_INLINE_LAMBDA {
    unroll<C>([&](auto c) HEED_INLINE_LAMBDA { store_tile<r * C + c>(place(r, c), pitch); });
  });
}

/// sums = products of two tiles of depth and two groups of columns, which stay in tiles meanwhile.
[[gnu::noinline]] inline void multiply_square(const Left& left, const Lines<const float>& right,
                                              const Lines<float>& sums, std::size_t groups) {
  const auto pitch = static_cast<std::ptrdiff_t>(sums.pitch);
  const auto right_pitch = static_cast<std::ptrdiff_t>(right.pitch);
  const float* const below = right.data + kLines * right.pitch;
  load_tile<4>(right.data, right_pitch);
  load_tile<5>(right.data + kRows, right_pitch);
  load_tile<6>(below, right_pitch);
  load_tile<7>(below + kRows, right_pitch);
  const float* a = left.data;
  float* to = sums.data;
  for (std::size_t g = 0; g < groups; ++g, a += left.group, to += kRows * sums.pitch) {
    clear_tile<0>();
    clear_tile<1>();
    load_tile<2>(a, left.line);
    load_tile<3>(a + left.step, left.line);
    add_product<0, 2, 4>();
    add_product<1, 2, 5>();
    add_product<0, 3, 6>();
    add_product<1, 3, 7>();
    store_tile<0>(to, pitch);
    store_tile<1>(to + kRows, pitch);
  }
}

/// The same for any number of groups of rows, four tiles of sums at a time.
template <std::size_t C>
HEED_INLINE void multiply_groups(const PartProducts& products, const Left& left,
                                 const Lines<const float>& right, std::size_t steps,
                                 const Lines<float>& sums, std::size_t groups, bool fresh) {
  const auto multiply_some = [&](auto some, std::size_t done) HEED_INLINE_LAMBDA {
    multiply<some, C>(products,
                      {left.data + static_cast<std::ptrdiff_t>(done) * left.group, left.line,
                       left.group, left.step, left.part},
                      right, steps, {sums.data + done * kRows * sums.pitch, sums.pitch}, fresh);
  };
  if constexpr (C == 2)
    if (fresh && steps == 2 && products.end - products.begin == 1)
      return multiply_square(left, right, sums, groups);
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

}  // namespace tiles
}  // namespace
}  // namespace heed
