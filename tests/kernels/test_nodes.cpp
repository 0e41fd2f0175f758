// Kernels of nodes: the softmax of a node along its edges, and its gradients from both ends, beside
// the same in double.
#include "tests/kernels/support.hpp"
#include "tests/oracle/bounded.hpp"

using namespace heed_test;

namespace {

struct NodeCase {
  std::size_t heads, features, value_features, edges;
  std::uint64_t seed;

  void fit(std::size_t /*lanes*/) {}
  std::string line() const {
    std::ostringstream text;
    text << "heads " << heads << " features " << features << " value features " << value_features
         << " edges " << edges;
    return text.str();
  }
};

/// Groups of eight, four and one head, and what is left of them; every vector that divides
/// features; edges that fill vectors or not.
std::vector<NodeCase> node_sizes() {
  std::vector<NodeCase> cases;
  std::size_t index = 0;
  for (const std::size_t heads : {1U, 2U, 3U, 4U, 5U, 8U, 13U, 16U})
    for (const std::size_t features : {4U, 8U, 12U, 16U, 32U, 64U, 80U})
      for (const std::size_t values : {4U, 8U, 16U, 20U, 128U})
        for (const std::size_t edges : {1U, 2U, 3U, 7U, 8U, 9U, 23U, 31U, 32U})
          if (keep(index++)) cases.push_back({heads, features, values, edges, index});
  return cases;
}

/// A number and how far what is computed may be from it; sums of such, and products.
using Number = Bounded<double>;
using Numbers = BoundedSum<float>;

Number times(const Number& a, const Number& b) { return product<float>(a, b); }

constexpr std::size_t kNodes = 11;

/// A node, the rows around it, and what is to come of them.
struct Node {
  Node(const NodeCase& whole, Random& random)
      : c(whole),
        keys(normals<float>(kNodes * c.heads * c.features, random)),
        slopes(normals<float>(kNodes * c.heads * c.features, random)),
        values(normals<float>(kNodes * c.heads * c.value_features, random)),
        query(normals<float>(c.heads * c.features, random)),
        grad(normals<float>(c.heads * c.value_features, random)),
        stats(normals<float>(kNodes * 2 * c.heads, random)) {
    for (std::size_t e = 0; e < c.edges; ++e)
      others.push_back(static_cast<std::int32_t>(random.integer(0, kNodes - 1)));
  }

  heed::NodeEdges<float> view() const {
    const auto rows = [&](const BasicBuffer<float>& data, std::size_t features) {
      const auto bytes = static_cast<std::ptrdiff_t>(features * sizeof(float));
      return heed::EdgeRows{heed::ElementType::kF32, data.data(), others.data(),
                            static_cast<std::ptrdiff_t>(c.heads) * bytes, bytes};
    };
    return {rows(keys, c.features),
            rows(values, c.value_features),
            rows(slopes, c.features),
            c.edges,
            c.heads,
            c.features,
            c.value_features,
            query.data(),
            grad.data(),
            kScale};
  }

  std::size_t other(std::size_t e) const { return static_cast<std::size_t>(others[e]); }
  double key(std::size_t e, std::size_t h, std::size_t x) const {
    return keys[(other(e) * c.heads + h) * c.features + x];
  }
  double slope(std::size_t e, std::size_t h, std::size_t x) const {
    return slopes[(other(e) * c.heads + h) * c.features + x];
  }
  double value(std::size_t e, std::size_t h, std::size_t x) const {
    return values[(other(e) * c.heads + h) * c.value_features + x];
  }
  double lse(std::size_t e, std::size_t h) const { return stats[other(e) * 2 * c.heads + h]; }
  double delta(std::size_t e, std::size_t h) const {
    return stats[(other(e) * 2 + 1) * c.heads + h];
  }

  /// Scaled, in log2 units; queries may be scaled first.
  Number score(std::size_t e, std::size_t h) const {
    Numbers sum;
    for (std::size_t x = 0; x < c.features; ++x)
      sum.add(times({key(e, h, x), 0}, {query[h * c.features + x], 0}));
    return times(sum.result(1), {kScale, 0});
  }
  /// <grad, value>
  Number product_of(std::size_t e, std::size_t h) const {
    Numbers sum;
    for (std::size_t x = 0; x < c.value_features; ++x)
      sum.add(times({value(e, h, x), 0}, {grad[h * c.value_features + x], 0}));
    return sum.result(1);
  }
  /// Of one feature of values.
  Number weighted(const std::vector<Number>& probs, std::size_t h, std::size_t x) const {
    Numbers sum;
    for (std::size_t e = 0; e < c.edges; ++e) sum.add(times(probs[e], {value(e, h, x), 0}));
    return sum.result();
  }

  static double gamma(double n) { return gamma_of<float>(n); }

