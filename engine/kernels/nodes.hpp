// Attention and its gradients for nodes of a graph with few edges: all of one node in one call.
// The general way has steps between the products whose lanes few heads leave empty; there they cost
// more than the products.
//
// Heads are taken in groups of G, which divides the lanes, and the numbers of edges and heads lie
// without gaps. Two heads in a vector of eight lanes:
//
//   scores   e0h0 e0h1  e1h0 e1h1  e2h0 e2h1  e3h0 e3h1
//
// So a maximum or sum over edges is one over vectors, then one over lanes that are equal modulo G.
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
  static constexpr std::size_t kNumbers = kNodeEdges * G < n ? n : kNodeEdges * G;

  HEED_INLINE explicit HeadGroup(std::size_t edges) : edges_(edges), count_(edges * G) {}

  /// <row, own> of all edges, for the heads from h on; 0 in lanes past the last.
  [[gnu::noinline]] void multiply(const EdgeRows& rows, std::size_t h, const Real* own,
                                  std::size_t features, Real* to) const {
    if (count_ % n != 0) store<V>(to + count_ / n * n, V(Real{0}));
    edge_scores_in<P>(rows.from_head(static_cast<std::int64_t>(h)), edges_, own + h * features, G,
                      features, true, to, G, kNumbers / G);
  }

  /// sums (+)= weights times rows.
  [[gnu::noinline]] void add(const EdgeRows& rows, std::size_t h, const Real* weights,
                             std::size_t features, Real* sums, bool fresh) const {
    edge_values<P>(rows.from_head(static_cast<std::int64_t>(h)), edges_, weights, G, G, features,
                   sums + h * features, fresh);
  }

  /// Calls function(i) for the places of all vectors.
  template <class Function>
  HEED_INLINE void each(Function&& function) const {
    for (std::size_t i = 0; i < count_; i += n) function(i);
  }

  /// Where lanes of the vector at i have an edge.
  HEED_INLINE auto within(std::size_t i) const {
    alignas(kAlignment) static constexpr Real kLane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    static_assert(n <= 8);
    return load<V>(kLane) < V(static_cast<Real>(count_ - i));
  }

  /// Scores times `scale` become exp2 of them relative to `row_max`, which is found. False unless
  /// all are finite.
  HEED_INLINE bool exponentials(Real* scores, Real scale, V& row_max) const {
    const V zero(Real{0});
    V special = zero;
    V top(kNoRowMax<Real>);
    each([&](std::size_t i) HEED_INLINE_LAMBDA {
      const V score = load<V>(scores + i) * V(scale);
      special = multiply_add(score, zero, special);
      const V counted = xsimd::select(within(i), score, V(kNoRowMax<Real>));
      store<V>(scores + i, counted);
      top = xsimd::max(top, counted);
    });
    row_max = fold_lanes<G>(top, [](V a, V b) HEED_INLINE_LAMBDA { return xsimd::max(a, b); });
    each([&](std::size_t i)
             HEED_INLINE_LAMBDA { store<V>(scores + i, exp2_of(load<V>(scores + i) - row_max)); });
    return xsimd::all(special == zero);
  }

  HEED_INLINE static V sum(V x) {
    return fold_lanes<G>(x, [](V a, V b) HEED_INLINE_LAMBDA { return a + b; });
  }

  /// Numbers [G] of nodes, `stride` apart, one after the other as edges lead to them; 0 in lanes
  /// past the last.
  HEED_INLINE void gather(const Real* from, const std::int32_t* nodes, std::size_t stride,
                          Real* to) const {
    if (count_ % n != 0) store<V>(to + count_ / n * n, V(Real{0}));
    for (std::size_t e = 0; e < edges_; ++e)
      __builtin_memcpy(to + e * G, from + static_cast<std::size_t>(nodes[e]) * stride,
                       G * sizeof(Real));
  }

  /// The other way round, to rows `stride` apart, one for each edge.
  HEED_INLINE void scatter(const Real* from, std::size_t stride, Real* to) const {
    for (std::size_t e = 0; e < edges_; ++e)
      __builtin_memcpy(to + e * stride, from + e * G, G * sizeof(Real));
  }

  /// G numbers, again and again.
  HEED_INLINE static V read(const Real* from) {
    alignas(kAlignment) Real lanes[n];
    for (std::size_t i = 0; i < n; ++i) lanes[i] = from[i % G];
    return load<V>(lanes);
  }

  /// The first G lanes of x.
  HEED_INLINE static void write(V x, Real* to) {
    if constexpr (G == n) {
      x.store_unaligned(to);
    } else {
      alignas(kAlignment) Real lanes[n];
      store<V>(lanes, x);
      __builtin_memcpy(to, lanes, G * sizeof(Real));
    }
  }

 private:
  std::size_t edges_, count_;
};

/// Calls function(group, h) for groups of heads; all must return true.
template <class P, class Function>
HEED_INLINE bool each_group(const NodeEdges<RealOf<P>>& node, Function&& function) {
  constexpr std::size_t n = kLanes<EdgeVector<P>>;
  HEED_CONTRACT(node.holds_for(RowKernels<RealOf<P>>::feature_padding));
  bool good = true;
  const auto take = [&](auto some, std::size_t h) HEED_INLINE_LAMBDA {
    good = good && function(HeadGroup<P, some>(node.edges), h);
  };
  if constexpr (n > 4) {
    in_sizes<n, 4, 1>(node.heads, take);
  } else {
    in_sizes<n, 1>(node.heads, take);
  }
  return good;
}

