// The two products of attention along the edges of a graph. Rows are gathered, one per edge, and
// all heads of a row are used at once; the lanes of a vector are features, as they lie in memory.
//
//   score[edge][head]      = sum over features of row[edge][head][feature] * query[head][feature]
//   sum[head][feature]    += sum over edges of weight[edge][head] * row[edge][head][feature]
#pragma once

#include "engine/kernels/arch.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// The next narrower vector of an architecture that has several; the same where there is none.
/// Heads of few features fill the widest one not.
template <class V>
struct Narrower {
  using Type = V;
};
#if defined(__AVX2__)
template <class Real>
struct Narrower<Vec<Real, xsimd::fma3<xsimd::avx2>>> {
  using Type = Vec<Real, xsimd::sse4_2>;
};
#endif
#if defined(__AVX512BW__)
template <class Real>
struct Narrower<Vec<Real, xsimd::avx512bw>> {
  using Type = Vec<Real, xsimd::fma3<xsimd::avx2>>;
};
#endif

/// Calls function(V{}) with the widest vector that divides `features`.
template <class V, class Function>
HEED_INLINE void with_divisor(std::size_t features, Function&& function) {
  using Next = typename Narrower<V>::Type;
  if constexpr (!std::is_same_v<Next, V>) {
    if (features % kLanes<V> != 0) return with_divisor<Next>(features, function);
  }
  function(V(RealOf<V>{0}));
}

/// Asks for the row of the edge that is rows.ahead further on.
template <class Real>
HEED_INLINE void prefetch_ahead(const EdgeRows<Real>& rows, std::size_t edge, std::size_t heads,
                                std::size_t features) {
  constexpr std::size_t line = 64 / sizeof(Real);
  const Real* from = rows.data + rows.source[edge + rows.ahead] * rows.stride;
  if (rows.head_stride == static_cast<std::ptrdiff_t>(features)) {  // one piece
    features *= heads;
    heads = 1;
  }
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t x = 0; x < features; x += line) __builtin_prefetch(from + x, 0, 3);
    from += rows.head_stride;
  }
}

/// Lane by lane; the sum over the lanes is left to sum_rows().
template <class V, class Real = RealOf<V>>
HEED_INLINE V dot_product(const Real* a, const Real* b, std::size_t features) {
  V sum = V::load_unaligned(a) * V::load_unaligned(b);
  for (std::size_t x = kLanes<V>; x < features; x += kLanes<V>)
    sum = multiply_add(V::load_unaligned(a + x), V::load_unaligned(b + x), sum);
  return sum;
}

/// Scores of up to H heads, a divisor of the number of lanes: as many edges are taken at once as
/// make their sums over features fill one vector.
template <class V, std::size_t H, class Real = RealOf<V>>
void score_edges(const EdgeRows<Real>& rows, std::size_t edges, const Real* query,
                 std::size_t heads, std::size_t features, bool fresh, Real* tile,
                 std::size_t pitch) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t together = n / H;
  for (std::size_t e = 0; e < edges; e += together) {
    V sums[n];
    unroll<together>([&](auto i) HEED_FLAT {
      const bool present = e + i < edges;
      const Real* row = present ? rows.data + rows.source[e + i] * rows.stride : nullptr;
      if (present && rows.ahead > 0) prefetch_ahead(rows, e + i, heads, features);
      unroll<H>([&](auto h) HEED_FLAT {
        sums[i * H + h] = V(Real{0});
        if (!present || h >= heads) return;
        sums[i * H + h] = dot_product<V>(row, query + h * features, features);
        row += rows.head_stride;
      });
    });
    alignas(kAlignment) Real scores[n];
    store<V>(scores, sum_rows<V>(sums));
    for (std::size_t i = 0; i < together && e + i < edges; ++i) {
      Real* const to = tile + (e + i) * pitch;
      for (std::size_t h = 0; h < H && h < heads; ++h)
        to[h] = fresh ? scores[i * H + h] : to[h] + scores[i * H + h];
    }
  }
}

/// Calls function(H) with the least power of two that is at least `heads`, at most Most.
template <std::size_t Most, class Function>
HEED_INLINE void with_heads(std::size_t heads, Function&& function) {
  if constexpr (Most > 1) {
    if (heads <= Most / 2) return with_heads<Most / 2>(heads, function);
  }
  function(std::integral_constant<std::size_t, Most>{});
}

