// Attention and its gradients for nodes of a graph with few edges: all of some nodes in one call.
// The general way has steps between the products whose lanes few heads leave empty; there they cost
// more than the products.
//
// Products, and whatever else takes edge by edge, go over the edges of all nodes at once: nothing
// there depends on where a node ends, which no processor can foresee. Between them every node has
// its softmax.
//
// Heads are taken in groups of G, which divides the lanes, and the numbers of edges and heads lie
// without gaps. Two heads in a vector of eight lanes:
//
//   scores   e0h0 e0h1  e1h0 e1h1  e2h0 e2h1  e3h0 e3h1
//
// So a maximum or sum over edges is one over vectors, then one over lanes that are equal modulo G.
// A node's numbers begin anywhere, and its last vector goes on with the next node's: results lie
// apart from what they are made of, and the next node's are written over what is too much.
//
// Numbers that are not finite end all this: the general way says what becomes of them.
#pragma once

#include "engine/kernels/edges.hpp"
#include "engine/kernels/exp2.hpp"
#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// Every lane becomes the sum, or whatever `combine` makes, of the lanes that equal it modulo G.
template <std::size_t G, class V, class Combine>
HEED_INLINE V fold_lanes(V x, Combine&& combine) {
  unroll<log2_of(kLanes<V> / G)>([&](auto i) HEED_INLINE_LAMBDA {
    constexpr std::size_t k = kLanes<V> / (std::size_t{2} << i);
    x = combine(x, pick_lanes(x, x, [](std::size_t lane) { return lane ^ k; }));
  });
  return x;
}

/// log2(x) for finite x >= 1, as much off as one rounding of exp2: a cubic of the mantissa, off by
/// less than 1e-3, then one step of Newton's.
template <class V>
HEED_INLINE V log2_of_sum(V x) {
  constexpr float exponents = 8388608.0F;  // 2^23, whose last digit is worth 1
  const BitsOf<V> bits = to_bits(x);
  const V one(1.0F);
  const V power = from_bits<V>((bits >> 23) | to_bits(V(exponents))) - V(exponents + 127.0F);
  const V m = from_bits<V>((bits & BitsOf<V>(0x7fffffU)) | to_bits(one)) - one;
  // (m + 1) is in [1, 2): least squares over Chebyshev nodes, exact at both ends.
  V y = multiply_add(m, V(0.156848167F), V(-0.578424755F));
  y = multiply_add(y, m, V(1.421576588F)) * m;
  const V left = multiply_add(m + one, exp2_of(V(0.0F) - y), V(-1.0F));
  const V more = left * multiply_add(left, V(-0.72134752F), V(1.44269504F));
  return power + (y + more);
}

/// Whether a log-sum-exp is so far from 0 that the general way keeps what it lacks.
template <class V>
HEED_INLINE bool has_lost_digits(V lse) {
  return xsimd::any(xsimd::abs(lse) > V(static_cast<RealOf<V>>(kFarLogSum<RealOf<V>>)));
}

/// Vectors of numbers per edge and head. Products store their sums in vectors of 32 bytes or more,
/// and what is loaded at once must have been stored at once, or it waits for the cache.
template <class P>
using EdgeVector = std::conditional_t<kIsAvx512<P>, typename Narrower<P>::Type, P>;

/// Scores, and whatever else there is per edge and head, of G heads. Products have vectors P.
template <class P, std::size_t G>
class HeadGroup {
 public:
  using V = EdgeVector<P>;
  using Real = RealOf<V>;
  static constexpr std::size_t n = kLanes<V>;
  static constexpr std::size_t kHeads = G;
  /// Products write whole vectors of their own.
  static constexpr std::size_t kNumbers = kNodeEdges * G + kLanes<P>;

  /// The numbers of one node: [begin, end).
  struct Node {
    std::size_t index, begin, end;

