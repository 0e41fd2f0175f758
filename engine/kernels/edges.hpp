// The two products of attention along the edges of a graph. Each edge has a row of its own, which
// may lie anywhere and serves all heads at once. The lanes of a vector are features, as they lie in
// memory.
//
//   score[edge][head]      = sum over features of row[edge][head][feature] * query[head][feature]
//   sum[head][feature]    += sum over edges of weight[edge][head] * row[edge][head][feature]
#pragma once

#include "engine/kernels/activation.hpp"
#include "engine/kernels/operations.hpp"
#include "engine/kernels/read.hpp"
#include "engine/kernels/table.hpp"
#include "engine/kernels/transpose.hpp"

namespace heed {
namespace {

/// The next narrower vector, for heads that do not fill the widest one; V itself where the
/// architecture has none narrower.
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

/// Calls function(size, done) for sizes out of the list that add up to `count`, `done` being the
/// sum of the sizes before. Sizes in the list fall, and the last is 1.
template <std::size_t Size, std::size_t... Smaller, class Function>
HEED_INLINE void in_sizes(std::size_t count, Function&& function) {
  std::size_t done = 0;
  for (; done + Size <= count; done += Size)
    function(std::integral_constant<std::size_t, Size>{}, done);
  if constexpr (sizeof...(Smaller) > 0) {
    in_sizes<Smaller...>(count - done, [&](auto size, std::size_t more)
                                           HEED_INLINE_LAMBDA { function(size, done + more); });
  }
}

/// Prefetches what a later edge's row has of H heads, of so many bytes each. Lines are asked for a
/// row at a time, between the products of rows: many at once fill the queue of lines that are on
/// their way, and everything waits.
template <std::size_t H>
HEED_INLINE void prefetch_ahead(const EdgeRows& rows, std::size_t edge, std::size_t bytes) {
  if (rows.ahead == 0) return;
  const char* row = rows.row(edge + rows.ahead);
  const auto prefetch = [&](std::size_t size) HEED_INLINE_LAMBDA {
    for (std::size_t x = 0; x < size; x += 64) __builtin_prefetch(row + x);
  };
  if (rows.head_stride == static_cast<std::ptrdiff_t>(bytes)) return prefetch(H * bytes);
  for (std::size_t h = 0; h < H; ++h, row += rows.head_stride) prefetch(bytes);
}

/// One sum per lane; sum_rows() sums over the lanes. M vectors, or for M = 0 as many as `features`
/// say.
template <class V, class Element, std::size_t M, class Real = RealOf<V>>
HEED_INLINE V dot_product(const char* row, const Real* b, std::size_t features) {
  constexpr std::size_t n = kLanes<V>;
  const auto* const a = reinterpret_cast<const Element*>(row);
  V sum = read_vector<V>(a) * V::load_unaligned(b);
  if constexpr (M > 0) {
    unroll<M - 1>([&](auto i) HEED_INLINE_LAMBDA {
      constexpr std::size_t x = (i + 1) * n;
      sum = multiply_add(read_vector<V>(a + x), V::load_unaligned(b + x), sum);
    });
  } else {
    for (std::size_t x = n; x < features; x += n)
      sum = multiply_add(read_vector<V>(a + x), V::load_unaligned(b + x), sum);
  }
  return sum;
}

/// The scores of H heads, where H divides the lanes, from the head of `own` on that `rows` begin
/// with: takes so many edges at once that their sums over features fill one vector. `out` has room
/// for `room` edges.
template <class V, class Element, std::size_t H, std::size_t M, class Real = RealOf<V>>
void score_heads(const EdgeRows& rows, std::size_t edges, const OwnRows<Real>& own,
                 std::size_t first_feature, std::size_t features, bool fresh, Real* out,
                 std::size_t pitch, std::size_t room) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t together = n / H;
  if constexpr (M > 0) features = M * n;
  for (std::size_t e = 0; e < edges; e += together) {
    V sums[n];
    unroll<together>([&](auto i) HEED_INLINE_LAMBDA {
      if (together > 1 && e + i >= edges) {
        unroll<H>([&](auto h) HEED_INLINE_LAMBDA { sums[i * H + h] = V(Real{0}); });
        return;
      }
      const char* row = rows.row(e + i);
      const Real* const query = own.row(e + i) + first_feature;
      unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
        sums[i * H + h] = dot_product<V, Element, M>(row, query + h * features, features);
        row += rows.head_stride;
      });
      prefetch_ahead<H>(rows, e + i, features * sizeof(Element));
    });
    V scores = sum_rows<V>(sums);
    Real* const to = out + e * pitch;
    if constexpr (H == n) {
      if (!fresh) scores = scores + V::load_unaligned(to);
      scores.store_unaligned(to);
    } else if (pitch == H && fresh && e + together <= room) {
      scores.store_unaligned(to);
    } else {
      alignas(kAlignment) Real each[n];
      store<V>(each, scores);
      for (std::size_t i = 0; i < together && e + i < edges; ++i)
        for (std::size_t h = 0; h < H; ++h)
          to[i * pitch + h] = each[i * H + h] + (fresh ? Real{0} : to[i * pitch + h]);
    }
  }
}

