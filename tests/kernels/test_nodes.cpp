// Kernels of nodes: the softmax of nodes along their edges, and its gradients from both ends,
// beside the same in double.
#include "tests/kernels/support.hpp"
#include "tests/oracle/bounded.hpp"

using namespace heed_test;

namespace {

struct NodeCase {
  std::size_t heads, features, value_features, edges, nodes;
  bool adds;  ///< scores are sums of numbers
  std::uint64_t seed;

  void fit(std::size_t /*lanes*/) {}
  std::string line() const {
    std::ostringstream text;
    text << "heads " << heads << " features " << features << " value features " << value_features
         << " edges " << edges << " nodes " << nodes << (adds ? " sums" : "");
    return text.str();
  }
};

/// Groups of eight, four and one head, and what is left of them; every vector that divides
/// features; edges that fill vectors or not, of one node or of several.
std::vector<NodeCase> node_sizes() {
  std::vector<NodeCase> cases;
  std::size_t index = 0;
  for (const std::size_t heads : {1U, 2U, 3U, 4U, 5U, 8U, 13U, 16U})
    for (const std::size_t features : {1U, 4U, 8U, 12U, 16U, 32U, 64U, 80U})
      for (const std::size_t values : {4U, 8U, 16U, 20U, 128U})
        for (const std::size_t edges : {1U, 2U, 3U, 7U, 8U, 9U, 23U, 31U, 32U, 100U, 128U})
          for (const std::size_t nodes : {1U, 6U})
            if (keep(index++))
              cases.push_back({heads, features, values, edges, nodes, features == 1, index});
  return cases;
}

/// A number and how far what is computed may be from it; sums of such, and products.
using Number = Bounded<double>;
using Numbers = BoundedSum<float>;

Number times(const Number& a, const Number& b) { return product<float>(a, b); }

constexpr std::size_t kNodes = 11;

/// Nodes, the rows around them, and what is to come of them.
struct Node {
  Node(const NodeCase& whole, Random& random)
      : c(whole),
        keys(normals<float>(kNodes * c.heads * c.features, random)),
        slopes(normals<float>(kNodes * c.heads * c.features, random)),
        values(normals<float>(kNodes * c.heads * c.value_features, random)),
        query(normals<float>(c.nodes * c.heads * c.features, random)),
        grad(normals<float>(c.nodes * c.heads * c.value_features, random)),
        grad_lse(normals<float>(c.nodes * c.heads, random)),
        stats(normals<float>(kNodes * 2 * c.heads, random)) {
    for (std::size_t e = 0; e < c.edges; ++e)
      others.push_back(static_cast<std::int32_t>(random.integer(0, kNodes - 1)));
    // Some nodes have no edges, where there are few.
    for (std::size_t i = 1; i < c.nodes; ++i)
      offsets.push_back(kFirst + random.integer(0, static_cast<std::int64_t>(c.edges)));
    offsets.push_back(kFirst);
    offsets.push_back(kFirst + static_cast<std::int64_t>(c.edges));
    std::sort(offsets.begin(), offsets.end());
    for (std::size_t i = 0; i < c.nodes; ++i)
      own.insert(own.end(), end(i) - begin(i), static_cast<std::int32_t>(i));
  }

  /// The edges of a node.
  std::size_t begin(std::size_t i) const { return static_cast<std::size_t>(offsets[i] - kFirst); }
  std::size_t end(std::size_t i) const { return begin(i + 1); }

  heed::NodeEdges<float> view() const {
    const auto rows = [&](const BasicBuffer<float>& data, std::size_t features) {
      const auto bytes = static_cast<std::ptrdiff_t>(features * sizeof(float));
      return heed::EdgeRows{heed::ElementType::kF32, data.data(), others.data(),
                            static_cast<std::ptrdiff_t>(c.heads) * bytes, bytes};
    };
    const auto row = [&](std::size_t features) {
      return static_cast<std::ptrdiff_t>(c.heads * features);
    };
    return {c.nodes,
            c.edges,
            offsets.data(),
            own.data(),
            rows(keys, c.features),
            rows(values, c.value_features),
            rows(slopes, c.features),
            c.heads,
            c.features,
            c.value_features,
            {query.data(), row(c.features)},
            {grad.data(), row(c.value_features)},
            kScale,
            c.adds ? &kAct : nullptr};
  }