    /// Calls function(i) for the places of all vectors.
    template <class Function>
    HEED_INLINE void each(Function&& function) const {
      for (std::size_t i = begin; i < end; i += n) function(i);
    }
    /// Where lanes of the vector at i are the node's.
    HEED_INLINE auto within(std::size_t i) const {
      alignas(kAlignment) static constexpr Real kLane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
      static_assert(n <= 8);
      return load<V>(kLane) < V(static_cast<Real>(end - i));
    }
  };

  HEED_INLINE explicit HeadGroup(const NodeEdges<Real>& nodes)
      : nodes_(nodes), count_(nodes.edges * G) {}

  /// <row, own> of all edges, for the heads from h on; 0 in lanes past the last.
  [[gnu::noinline]] void multiply(const EdgeRows& rows, std::size_t h,
                                  const NodeRows<const Real>& own, std::size_t features,
                                  Real* to) const {
    V(Real{0}).store_unaligned(to + count_);
    const NodeRows<const Real> from_head = {own.first + h * features, own.stride};
    edge_scores_in<P>(rows.from_head(static_cast<std::int64_t>(h)), nodes_.edges,
                      OwnRows<Real>{from_head, nodes_.own}, G, features, true, to, G, kNumbers / G);
  }

  /// Scores, unscaled, and, if they are sums, their derivatives.
  HEED_INLINE void score(std::size_t h, Real* scores, Real* slopes) const {
    if (nodes_.act == nullptr)
      return multiply(nodes_.keys, h, nodes_.query, nodes_.features, scores);
    add_up(h, scores, slopes);
  }

  /// sums (+)= weights times rows.
  [[gnu::noinline]] void add(const EdgeRows& rows, std::size_t h, const Real* weights,
                             std::size_t features, const NodeRows<Real>& sums, bool fresh) const {
    edge_values_of<P>({nodes_.nodes, nodes_.offsets}, rows.from_head(static_cast<std::int64_t>(h)),
                      weights, G, G, features,
                      NodeRows<Real>{sums.first + h * features, sums.stride}, fresh);
  }

  /// The gradients of scores go to queries or keys: sums (+)= gradients times slopes.
  HEED_INLINE void add_gradients(std::size_t h, const Real* gradients, const Real* slopes,
                                 Real factor, const NodeRows<Real>& sums, bool fresh) const {
    if (nodes_.act == nullptr)
      return add(nodes_.slopes, h, gradients, nodes_.features, sums, fresh);
    add_numbers(gradients, slopes, factor, {sums.first + h, sums.stride}, fresh);
  }

  /// Calls function(i) for the places of all vectors of all nodes.
  template <class Function>
  HEED_INLINE void each(Function&& function) const {
    for (std::size_t i = 0; i < count_; i += n) function(i);
  }