  static constexpr float kScale = 0.375F;
  NodeCase c;
  BasicBuffer<float> keys, slopes, values, query, grad, stats;
  std::vector<std::int32_t> others;
};

/// 2^x, where x is known so well: exp2 is off by an ULP, and its argument by a rounding.
Number power(const Number& x) {
  const double value = std::exp2(x.value);
  const double moved = x.bound + Node::gamma(1) * std::fabs(x.value);
  return {value, value * (std::expm1(kLn2 * moved) + Node::gamma(4))};
}

/// The softmax of one head.
struct Softmax {
  Softmax(const Node& node, std::size_t h) {
    std::vector<Number> scores;
    for (std::size_t e = 0; e < node.c.edges; ++e) scores.push_back(node.score(e, h));
    for (const Number& s : scores) {
      if (s.value > top.value) top.value = s.value;
      top.bound = std::max(top.bound, s.bound);
    }
    Numbers all;
    for (const Number& s : scores) {
      probs.push_back(power({s.value - top.value, s.bound + top.bound}));
      all.add(probs.back());
    }
    sum = all.result(1);
    const double relative = sum.bound / sum.value;
    for (Number& p : probs) {
      p.value /= sum.value;
      p.bound = p.bound / sum.value + p.value * (relative + Node::gamma(4));
    }
    const double log = std::log2(sum.value);
    lse = {top.value + log, top.bound + 1.5 * relative + Node::gamma(4) * (1 + std::fabs(log)) +
                                Node::gamma(2) * std::fabs(top.value + log)};
  }
  Number top{-1e300, 0}, sum, lse;
  std::vector<Number> probs;
};

double ratio_of(float got, const Number& want) {
  return std::fabs(double{got} - want.value) / (want.bound + 1e-30);
}

/// For kernels of float on instruction sets that have them.
template <class Function>
void for_each_node(Function&& function) {
  for_each_case<float>(node_sizes(), [&](const auto& kernels, const NodeCase& c, Random& random) {
    if (kernels.nodes == nullptr) return 0.0;
    return function(*kernels.nodes, Node(c, random));
  });
}

/// One head of gradients: the sum over edges of prob (product - delta) row, of slopes or keys.
Number gradient_of(const Node& node, std::size_t h, std::size_t x, double factor,
                   const std::vector<Number>& probs, const std::vector<Number>& deltas,
                   bool of_keys = false) {
  Numbers all;
  for (std::size_t e = 0; e < node.c.edges; ++e) {
    const Number rest = sum<float>(node.product_of(e, h), {-deltas[e].value, deltas[e].bound});
    const double row = of_keys ? node.key(e, h, x) : node.slope(e, h, x);
    all.add(times(times(probs[e], rest), times({row, 0}, {factor, 0})));
  }
  return all.result(2);
}

}  // namespace

TEST_CASE("attend_node is softmax along edges, and the weighted sum of values", "[nodes]") {
  for_each_node([](const heed::NodeKernels<float>& kernels, const Node& node) {
    const NodeCase& c = node.c;
    BasicBuffer<float> top(c.heads), sum(c.heads), out(c.heads * c.value_features);
    BasicBuffer<float> weights(c.edges * c.heads), plain(out.size());
    CHECK(kernels.attend_node(node.view(), top.data(), sum.data(), out.data(), weights.data()));
    CHECK(kernels.attend_node(node.view(), top.data(), sum.data(), plain.data(), nullptr));
    CHECK(same_bits(out, plain));
    double worst = 0;
    for (std::size_t h = 0; h < c.heads; ++h) {
      const Softmax want(node, h);
      worst = std::max({worst, ratio_of(top[h], want.top), ratio_of(sum[h], want.sum)});
      for (std::size_t e = 0; e < c.edges; ++e)
        worst = std::max(worst, ratio_of(weights[e * c.heads + h], want.probs[e]));
      for (std::size_t x = 0; x < c.value_features; ++x)
        worst = std::max(worst,
                         ratio_of(out[h * c.value_features + x], node.weighted(want.probs, h, x)));
    }
    CHECK((top.intact() && sum.intact() && out.intact() && weights.intact()));
    return worst;
  });
}

