// Kernels of nodes: the softmax of a node along its edges, and its gradients from both ends, beside
// the same in double.
#include "tests/kernels/support.hpp"

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

/// A number and how far what is computed may be from it.
struct Bounded {
  double value = 0, error = 0;
};

constexpr std::size_t kNodes = 11;

/// A node, the rows around it, and what is to come of them.
struct Node {
  Node(const NodeCase& whole, Random& random)
      : c(whole),
        keys(normals<float>(kNodes * c.heads * c.features, random)),
        values(normals<float>(kNodes * c.heads * c.value_features, random)),
        query(normals<float>(c.heads * c.features, random)),
        grad(normals<float>(c.heads * c.value_features, random)),
        stats(normals<float>(kNodes * 2 * c.heads, random)) {
    for (std::size_t e = 0; e < c.edges; ++e)
      others.push_back(static_cast<std::int32_t>(random.integer(0, kNodes - 1)));
  }

  heed::NodeEdges<float> view() const {
    const auto rows = [&](const BasicBuffer<float>& data, std::size_t features) {
      return heed::EdgeRows<float>{data.data(), others.data(),
                                   static_cast<std::ptrdiff_t>(c.heads * features),
                                   static_cast<std::ptrdiff_t>(features)};
    };
    return {rows(keys, c.features),
            rows(values, c.value_features),
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
  double value(std::size_t e, std::size_t h, std::size_t x) const {
    return values[(other(e) * c.heads + h) * c.value_features + x];
  }
  double lse(std::size_t e, std::size_t h) const { return stats[other(e) * 2 * c.heads + h]; }
  double delta(std::size_t e, std::size_t h) const {
    return stats[(other(e) * 2 + 1) * c.heads + h];
  }

  /// Scaled, in log2 units.
  Bounded score(std::size_t e, std::size_t h) const {
    Bounded sum;
    for (std::size_t x = 0; x < c.features; ++x) add(sum, key(e, h, x), query[h * c.features + x]);
    return {sum.value * kScale, kScale * gamma(c.features + 2) * sum.error};
  }
  /// <grad, value>
  Bounded product(std::size_t e, std::size_t h) const {
    Bounded sum;
    for (std::size_t x = 0; x < c.value_features; ++x)
      add(sum, value(e, h, x), grad[h * c.value_features + x]);
    return {sum.value, gamma(c.value_features + 1) * sum.error};
  }

  static double gamma(std::size_t n) { return gamma_of<float>(static_cast<double>(n)); }
  static void add(Bounded& sum, double a, double b) {
    sum.value += a * b;
    sum.error += std::fabs(a * b);  // magnitudes, until they are multiplied
  }

  static constexpr float kScale = 0.375F;
  NodeCase c;
  BasicBuffer<float> keys, values, query, grad, stats;
  std::vector<std::int32_t> others;
};

/// 2^x, where x is known so well: exp2 is off by an ULP, and its argument by a rounding.
Bounded power(const Bounded& x) {
  const double value = std::exp2(x.value);
  const double moved = x.error + Node::gamma(1) * std::fabs(x.value);
  return {value, value * (std::expm1(0.6931471805599453 * moved) + Node::gamma(4))};
}

/// The softmax of one head.
struct Softmax {
  Softmax(const Node& node, std::size_t h) : probs(node.c.edges) {
    std::vector<Bounded> scores;
    for (std::size_t e = 0; e < node.c.edges; ++e) scores.push_back(node.score(e, h));
    for (const Bounded& s : scores) {
      if (s.value > top.value) top.value = s.value;
      top.error = std::max(top.error, s.error);
    }
    for (std::size_t e = 0; e < scores.size(); ++e) {
      probs[e] = power({scores[e].value - top.value, scores[e].error + top.error});
      sum.value += probs[e].value;
      sum.error += probs[e].error;
    }
    sum.error += Node::gamma(scores.size()) * sum.value;
    const double relative = sum.error / sum.value;
    for (Bounded& p : probs) {
      p.value /= sum.value;
      p.error = p.error / sum.value + p.value * (relative + Node::gamma(4));
    }
    const double log = std::log2(sum.value);
    lse = {top.value + log, top.error + 1.5 * relative + Node::gamma(4) * (1 + std::fabs(log)) +
                                Node::gamma(2) * std::fabs(top.value + log)};
  }
  Bounded top{-1e300, 0}, sum, lse;
  std::vector<Bounded> probs;
};

double ratio_of(float got, const Bounded& want) {
  return std::fabs(double{got} - want.value) / (want.error + 1e-30);
}

/// For kernels of float on instruction sets that have them.
template <class Function>
void for_each_node(Function&& function) {
  for_each_case<float>(node_sizes(), [&](const auto& kernels, const NodeCase& c, Random& random) {
    if (kernels.nodes == nullptr) return 0.0;
    return function(*kernels.nodes, Node(c, random));
  });
}

/// One head of gradients by the query or key: the sum over edges of prob (product - delta) row.
Bounded gradient_of(const Node& node, std::size_t h, std::size_t x, double factor,
                    const std::vector<Bounded>& probs, const std::vector<Bounded>& deltas) {
  Bounded sum;
  double size = 0;
  for (std::size_t e = 0; e < node.c.edges; ++e) {
    const Bounded product = node.product(e, h);
    const double rest = product.value - deltas[e].value;
    const double rest_error = product.error + deltas[e].error + Node::gamma(1) * std::fabs(rest);
    const double term = probs[e].value * rest * node.key(e, h, x) * factor;
    sum.value += term;
    size += std::fabs(term);
    sum.error +=
        std::fabs(node.key(e, h, x) * factor) *
        (probs[e].error * std::fabs(rest) + (probs[e].value + probs[e].error) * rest_error);
  }
  sum.error += Node::gamma(node.c.edges + 4) * (size + sum.error);
  return sum;
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
      worst = std::max(
          {worst, ratio_of(top[h], {want.top.value, want.top.error}), ratio_of(sum[h], want.sum)});
      for (std::size_t e = 0; e < c.edges; ++e)
        worst = std::max(worst, ratio_of(weights[e * c.heads + h], want.probs[e]));
      for (std::size_t x = 0; x < c.value_features; ++x) {
        Bounded all;
        double size = 0;
        for (std::size_t e = 0; e < c.edges; ++e) {
          const Bounded& p = want.probs[e];
          all.value += p.value * node.value(e, h, x);
          all.error += p.error * std::fabs(node.value(e, h, x));
          size += p.value * std::fabs(node.value(e, h, x));
        }
        all.error += Node::gamma(c.edges) * (size + all.error);
        worst = std::max(worst, ratio_of(out[h * c.value_features + x], all));
      }
    }
    CHECK((top.intact() && sum.intact() && out.intact() && weights.intact()));
    return worst;
  });
}