  std::size_t other(std::size_t e) const { return static_cast<std::size_t>(others[e]); }
  double key(std::size_t e, std::size_t h, std::size_t x) const {
    return keys[(other(e) * c.heads + h) * c.features + x];
  }
  /// Of sums that of act().
  double slope(std::size_t e, std::size_t h, std::size_t x) const {
    if (c.adds) return key(e, h, x) + asked(e, h, x) > 0 ? 1 : double{kAct.slope};
    return slopes[(other(e) * c.heads + h) * c.features + x];
  }
  double asked(std::size_t e, std::size_t h, std::size_t x) const {
    return query[(static_cast<std::size_t>(own[e]) * c.heads + h) * c.features + x];
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
    Numbers all;
    if (c.adds) {
      const Number z = sum<float>({key(e, h, 0), 0}, {asked(e, h, 0), 0});
      return times(times(z, {slope(e, h, 0), 0}), {kScale, 0});
    }
    for (std::size_t x = 0; x < c.features; ++x)
      all.add(times({key(e, h, x), 0}, {asked(e, h, x), 0}));
    return times(all.result(1), {kScale, 0});
  }
  /// <grad, value>
  Number product_of(std::size_t e, std::size_t h) const {
    Numbers sum;
    const std::size_t row = (static_cast<std::size_t>(own[e]) * c.heads + h) * c.value_features;
    for (std::size_t x = 0; x < c.value_features; ++x)
      sum.add(times({value(e, h, x), 0}, {grad[row + x], 0}));
    return sum.result(1);
  }
  /// Of one feature of values, over the edges of a node.
  Number weighted(std::size_t i, const std::vector<Number>& probs, std::size_t h,
                  std::size_t x) const {
    Numbers sum;
    for (std::size_t e = begin(i); e < end(i); ++e)
      sum.add(times(probs[e - begin(i)], {value(e, h, x), 0}));
    return sum.result();
  }

  static double gamma(double n) { return gamma_of<float>(n); }