  /// Calls function(node) for all of them.
  template <class Function>
  HEED_INLINE void each_node(Function&& function) const {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < nodes_.nodes; ++i) {
      const auto edges = static_cast<std::size_t>(nodes_.offsets[i + 1] - nodes_.offsets[i]);
      const std::size_t end = begin + edges * G;
      function(Node{i, begin, end});
      begin = end;
    }
  }

  /// probs = exp2 of scores times `scale` relative to `row_max`, which is found. Whatever is not
  /// finite makes `special` no 0.
  HEED_INLINE static void exponentials(const Node& node, const Real* scores, Real scale,
                                       Real* probs, V& row_max, V& special) {
    const V zero(Real{0});
    V top(kNoRowMax<Real>);
    node.each([&](std::size_t i) HEED_INLINE_LAMBDA {
      const V score = V::load_unaligned(scores + i) * V(scale);
      special = multiply_add(score, zero, special);
      const V counted = xsimd::select(node.within(i), score, V(kNoRowMax<Real>));
      counted.store_unaligned(probs + i);
      top = xsimd::max(top, counted);
    });
    row_max = fold_lanes<G>(top, [](V a, V b) HEED_INLINE_LAMBDA { return xsimd::max(a, b); });
    node.each([&](std::size_t i) HEED_INLINE_LAMBDA {
      exp2_of(V::load_unaligned(probs + i) - row_max).store_unaligned(probs + i);
    });
  }

  HEED_INLINE static V sum(V x) {
    return fold_lanes<G>(x, [](V a, V b) HEED_INLINE_LAMBDA { return a + b; });
  }

  /// Numbers [G] of nodes, `stride` apart, one after the other as edges lead to them, prefetched as
  /// rows are; 0 in lanes past the last.
  HEED_INLINE void gather(const Real* from, const std::int32_t* nodes, std::ptrdiff_t stride,
                          std::size_t ahead, Real* to) const {
    V(Real{0}).store_unaligned(to + count_);
    for (std::size_t e = 0; e < nodes_.edges; ++e) {
      __builtin_memcpy(to + e * G, from + nodes[e] * stride, G * sizeof(Real));
      if (ahead > 0) __builtin_prefetch(from + nodes[e + ahead] * stride);
    }
  }

  /// The other way round, to rows `stride` apart, `count` of them.
  HEED_INLINE static void scatter(const Real* from, std::size_t count, std::size_t stride,
                                  Real* to) {
    for (std::size_t e = 0; e < count; ++e)
      __builtin_memcpy(to + e * stride, from + e * G, G * sizeof(Real));
  }

  /// G numbers, again and again.
  HEED_INLINE static V read(const Real* from) {
    alignas(kAlignment) Real lanes[n];
    for (std::size_t i = 0; i < n; ++i) lanes[i] = from[i % G];
    return load<V>(lanes);
  }

  /// [nodes][G]: the first G lanes of x are the node's, and the next node's are written later.
  HEED_INLINE static void write(const Node& node, V x, Real* to) {
    x.store_unaligned(to + node.index * G);
  }

 private:
  /// act() of the sums of numbers, for the heads from h on.
  [[gnu::noinline]] void add_up(std::size_t h, Real* scores, Real* slopes) const {
    alignas(kAlignment) Real own[kNumbers];
    const EdgeRows& keys = nodes_.keys;
    gather(static_cast<const Real*>(keys.data) + h, keys.source,
           keys.stride / static_cast<std::ptrdiff_t>(sizeof(Real)), keys.ahead, scores);
    gather(nodes_.query.first + h, nodes_.own, nodes_.query.stride, 0, own);
    each([&](std::size_t i) HEED_INLINE_LAMBDA {
      activate_row<V>(own + i, scores + i, 0, n, *nodes_.act, scores + i, slopes + i);
    });
    V(Real{0}).store_unaligned(scores + count_);
  }

  /// sums[h] (+)= factor times the sum of gradients times slopes; of nothing, beside a factor that
  /// is infinite, nothing.
  [[gnu::noinline]] void add_numbers(const Real* gradients, const Real* slopes, Real factor,
                                     NodeRows<Real> sums, bool fresh) const {
    each_node([&](const Node& node) HEED_INLINE_LAMBDA {
      V all(Real{0});
      node.each([&](std::size_t i) HEED_INLINE_LAMBDA {
        const V part = V::load_unaligned(gradients + i) * V::load_unaligned(slopes + i);
        all = all + xsimd::select(node.within(i), part, V(Real{0}));
      });
      all = HeadGroup::sum(all);
      alignas(kAlignment) Real of_heads[n];
      store<V>(of_heads, xsimd::select(all == V(Real{0}), all, all * V(factor)));
      for (std::size_t g = 0; g < G; ++g)
        sums.first[g] = fresh ? of_heads[g] : sums.first[g] + of_heads[g];
      sums.first += sums.stride;
    });
  }

  const NodeEdges<Real>& nodes_;
  std::size_t count_;
};