TEST_CASE("node_gradient is the gradient of the query, with lse and delta", "[nodes]") {
  for_each_node([](const heed::NodeKernels<float>& kernels, const Node& node) {
    const NodeCase& c = node.c;
    constexpr float kFactor = 0.25F;
    BasicBuffer<float> lse(c.heads), delta(c.heads), gradient(c.heads * c.features);
    double worst = 0;
    for (const float* const grad_lse : {static_cast<const float*>(nullptr), node.stats.data()}) {
      CHECK(kernels.node_gradient(node.view(), kFactor, grad_lse, lse.data(), delta.data(),
                                  gradient.data()));
      for (std::size_t h = 0; h < c.heads; ++h) {
        const Softmax want(node, h);
        Bounded less;
        double size = 0;
        for (std::size_t e = 0; e < c.edges; ++e) {
          const Bounded product = node.product(e, h);
          const Bounded& p = want.probs[e];
          less.value += p.value * product.value;
          size += std::fabs(p.value * product.value);
          less.error += p.error * std::fabs(product.value) + (p.value + p.error) * product.error;
        }
        less.error += Node::gamma(c.edges + 4) * (size + less.error);
        if (grad_lse != nullptr) less.value -= double{grad_lse[h]};
        less.error += Node::gamma(1) * std::fabs(less.value);
        worst = std::max({worst, ratio_of(lse[h], want.lse), ratio_of(delta[h], less)});
        const std::vector<Bounded> deltas(c.edges, less);
        for (std::size_t x = 0; x < c.features; ++x)
          worst = std::max(worst, ratio_of(gradient[h * c.features + x],
                                           gradient_of(node, h, x, kFactor, want.probs, deltas)));
      }
    }
    CHECK((lse.intact() && delta.intact() && gradient.intact()));
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
      std::vector<Bounded> probs, deltas;
      for (std::size_t e = 0; e < c.edges; ++e) {
        const Bounded score = node.score(e, h);
        probs.push_back(power({score.value - node.lse(e, h), score.error}));
        deltas.push_back({node.delta(e, h), 0});
      }
      for (std::size_t x = 0; x < c.features; ++x)
        worst = std::max(worst, ratio_of(key[h * c.features + x],
                                         gradient_of(node, h, x, kFactor, probs, deltas)));
      for (std::size_t x = 0; x < c.value_features; ++x) {
        Bounded all;
        double size = 0;
        for (std::size_t e = 0; e < c.edges; ++e) {
          all.value += probs[e].value * node.value(e, h, x);
          all.error += probs[e].error * std::fabs(node.value(e, h, x));
          size += std::fabs(probs[e].value * node.value(e, h, x));
        }
        all.error += Node::gamma(c.edges) * (size + all.error);
        worst = std::max(worst, ratio_of(value[h * c.value_features + x], all));
      }
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
        return kernels.node_gradient(node.view(), 1, nullptr, a.data(), b.data(), key.data());
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