/// Calls function(M) with the number of vectors that a head has where that is 1, 2 or 4, else 0.
/// The number is odd for vectors narrower than V: two of them would be one of the next width. 4
/// that are converted take as long as any number. CPUs that do not fuse have the loop for all
/// alone, to keep the library small.
template <class V, class Lanes, class Element, class Function>
HEED_INLINE void with_vectors_of_head(std::size_t vectors, Function&& function) {
  if constexpr (kFusesMultiplyAdd<V>) {
    if (vectors == 1) return function(std::integral_constant<std::size_t, 1>{});
    if constexpr (std::is_same_v<V, Lanes>) {
      if (vectors == 2) return function(std::integral_constant<std::size_t, 2>{});
      if constexpr (std::is_same_v<Element, RealOf<V>>) {
        if (vectors == 4) return function(std::integral_constant<std::size_t, 4>{});
      }
    }
  }
  function(std::integral_constant<std::size_t, 0>{});
}

/// edge_scores() with rows of the edges' own, into a buffer with room for more edges than there
/// are.
template <class V, class Real = RealOf<V>>
void edge_scores_in(const EdgeRows& rows, std::size_t edges, const OwnRows<Real>& own,
                    std::size_t heads, std::size_t features, bool fresh, Real* out,
                    std::size_t pitch, std::size_t room) {
  with_element<Real>(rows.type, [&](auto element) HEED_INLINE_LAMBDA {
    with_divisor<V>(features, [&](auto zero) HEED_INLINE_LAMBDA {
      using Lanes = decltype(zero);
      constexpr std::size_t n = kLanes<Lanes>;
      with_vectors_of_head<V, Lanes, decltype(element)>(
          features / n, [&](auto m) HEED_INLINE_LAMBDA {
            // Elements that are converted take longer than 8 heads together save, unless heads are
            // short.
            constexpr std::size_t most = std::is_same_v<decltype(element), Real> || m == 1 ? 8 : 4;
            in_sizes<(n < most ? n : most), (n < 4 ? n : 4), 1>(
                heads, [&](auto some, std::size_t h) HEED_INLINE_LAMBDA {
                  score_heads<Lanes, decltype(element), some, m>(
                      rows.from_head(static_cast<std::int64_t>(h)), edges, own, h * features,
                      features, fresh, out + h, pitch, room);
                });
          });
    });
  });
}

template <class V, class Real = RealOf<V>>
void edge_scores(const EdgeRows& rows, std::size_t edges, const Real* query, std::size_t heads,
                 std::size_t features, bool fresh, Real* out, std::size_t pitch) {
  HEED_CONTRACT(features % RowKernels<Real>::feature_padding == 0 && pitch >= heads);
  const OwnRows<Real> own = {{query, 0}, rows.source};
  edge_scores_in<V>(rows, edges, own, heads, features, fresh, out, pitch, edges);
}