TEST_CASE("node_gradient is the gradient of query and weights, with lse and delta", "[nodes]") {
  for_each_node([](const heed::NodeKernels<float>& kernels, const Node& node) {
    const NodeCase& c = node.c;
    constexpr float kFactor = 0.25F;
    BasicBuffer<float> lse(c.heads), delta(c.heads), gradient(c.heads * c.features);
    BasicBuffer<float> weights(gradient.size()), alone(gradient.size());
    double worst = 0;
    for (const float* const grad_lse : {static_cast<const float*>(nullptr), node.stats.data()}) {
      CHECK(kernels.node_gradient(node.view(), kFactor, grad_lse, lse.data(), delta.data(),
                                  alone.data(), nullptr));
      CHECK(kernels.node_gradient(node.view(), kFactor, grad_lse, lse.data(), delta.data(),
                                  gradient.data(), weights.data()));
      CHECK(same_bits(gradient, alone));
      for (std::size_t h = 0; h < c.heads; ++h) {
        const Softmax want(node, h);
        Numbers products;
        for (std::size_t e = 0; e < c.edges; ++e)
          products.add(times(want.probs[e], node.product_of(e, h)));
        const double of_lse = grad_lse != nullptr ? double{grad_lse[h]} : 0;
        const Number less = sum<float>(products.result(4), {-of_lse, 0});
        worst = std::max({worst, ratio_of(lse[h], want.lse), ratio_of(delta[h], less)});
        const std::vector<Number> deltas(c.edges, less);
        for (std::size_t x = 0; x < c.features; ++x)
          for (const bool of_keys : {false, true})
            worst = std::max(
                worst, ratio_of((of_keys ? weights : gradient)[h * c.features + x],
                                gradient_of(node, h, x, kFactor, want.probs, deltas, of_keys)));
      }
    }
    CHECK((lse.intact() && delta.intact() && gradient.intact() && weights.intact()));
    return worst;
  });
}

TEST_CASE("source_gradient is that of a key and value, added to what is there or not", "[nodes]") {
  for_each_node([](const heed::NodeKernels<float>& kernels, const Node& node) {
    const NodeCase& c = node.c;
    constexpr float kFactor = 0.25F;
    BasicBuffer<float> key(c.heads * c.features), value(c.heads * c.value_features);
    CHECK(kernels.source_gradient(node.view(), kFactor, node.stats.data(), node.others.data(), true,
                                  key.data(), value.data()));
    double worst = 0;
    for (std::size_t h = 0; h < c.heads; ++h) {
      std::vector<Number> probs, deltas;
      for (std::size_t e = 0; e < c.edges; ++e) {
        const Number score = node.score(e, h);
        probs.push_back(power({score.value - node.lse(e, h), score.bound}));
        deltas.push_back({node.delta(e, h), 0});
      }
      for (std::size_t x = 0; x < c.features; ++x)
        worst = std::max(worst, ratio_of(key[h * c.features + x],
                                         gradient_of(node, h, x, kFactor, probs, deltas)));
      for (std::size_t x = 0; x < c.value_features; ++x)
        worst =
            std::max(worst, ratio_of(value[h * c.value_features + x], node.weighted(probs, h, x)));
    }
    const BasicBuffer<float> once_key = key, once_value = value;
    CHECK(kernels.source_gradient(node.view(), kFactor, node.stats.data(), node.others.data(),
                                  false, key.data(), value.data()));
    CHECK(all(key.size(), [&](std::size_t i) { return key[i] == 2 * once_key[i]; }));
    CHECK(all(value.size(), [&](std::size_t i) { return value[i] == 2 * once_value[i]; }));
    CHECK((key.intact() && value.intact()));
    return worst;
  });
}

TEST_CASE("kernels of nodes say what is not finite", "[nodes]") {
  for (const float special : {kInf<float>, -kInf<float>, not_a_number<float>()})
    for_each_node([&](const heed::NodeKernels<float>& kernels, const Node& finite) {
      const NodeCase& c = finite.c;
      BasicBuffer<float> a(c.heads), b(c.heads), key(c.heads * c.features);
      BasicBuffer<float> value(c.heads * c.value_features);
      const auto attends = [&](const Node& node) {
        return kernels.attend_node(node.view(), a.data(), b.data(), value.data(), nullptr);
      };
      const auto has_gradient = [&](const Node& node) {
        return kernels.node_gradient(node.view(), 1, nullptr, a.data(), b.data(), key.data(),
                                     nullptr);
      };
      const auto is_source = [&](const Node& node) {
        return kernels.source_gradient(node.view(), 1, node.stats.data(), node.others.data(), true,
                                       key.data(), value.data());
      };
      Node of_query = finite, of_grad = finite, of_lse = finite, of_delta = finite;
      of_query.query[c.features * c.heads - 1] = special;
      of_grad.grad[0] = special;
      const std::size_t last = finite.other(c.edges - 1) * 2 * c.heads;
      of_lse.stats[last] = special;
      of_delta.stats[last + 2 * c.heads - 1] = special;
      CHECK((attends(finite) && has_gradient(finite) && is_source(finite)));
      CHECK((!attends(of_query) && !has_gradient(of_query) && !is_source(of_query)));
      CHECK((attends(of_grad) && !has_gradient(of_grad) && !is_source(of_grad)));
      CHECK((!is_source(of_lse) && !is_source(of_delta)));
      return 0.0;
    });
}