template <class P, class Real = RealOf<P>>
bool attend_node(const NodeEdges<Real>& node, Real* row_max, Real* row_sum, Real* out,
                 Real* weights) {
  return each_group<P>(node, [&](auto group, std::size_t h) HEED_INLINE_LAMBDA {
    using Group = decltype(group);
    using V = typename Group::V;
    alignas(kAlignment) Real probs[Group::kNumbers];
    group.multiply(node.keys, h, node.query, node.features, probs);
    V top;
    if (!group.exponentials(probs, node.scale, top)) return false;
    V sum(Real{0});
    group.each([&](std::size_t i) HEED_INLINE_LAMBDA { sum = sum + load<V>(probs + i); });
    sum = group.sum(sum);
    const V inverse = divide(V(Real{1}), sum);
    group.each([&](std::size_t i)
                   HEED_INLINE_LAMBDA { store<V>(probs + i, load<V>(probs + i) * inverse); });
    group.add(node.values, h, probs, node.value_features, out, true);
    if (weights != nullptr) group.scatter(probs, node.heads, weights + h);
    Group::write(top, row_max + h);
    Group::write(sum, row_sum + h);
    return true;
  });
}

template <class P, class Real = RealOf<P>>
bool node_gradient(const NodeEdges<Real>& node, Real factor, const Real* grad_lse, Real* lse,
                   Real* delta, Real* grad_query, Real* grad_weights) {
  return each_group<P>(node, [&](auto group, std::size_t h) HEED_INLINE_LAMBDA {
    using Group = decltype(group);
    using V = typename Group::V;
    alignas(kAlignment) Real probs[Group::kNumbers];
    alignas(kAlignment) Real gradients[Group::kNumbers];
    group.multiply(node.keys, h, node.query, node.features, probs);
    group.multiply(node.values, h, node.grad, node.value_features, gradients);
    V top;
    if (!group.exponentials(probs, node.scale, top)) return false;
    const V zero(Real{0});
    V special = zero, sum = zero, weighted = zero;
    group.each([&](std::size_t i) HEED_INLINE_LAMBDA {
      const V prob = load<V>(probs + i);
      const V gradient = load<V>(gradients + i);
      special = multiply_add(gradient, zero, special);
      sum = sum + prob;
      weighted = multiply_add(prob, gradient, weighted);
    });
    if (!xsimd::all(special == zero)) return false;
    sum = group.sum(sum);
    const V inverse = divide(V(Real{1}), sum);
    V less = group.sum(weighted) * inverse;
    if (grad_lse != nullptr) less = less - group.read(grad_lse + h);
    const V scaled = inverse * V(factor);
    group.each([&](std::size_t i) HEED_INLINE_LAMBDA {
      store<V>(gradients + i, load<V>(probs + i) * scaled * (load<V>(gradients + i) - less));
    });
    const V log_sum = top + log2_of_sum(sum);
    if (has_lost_digits(log_sum)) return false;
    Group::write(log_sum, lse + h);
    Group::write(less, delta + h);
    group.add(node.slopes, h, gradients, node.features, grad_query, true);
    if (grad_weights != nullptr)
      group.add(node.keys, h, gradients, node.features, grad_weights, true);
    return true;
  });
}

template <class P, class Real = RealOf<P>>
bool source_gradient(const NodeEdges<Real>& node, Real factor, const Real* stats,
                     const std::int32_t* destinations, bool fresh, Real* grad_key,
                     Real* grad_value) {
  return each_group<P>(node, [&](auto group, std::size_t h) HEED_INLINE_LAMBDA {
    using Group = decltype(group);
    using V = typename Group::V;
    alignas(kAlignment) Real probs[Group::kNumbers];
    alignas(kAlignment) Real gradients[Group::kNumbers];
    alignas(kAlignment) Real lse[Group::kNumbers];
    alignas(kAlignment) Real delta[Group::kNumbers];
    group.gather(stats + h, destinations, 2 * node.heads, lse);
    group.gather(stats + node.heads + h, destinations, 2 * node.heads, delta);
    group.multiply(node.keys, h, node.query, node.features, probs);
    group.multiply(node.values, h, node.grad, node.value_features, gradients);
    const V zero(Real{0});
    V special = zero;
    bool far = false;
    group.each([&](std::size_t i) HEED_INLINE_LAMBDA {
      far = far || has_lost_digits(load<V>(lse + i));
      // Rounded as node_gradient() rounds it: lse is made of that.
      const V exponent = load<V>(probs + i) * V(node.scale) - load<V>(lse + i);
      const V rest = load<V>(gradients + i) - load<V>(delta + i);
      special = multiply_add(exponent, zero, multiply_add(rest, zero, special));
      const V prob = exp2_of(exponent);
      store<V>(probs + i, prob);
      store<V>(gradients + i, prob * V(factor) * rest);
    });
    if (far || !xsimd::all(special == zero)) return false;
    group.add(node.slopes, h, gradients, node.features, grad_key, fresh);
    group.add(node.values, h, probs, node.value_features, grad_value, fresh);
    return true;
  });
}

}  // namespace
}  // namespace heed