/// Vectors summed together: enough independent chains, few enough to stay in registers.
inline constexpr std::size_t kEdgeVectors = 8;

/// Sums M vectors of each of H heads over all edges, apart from what is there. Sums of heads lie
/// `features` apart.
template <class V, class Element, std::size_t H, std::size_t M, class Real = RealOf<V>>
void sum_heads(const EdgeRows& rows, std::size_t edges, const Real* weights, std::size_t pitch,
               std::size_t features, Real* sums_of, bool fresh) {
  constexpr std::size_t n = kLanes<V>;
  V sums[H][M];
  unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
    unroll<M>([&](auto m) HEED_INLINE_LAMBDA { sums[h][m] = V(Real{0}); });
  });
  for (std::size_t e = 0; e < edges; ++e) {
    const char* row = rows.row(e);
    unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
      const V weight(weights[h]);
      unroll<M>([&](auto m) HEED_INLINE_LAMBDA {
        const V part = read_vector<V>(reinterpret_cast<const Element*>(row) + m * n);
        sums[h][m] = multiply_add(weight, part, sums[h][m]);
      });
      row += rows.head_stride;
    });
    prefetch_ahead<H>(rows, e, M * n * sizeof(Element));
    weights += pitch;
  }
  unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
    unroll<M>([&](auto m) HEED_INLINE_LAMBDA {
      Real* const at = sums_of + h * features + m * n;
      if (!fresh) sums[h][m] = sums[h][m] + V::load_unaligned(at);
      sums[h][m].store_unaligned(at);
    });
  });
}

/// For heads of M vectors: so many heads together that the processor is busy.
template <class V, class Element, std::size_t M, class Real = RealOf<V>>
HEED_INLINE void sum_narrow(const EdgeRows& rows, std::size_t edges, const Real* weights,
                            std::size_t pitch, std::size_t heads, Real* sums, bool fresh) {
  constexpr std::size_t features = M * kLanes<V>;
  in_sizes<kEdgeVectors / M, 4 / M, 1>(heads, [&](auto some, std::size_t h) HEED_INLINE_LAMBDA {
    sum_heads<V, Element, some, M>(rows.from_head(static_cast<std::int64_t>(h)), edges, weights + h,
                                   pitch, features, sums + h * features, fresh);
  });
}

/// For all other heads: one after the other, some vectors at a time.
template <class V, class Element, class Real = RealOf<V>>
HEED_INLINE void sum_wide(const EdgeRows& rows, std::size_t edges, const Real* weights,
                          std::size_t pitch, std::size_t heads, std::size_t features, Real* sums,
                          bool fresh) {
  constexpr std::size_t n = kLanes<V>;
  for (std::size_t h = 0; h < heads; ++h) {
    const EdgeRows of_head = rows.from_head(static_cast<std::int64_t>(h));
    in_sizes<kEdgeVectors, 4, 1>(features / n, [&](auto some, std::size_t m) HEED_INLINE_LAMBDA {
      EdgeRows columns = of_head;
      columns.data = static_cast<const Element*>(of_head.data) + m * n;
      sum_heads<V, Element, 1, some>(columns, edges, weights + h, pitch, features,
                                     sums + h * features + m * n, fresh);
    });
  }
}

/// Nodes that follow each other, and where their edges begin, counted from anywhere.
struct NodeOffsets {
  std::size_t nodes;
  const std::int64_t* offsets;  ///< [nodes + 1]

  HEED_INLINE std::size_t edges(std::size_t node) const {
    return static_cast<std::size_t>(offsets[node + 1] - offsets[node]);
  }
};