/// Calls function(group, h) for groups of heads; all must return true.
template <class P, class Function>
HEED_INLINE bool each_group(const NodeEdges<RealOf<P>>& nodes, Function&& function) {
  constexpr std::size_t n = kLanes<EdgeVector<P>>;
  HEED_CONTRACT(nodes.holds_for(RowKernels<RealOf<P>>::feature_padding));
  bool good = true;
  const auto take = [&](auto some, std::size_t h) HEED_INLINE_LAMBDA {
    good = good && function(HeadGroup<P, some>(nodes), h);
  };
  if constexpr (n > 4) {
    in_sizes<n, 4, 1>(nodes.heads, take);
  } else {
    in_sizes<n, 1>(nodes.heads, take);
  }
  return good;
}

template <class P, class Real = RealOf<P>>
bool attend_nodes(const NodeEdges<Real>& nodes, Real* row_max, Real* row_sum,
                  const NodeRows<Real>& out, Real* weights) {
  return each_group<P>(nodes, [&](auto group, std::size_t h) HEED_INLINE_LAMBDA {
    using Group = decltype(group);
    using V = typename Group::V;
    alignas(kAlignment) Real scores[Group::kNumbers];
    alignas(kAlignment) Real probs[Group::kNumbers];
    alignas(kAlignment) Real tops[Group::kNumbers];
    alignas(kAlignment) Real sums[Group::kNumbers];
    group.score(h, scores, probs);
    const V zero(Real{0});
    V special = zero;
    group.each_node([&](const auto& node) HEED_INLINE_LAMBDA {
      V top, sum = zero;
      Group::exponentials(node, scores, nodes.scale, probs, top, special);
      node.each([&](std::size_t i)
                    HEED_INLINE_LAMBDA { sum = sum + V::load_unaligned(probs + i); });
      sum = Group::sum(sum);
      const V inverse = divide(V(Real{1}), sum);
      node.each([&](std::size_t i) HEED_INLINE_LAMBDA {
        (V::load_unaligned(probs + i) * inverse).store_unaligned(probs + i);
      });
      Group::write(node, top, tops);
      Group::write(node, sum, sums);
    });
    if (!xsimd::all(special == zero)) return false;
    group.add(nodes.values, h, probs, nodes.value_features, out, true);
    if (weights != nullptr) Group::scatter(probs, nodes.edges, nodes.heads, weights + h);
    if (row_max == nullptr) return true;
    Group::scatter(tops, nodes.nodes, nodes.heads, row_max + h);
    Group::scatter(sums, nodes.nodes, nodes.heads, row_sum + h);
    return true;
  });
}