template <class V, class Real = RealOf<V>>
void edge_scores(const EdgeRows<Real>& rows, std::size_t edges, const Real* query,
                 std::size_t heads, std::size_t features, bool fresh, Real* tile,
                 std::size_t pitch) {
  with_divisor<V>(features, [&](auto zero) HEED_FLAT {
    using Lanes = decltype(zero);
    constexpr std::size_t n = kLanes<Lanes>;
    EdgeRows<Real> part = rows;
    for (std::size_t h = 0; h < heads; h += n) {
      const std::size_t count = heads - h < n ? heads - h : n;
      with_heads<n>(count, [&](auto most) HEED_FLAT {
        score_edges<Lanes, most>(part, edges, query + h * features, count, features, fresh,
                                 tile + h, pitch);
      });
      part.data += static_cast<std::ptrdiff_t>(n) * rows.head_stride;
    }
  });
}

/// Where a vector of the sums stands: its weight and its features in a row.
struct EdgeVector {
  std::size_t head;
  std::ptrdiff_t at;
};

/// N vectors of the sums, for all edges.
template <class V, std::size_t N, class Real = RealOf<V>>
HEED_INLINE void sum_edges(const EdgeRows<Real>& rows, std::size_t edges, const Real* weights,
                           std::size_t pitch, const EdgeVector* where, bool fresh, Real* sums_of) {
  constexpr std::size_t n = kLanes<V>;
  V sums[N];
  unroll<N>([&](auto i)
                HEED_FLAT { sums[i] = fresh ? V(Real{0}) : V::load_unaligned(sums_of + i * n); });
  for (std::size_t e = 0; e < edges; ++e) {
    const Real* const row = rows.data + rows.source[e] * rows.stride;
    unroll<N>([&](auto i) HEED_FLAT {
      sums[i] =
          multiply_add(V(weights[where[i].head]), V::load_unaligned(row + where[i].at), sums[i]);
    });
    weights += pitch;
  }
  unroll<N>([&](auto i) HEED_FLAT { sums[i].store_unaligned(sums_of + i * n); });
}

/// Vectors that are summed together: enough independent chains, few enough to stay in registers.
inline constexpr std::size_t kEdgeVectors = 8;

template <class V, class Real = RealOf<V>>
void sum_all(const EdgeRows<Real>& rows, std::size_t edges, const Real* weights, std::size_t pitch,
             std::size_t heads, std::size_t features, Real* sums, bool fresh) {
  constexpr std::size_t n = kLanes<V>;
  EdgeVector where[kEdgeVectors];
  std::size_t count = 0;
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t x = 0; x < features; x += n) {
      where[count++] = {
          h, static_cast<std::ptrdiff_t>(h) * rows.head_stride + static_cast<std::ptrdiff_t>(x)};
      if (count < kEdgeVectors) continue;
      sum_edges<V, kEdgeVectors>(rows, edges, weights, pitch, where, fresh, sums);
      sums += kEdgeVectors * n;
      count = 0;
    }
  }
  std::size_t done = 0;
  const auto rest = [&](auto some) HEED_FLAT {
    if ((count & some) == 0) return;
    sum_edges<V, some>(rows, edges, weights, pitch, where + done, fresh, sums);
    sums += some * n;
    done += some;
  };
  rest(std::integral_constant<std::size_t, 4>{});
  rest(std::integral_constant<std::size_t, 2>{});
  rest(std::integral_constant<std::size_t, 1>{});
}

template <class V, class Real = RealOf<V>>
void edge_values(const EdgeRows<Real>& rows, std::size_t edges, const Real* weights,
                 std::size_t pitch, std::size_t heads, std::size_t features, Real* sums,
                 bool fresh) {
  if (rows.ahead > 0)
    for (std::size_t e = 0; e < edges; ++e) prefetch_ahead(rows, e, heads, features);
  with_divisor<V>(features, [&](auto zero) HEED_FLAT {
    sum_all<decltype(zero)>(rows, edges, weights, pitch, heads, features, sums, fresh);
  });
}

}  // namespace
}  // namespace heed