/// edge_values() of each node, to rows of their own.
template <class V, class Real = RealOf<V>>
void edge_values_of(const NodeOffsets& of, EdgeRows rows, const Real* weights, std::size_t pitch,
                    std::size_t heads, std::size_t features, NodeRows<Real> sums, bool fresh) {
  with_element<Real>(rows.type, [&](auto element) HEED_INLINE_LAMBDA {
    using Element = decltype(element);
    with_divisor<V>(features, [&](auto zero) HEED_INLINE_LAMBDA {
      using Lanes = decltype(zero);
      with_vectors_of_head<V, Lanes, Element>(
          features / kLanes<Lanes>, [&](auto m) HEED_INLINE_LAMBDA {
            for (std::size_t i = 0; i < of.nodes; ++i) {
              const std::size_t edges = of.edges(i);
              if constexpr (m > 0) {
                sum_narrow<Lanes, Element, m>(rows, edges, weights, pitch, heads, sums.first,
                                              fresh);
              } else {
                sum_wide<Lanes, Element>(rows, edges, weights, pitch, heads, features, sums.first,
                                         fresh);
              }
              rows.source += edges;
              weights += edges * pitch;
              sums.first += sums.stride;
            }
          });
    });
  });
}

template <class V, class Real = RealOf<V>>
void edge_values(const EdgeRows& rows, std::size_t edges, const Real* weights, std::size_t pitch,
                 std::size_t heads, std::size_t features, Real* sums, bool fresh) {
  HEED_CONTRACT(features % RowKernels<Real>::feature_padding == 0 && pitch >= heads);
  const std::int64_t offsets[] = {0, static_cast<std::int64_t>(edges)};
  edge_values_of<V>({1, offsets}, rows, weights, pitch, heads, features, NodeRows<Real>{sums, 0},
                    fresh);
}

/// Features [x, features) of one row, vector by vector; returns where the rest begins.
template <class V, class Real = RealOf<V>>
HEED_INLINE std::size_t activate_row(const Real* row, const Real* query, std::size_t x,
                                     std::size_t features, const Activation<Real>& act,
                                     Real* values, Real* slopes) {
  const V slope(act.slope);
  for (; x + kLanes<V> <= features; x += kLanes<V>) {
    const V z = V::load_unaligned(query + x) + V::load_unaligned(row + x);
    const Activated<V> of = act.tanh ? activated<true>(z, slope) : activated<false>(z, slope);
    of.value.store_unaligned(values + x);
    if (slopes != nullptr) of.derivative.store_unaligned(slopes + x);
  }
  return x;
}

/// The narrowest vector: features are a multiple of its lanes.
template <class V, class Next = typename Narrower<V>::Type>
struct Narrowest {
  using Type = typename Narrowest<Next>::Type;
};
template <class V>
struct Narrowest<V, V> {
  using Type = V;
};

template <class V, class Real = RealOf<V>>
void activate(const EdgeRows& rows, std::size_t edges, const OwnRows<Real>& own, std::size_t heads,
              std::size_t features, const Activation<Real>& act, Real* values, Real* slopes) {
  HEED_CONTRACT(features % RowKernels<Real>::feature_padding == 0 && rows.type == kTypeOf<Real>);
  // Heads side by side are one row, of fewer vectors.
  const bool one_run = rows.head_stride == static_cast<std::ptrdiff_t>(features * sizeof(Real));
  const std::size_t runs = one_run ? 1 : heads;
  const std::size_t width = one_run ? heads * features : features;
  for (std::size_t e = 0; e < edges; ++e) {
    const char* row = rows.row(e);
    const Real* q = own.row(e);
    for (std::size_t h = 0; h < runs; ++h, row += rows.head_stride, q += width) {
      prefetch_ahead<1>(rows.from_head(static_cast<std::int64_t>(h)), e, width * sizeof(Real));
      const auto* const from = reinterpret_cast<const Real*>(row);
      const std::size_t x = activate_row<V>(from, q, 0, width, act, values, slopes);
      activate_row<typename Narrowest<V>::Type>(from, q, x, width, act, values, slopes);
      values += width;
      if (slopes != nullptr) slopes += width;
    }
  }
}

}  // namespace
}  // namespace heed