template <class P, class Real = RealOf<P>>
bool node_gradients(const NodeEdges<Real>& nodes, Real factor, const Real* grad_lse, Real* stats,
                    const NodeRows<Real>& grad_query, Real* grad_weights) {
  return each_group<P>(nodes, [&](auto group, std::size_t h) HEED_INLINE_LAMBDA {
    using Group = decltype(group);
    using V = typename Group::V;
    alignas(kAlignment) Real scores[Group::kNumbers];
    alignas(kAlignment) Real probs[Group::kNumbers];
    alignas(kAlignment) Real products[Group::kNumbers];
    alignas(kAlignment) Real gradients[Group::kNumbers];
    alignas(kAlignment) Real slopes[Group::kNumbers];
    alignas(kAlignment) Real lse[Group::kNumbers];
    alignas(kAlignment) Real sums[Group::kNumbers];
    alignas(kAlignment) Real delta[Group::kNumbers];
    group.score(h, scores, slopes);
    group.multiply(nodes.values, h, nodes.grad, nodes.value_features, products);
    const Real after = nodes.act == nullptr ? Real{1} : factor;
    const V before(nodes.act == nullptr ? factor : Real{1});
    const V zero(Real{0}), one(Real{1});
    V special = zero;
    group.each_node([&](const auto& node) HEED_INLINE_LAMBDA {
      V top, sum = zero, weighted = zero;
      Group::exponentials(node, scores, nodes.scale, probs, top, special);
      node.each([&](std::size_t i) HEED_INLINE_LAMBDA {
        const V prob = V::load_unaligned(probs + i);
        const V product = V::load_unaligned(products + i);
        special = multiply_add(product, zero, special);
        sum = sum + prob;
        weighted = multiply_add(prob, product, weighted);
      });
      sum = Group::sum(sum);
      // A node without edges.
      const auto none = sum == zero;
      sum = xsimd::select(none, one, sum);
      top = xsimd::select(none, zero, top);
      const V inverse = divide(one, sum);
      V less = Group::sum(weighted) * inverse;
      if (grad_lse != nullptr) less = less - Group::read(grad_lse + node.index * nodes.heads + h);
      const V scaled = inverse * before;
      node.each([&](std::size_t i) HEED_INLINE_LAMBDA {
        const V rest = V::load_unaligned(products + i) - less;
        (V::load_unaligned(probs + i) * scaled * rest).store_unaligned(gradients + i);
      });
      Group::write(node, top, lse);
      Group::write(node, sum, sums);
      Group::write(node, less, delta);
    });
    if (!xsimd::all(special == zero)) return false;
    bool far = false;
    for (std::size_t i = 0; i < nodes.nodes * Group::kHeads; i += Group::n) {
      const V log_sum = load<V>(lse + i) + log2_of_sum(load<V>(sums + i));
      far = far || has_lost_digits(log_sum);
      store<V>(lse + i, log_sum);
    }
    if (far) return false;
    Group::scatter(lse, nodes.nodes, 2 * nodes.heads, stats + h);
    Group::scatter(delta, nodes.nodes, 2 * nodes.heads, stats + nodes.heads + h);
    group.add_gradients(h, gradients, slopes, after, grad_query, true);
    if (grad_weights != nullptr)
      group.add(nodes.keys, h, gradients, nodes.features, {grad_weights, 0}, false);
    return true;
  });
}

template <class P, class Real = RealOf<P>>
bool source_gradients(const NodeEdges<Real>& nodes, Real factor, const Real* stats,
                      const std::int32_t* destinations, bool fresh, const NodeRows<Real>& grad_key,
                      const NodeRows<Real>& grad_value) {
  return each_group<P>(nodes, [&](auto group, std::size_t h) HEED_INLINE_LAMBDA {
    using Group = decltype(group);
    using V = typename Group::V;
    alignas(kAlignment) Real probs[Group::kNumbers];
    alignas(kAlignment) Real gradients[Group::kNumbers];
    alignas(kAlignment) Real slopes[Group::kNumbers];
    alignas(kAlignment) Real lse[Group::kNumbers];
    alignas(kAlignment) Real delta[Group::kNumbers];
    const auto stride = static_cast<std::ptrdiff_t>(2 * nodes.heads);
    group.gather(stats + h, destinations, stride, nodes.values.ahead, lse);
    group.gather(stats + nodes.heads + h, destinations, stride, nodes.values.ahead, delta);
    group.score(h, probs, slopes);
    group.multiply(nodes.values, h, nodes.grad, nodes.value_features, gradients);
    const Real after = nodes.act == nullptr ? Real{1} : factor;
    const V before(nodes.act == nullptr ? factor : Real{1});
    const V zero(Real{0});
    V special = zero;
    bool far = false;
    group.each([&](std::size_t i) HEED_INLINE_LAMBDA {
      far = far || has_lost_digits(load<V>(lse + i));
      // Rounded as node_gradients() rounds it: lse is made of that.
      const V exponent = load<V>(probs + i) * V(nodes.scale) - load<V>(lse + i);
      const V rest = load<V>(gradients + i) - load<V>(delta + i);
      special = multiply_add(exponent, zero, multiply_add(rest, zero, special));
      const V prob = exp2_of(exponent);
      store<V>(probs + i, prob);
      store<V>(gradients + i, prob * before * rest);
    });
    if (far || !xsimd::all(special == zero)) return false;
    group.add_gradients(h, gradients, slopes, after, grad_key, fresh);
    group.add(nodes.values.again(), h, probs, nodes.value_features, grad_value, fresh);
    return true;
  });
}

}  // namespace
}  // namespace heed