  static constexpr float kScale = 0.375F;
  static constexpr heed::Activation<float> kAct = {false, 0.25F};
  static constexpr std::int64_t kFirst = 7;  ///< what offsets begin with
  NodeCase c;
  BasicBuffer<float> keys, slopes, values, query, grad, grad_lse, stats;
  std::vector<std::int32_t> others, own;
  std::vector<std::int64_t> offsets;
};

/// 2^x, where x is known so well: exp2 is off by an ULP, and its argument by a rounding.
Number power(const Number& x) {
  const double value = std::exp2(x.value);
  const double moved = x.bound + Node::gamma(1) * std::fabs(x.value);
  return {value, value * (std::expm1(kLn2 * moved) + Node::gamma(4))};
}

/// The softmax of one head of a node.
struct Softmax {
  Softmax(const Node& node, std::size_t i, std::size_t h) {
    std::vector<Number> scores;
    for (std::size_t e = node.begin(i); e < node.end(i); ++e) scores.push_back(node.score(e, h));
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

/// One head of gradients: the sum over a node's edges of prob (product - delta) row, of slopes or
/// keys.
Number gradient_of(const Node& node, std::size_t i, std::size_t h, std::size_t x, double factor,
                   const std::vector<Number>& probs, const std::vector<Number>& deltas,
                   bool of_keys = false) {
  Numbers all;
  for (std::size_t e = node.begin(i), k = 0; e < node.end(i); ++e, ++k) {
    const Number rest = sum<float>(node.product_of(e, h), {-deltas[k].value, deltas[k].bound});
    const double row = of_keys ? node.key(e, h, x) : node.slope(e, h, x);
    all.add(times(times(probs[k], rest), times({row, 0}, {factor, 0})));
  }
  return all.result(2);
}

/// Rows of results, one after the other.
heed::NodeRows<float> rows_of(BasicBuffer<float>& data, std::size_t width) {
  return {data.data(), static_cast<std::ptrdiff_t>(width)};
}

}  // namespace

TEST_CASE("attend_nodes is softmax along edges, and the weighted sum of values", "[nodes]") {
  for_each_node([](const heed::NodeKernels<float>& kernels, const Node& node) {
    const NodeCase& c = node.c;
    const std::size_t width = c.heads * c.value_features;
    BasicBuffer<float> top(c.nodes * c.heads), sum(top.size()), out(c.nodes * width);
    BasicBuffer<float> weights(c.edges * c.heads), plain(out.size());
    CHECK(kernels.attend_nodes(node.view(), top.data(), sum.data(), rows_of(out, width),
                               weights.data()));
    CHECK(kernels.attend_nodes(node.view(), nullptr, nullptr, rows_of(plain, width), nullptr));
    CHECK(same_bits(out, plain));
    double worst = 0;
    for (std::size_t i = 0; i < c.nodes; ++i)
      for (std::size_t h = 0; h < c.heads; ++h) {
        const std::size_t at = i * c.heads + h;
        if (node.begin(i) == node.end(i)) {
          CHECK(sum[at] == 0);
          CHECK(all(c.value_features,
                    [&](std::size_t x) { return out[at * c.value_features + x] == 0; }));
          continue;
        }
        const Softmax want(node, i, h);
        worst = std::max({worst, ratio_of(top[at], want.top), ratio_of(sum[at], want.sum)});
        for (std::size_t e = node.begin(i), k = 0; e < node.end(i); ++e, ++k)
          worst = std::max(worst, ratio_of(weights[e * c.heads + h], want.probs[k]));
        for (std::size_t x = 0; x < c.value_features; ++x)
          worst = std::max(
              worst, ratio_of(out[at * c.value_features + x], node.weighted(i, want.probs, h, x)));
      }
    CHECK((top.intact() && sum.intact() && out.intact() && weights.intact()));
    return worst;
  });
}

TEST_CASE("node_gradients are those of queries and weights, with lse and delta", "[nodes]") {
  for_each_node([](const heed::NodeKernels<float>& kernels, const Node& node) {
    const NodeCase& c = node.c;
    constexpr float kFactor = 0.25F;
    const std::size_t width = c.heads * c.features;
    BasicBuffer<float> stats(c.nodes * 2 * c.heads), gradient(c.nodes * width);
    BasicBuffer<float> weights(c.adds ? 0 : width), alone(gradient.size());
    double worst = 0;
    for (const float* const of_lse : {static_cast<const float*>(nullptr), node.grad_lse.data()}) {
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0;
      CHECK(kernels.node_gradients(node.view(), kFactor, of_lse, stats.data(),
                                   rows_of(alone, width), nullptr));
      CHECK(kernels.node_gradients(node.view(), kFactor, of_lse, stats.data(),
                                   rows_of(gradient, width), c.adds ? nullptr : weights.data()));
      CHECK(same_bits(gradient, alone));
      std::vector<Numbers> of_weights(weights.size());
      for (std::size_t i = 0; i < c.nodes; ++i)
        for (std::size_t h = 0; h < c.heads; ++h) {
          const std::size_t at = i * c.heads + h;
          const float lse = stats[(2 * i) * c.heads + h], delta = stats[(2 * i + 1) * c.heads + h];
          if (node.begin(i) == node.end(i)) {
            CHECK((std::isfinite(lse) && std::isfinite(delta)));
            CHECK(
                all(c.features, [&](std::size_t x) { return gradient[at * c.features + x] == 0; }));
            continue;
          }
          const Softmax want(node, i, h);
          Numbers products;
          for (std::size_t e = node.begin(i), k = 0; e < node.end(i); ++e, ++k)
            products.add(times(want.probs[k], node.product_of(e, h)));
          const double less_lse = of_lse != nullptr ? double{of_lse[at]} : 0;
          const Number less = sum<float>(products.result(4), {-less_lse, 0});
          worst = std::max({worst, ratio_of(lse, want.lse), ratio_of(delta, less)});
          const std::vector<Number> deltas(node.end(i) - node.begin(i), less);
          for (std::size_t x = 0; x < c.features; ++x) {
            worst =
                std::max(worst, ratio_of(gradient[at * c.features + x],
                                         gradient_of(node, i, h, x, kFactor, want.probs, deltas)));
            if (!c.adds)
              of_weights[h * c.features + x].add(
                  gradient_of(node, i, h, x, kFactor, want.probs, deltas, true));
          }
        }
      for (std::size_t i = 0; i < weights.size(); ++i)
        worst = std::max(worst, ratio_of(weights[i], of_weights[i].result()));
    }
    CHECK((stats.intact() && gradient.intact() && weights.intact()));
    return worst;
  });
}

TEST_CASE("source_gradients are those of keys and values, added to what is there or not",
          "[nodes]") {
  for_each_node([](const heed::NodeKernels<float>& kernels, const Node& node) {
    const NodeCase& c = node.c;
    constexpr float kFactor = 0.25F;
    const std::size_t width = c.heads * c.features, value_width = c.heads * c.value_features;
    BasicBuffer<float> key(c.nodes * width), value(c.nodes * value_width);
    CHECK(kernels.source_gradients(node.view(), kFactor, node.stats.data(), node.others.data(),
                                   true, rows_of(key, width), rows_of(value, value_width)));
    double worst = 0;
    for (std::size_t i = 0; i < c.nodes; ++i)
      for (std::size_t h = 0; h < c.heads; ++h) {
        const std::size_t at = i * c.heads + h;
        std::vector<Number> probs, deltas;
        for (std::size_t e = node.begin(i); e < node.end(i); ++e) {
          const Number score = node.score(e, h);
          probs.push_back(power({score.value - node.lse(e, h), score.bound}));
          deltas.push_back({node.delta(e, h), 0});
        }
        for (std::size_t x = 0; x < c.features; ++x)
          worst = std::max(worst, ratio_of(key[at * c.features + x],
                                           gradient_of(node, i, h, x, kFactor, probs, deltas)));
        for (std::size_t x = 0; x < c.value_features; ++x)
          worst = std::max(
              worst, ratio_of(value[at * c.value_features + x], node.weighted(i, probs, h, x)));
      }
    const BasicBuffer<float> once_key = key, once_value = value;
    CHECK(kernels.source_gradients(node.view(), kFactor, node.stats.data(), node.others.data(),
                                   false, rows_of(key, width), rows_of(value, value_width)));
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
      const std::size_t width = c.heads * c.features, value_width = c.heads * c.value_features;
      BasicBuffer<float> stats(c.nodes * 2 * c.heads), key(c.nodes * width);
      BasicBuffer<float> value(c.nodes * value_width);
      const auto attends = [&](const Node& node) {
        return kernels.attend_nodes(node.view(), nullptr, nullptr, rows_of(value, value_width),
                                    nullptr);
      };
      const auto has_gradient = [&](const Node& node) {
        return kernels.node_gradients(node.view(), 1, nullptr, stats.data(), rows_of(key, width),
                                      nullptr);
      };
      const auto is_source = [&](const Node& node) {
        return kernels.source_gradients(node.view(), 1, node.stats.data(), node.others.data(), true,
                                        rows_of(key, width), rows_of(value, value_width));
      };
      Node of_query = finite, of_grad = finite, of_lse = finite, of_delta = finite;
      const auto node = static_cast<std::size_t>(finite.own.back());
      of_query.query[(node + 1) * width - 1] = special;
      of_grad.grad[node * value_width] = special;
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
