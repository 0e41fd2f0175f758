#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "perf/graph/problem.hpp"
#include "tests/oracle/graph_row.hpp"

namespace heed::perf {
namespace {

constexpr std::int64_t kNodes = 64;

/// Some nodes, the one with the most edges among them.
std::set<std::int64_t> some_nodes(const Edges& edges) {
  const std::int64_t visited = std::min(edges.nodes(), kNodes);
  std::set<std::int64_t> nodes;
  for (std::int64_t i = 0; i < visited; ++i)
    nodes.insert(visited > 1 ? i * (edges.nodes() - 1) / (visited - 1) : 0);
  std::int64_t most = 0;
  for (std::int64_t n = 1; n < edges.nodes(); ++n)
    if (edges.degree(n) > edges.degree(most)) most = n;
  nodes.insert(most);
  return nodes;
}

/// One node and one head at a time, as a graph of its own with the sources of its edges alone: the
/// numbers of a whole graph, widened, might not fit the machine.
template <class Real>
class Checker {
 public:
  using Wide = typename oracle::Arithmetic<Real>::Wide;

  Checker(const GraphWorkload& workload, const Edges& edges, GraphTensors& tensors,
          std::int64_t parts)
      : desc_(workload.desc),
        heads_(desc_.heads),
        args_(tensors.args()),
        edges_(edges),
        tensors_(tensors),
        parts_(parts) {
    desc_.heads = 1;
  }

  void check(std::int64_t node) {
    const std::int64_t first = edges_.offsets[static_cast<std::size_t>(node)];
    const std::vector<std::int64_t> sources(edges_.sources.begin() + first,
                                            edges_.sources.begin() + first + edges_.degree(node));
    oracle::EdgeList list;
    for (std::int64_t e = 0; e < edges_.degree(node); ++e) list.add(e, 0);
    for (std::int64_t h = 0; h < heads_; ++h) {
      oracle::GraphNumbers<Wide> numbers;
      numbers.query = rows(tensors_.query, {node}, h, desc_.features);
      numbers.key = rows(tensors_.key, sources, h, desc_.features);
      numbers.value = rows(tensors_.value, sources, h, desc_.value_features);
      if (args_.edge_bias != nullptr)
        numbers.bias = {static_cast<const Real*>(args_.edge_bias) + first * heads_ + h,
                        oracle::real_dtype(desc_),
                        {0, 0, heads_, 1}};
      const oracle::GraphGiven given = {desc_, args_, list};
      compare(oracle::GraphRow<Real>(given, numbers, {0, 0, parts_}, list.sources), node, h);
    }
  }

  const Accuracy& accuracy() const { return accuracy_; }

 private:
  oracle::BoundedRows<Wide> rows(const Tensor& tensor, const std::vector<std::int64_t>& nodes,
                                 std::int64_t head, std::int64_t width) const {
    oracle::BoundedRows<Wide> all{width, {}};
    all.numbers.reserve(nodes.size() * static_cast<std::size_t>(width));
    for (const std::int64_t n : nodes)
      for (std::int64_t x = 0; x < width; ++x)
        all.numbers.push_back({static_cast<Wide>(tensor[(n * heads_ + head) * width + x]), 0});
    return all;
  }

  void compare(const oracle::GraphRow<Real>& row, std::int64_t node, std::int64_t head) {
    if (row.choices().size() > 1) return;  // rounding decides which edge hard attention takes
    const std::uint32_t real = oracle::real_dtype(desc_);
    const std::int64_t line = node * heads_ + head;
    for (std::int64_t x = 0; x < desc_.value_features; ++x) {
      const oracle::Bounded<Wide> want = row.result(x);
      accuracy_.compare(tensors_.out[line * desc_.value_features + x],
                        oracle::stored(want.value, want.bound, tensors_.out.type(), real));
    }
    if (args_.lse != nullptr) accuracy_.compare(tensors_.lse[line], row.lse());
    const std::int64_t first = edges_.offsets[static_cast<std::size_t>(node)];
    for (std::int64_t e = 0; args_.weights != nullptr && e < edges_.degree(node); ++e) {
      const oracle::Bounded<Wide> want = row.weight(static_cast<std::size_t>(e));
      accuracy_.compare(tensors_.weights[(first + e) * heads_ + head],
                        oracle::stored(want.value, want.bound, real, real));
    }
  }

  heed_graph_attention_desc desc_;  ///< of one head
  const std::int64_t heads_;
  const heed_graph_attention_args args_;
  const Edges& edges_;
  const GraphTensors& tensors_;
  const std::int64_t parts_;
  Accuracy accuracy_;
};

template <class Real>
Accuracy check(const GraphWorkload& workload, const Edges& edges, GraphTensors& tensors,
               std::int64_t parts) {
  Checker<Real> checker(workload, edges, tensors, parts);
  for (const std::int64_t node : some_nodes(edges)) checker.check(node);
  return checker.accuracy();
}

}  // namespace

Accuracy check_accuracy(const GraphWorkload& workload, const Edges& edges, GraphTensors& tensors,
                        std::int64_t parts) {
  return oracle::is_float64(workload.desc) ? check<double>(workload, edges, tensors, parts)
                                           : check<float>(workload, edges, tensors, parts);
}

}  // namespace heed::perf
