// Turns the query of a node and the keys of its edges into the scores that softmax sees: everything
// that options do to a score.
#pragma once

#include "engine/graph/edge_matrix.hpp"

namespace heed {

/// From which end edges are looked at: the nodes that are computed, and those that their edges lead
/// to. Scores are the same either way.
template <class Real>
struct EdgeSide {
  const EdgeOrder& order;
  Tensor own, other;  ///< queries and keys, or keys and queries
  Real* rows;         ///< [kBatch][heads][features] of `other`, if they must be copied
  const Real* asked;  ///< W_edge_key times the queries that edges lead to,
                      ///< [nodes][heads][edge_width]; nullptr: times the node's own
};

template <class Real>
class EdgeScores {
 public:
  /// Destinations with their incoming edges. The slab is the thread's.
  EdgeScores(const GraphStep& step, std::byte* slab);
  EdgeScores(const GraphStep& step, std::byte* slab, const EdgeSide<Real>& side);

  const Gather<Real>& keys() const { return key_of_; }

  /// Fetches the node's query, and multiplies W_edge_key with it.
  void begin_node(std::int64_t node);

  /// The node's query, [heads][features], times what makes it a score; and W_edge_key times that,
  /// [heads][edge_width].
  const Real* query() const { return query_; }
  const Real* edge_query() const { return edge_query_; }
  /// The batch's keys, and its edge data [edges][edge_width].
  const EdgeRows<Real>& rows() const { return keys_; }
  const Real* edge_data() const { return edge_data_; }

  /// What kernels of nodes need of a node and a batch of its edges but values and gradients.
  NodeEdges<Real> at_once(std::int64_t node, const Batch& batch) const;

  /// Finds the batch's keys and edge data, and copies them if need be.
  void begin_batch(const Batch& batch);

  /// scores[e][h] = the score of edge e of the batch and head h of the panel, in log2 units of s /
  /// temperature. Other lanes keep their numbers. `tanh`, if given, receives tanh(s / softcap).
  void compute(const PanelRows& panel, const Batch& batch, Real* scores, Real* tanh = nullptr);

  /// Whether, and where, a bias of -inf leaves an edge out for a head in the batch and panel last
  /// computed.
  bool leaves_out() const { return leaves_out_; }
  bool leaves_out(std::size_t edge, std::size_t head) const;

 private:
  void add_asked(const PanelRows& panel, const Batch& batch, Real* scores) const;
  void add_bias(const PanelRows& panel, const Batch& batch, Real* scores);

  const GraphStep& step_;
  const GraphProblem& problem_;
  const EdgeOrder& order_;
  const KernelTable<Real>& kernels_;
  const Gather<Real> query_of_;
  const Gather<Real> key_of_;
  const Gather<Real> edge_data_of_;
  const std::size_t edge_width_;  ///< padded
  const Real scale_;              ///< of queries, or keys
  Real* const query_;
  Real* const edge_query_;
  Real* const bias_;
  const EdgeMatrix<Real> matrix_;  ///< W_edge_key
  Real* const edge_data_;
  const Real* const asked_;
  EdgeRows<Real> keys_{};
  bool leaves_out_ = false;
};

/// scores[e][h] += <edge data of e, asked[the node that e leads to][h]>, both of edge_width
/// numbers.
template <class Real>
void add_edge_products(const EdgeOrder& order, std::int64_t heads, std::size_t edge_width,
                       const Real* asked, const Real* edge_data, const PanelRows& panel,
                       const Batch& batch, Real* scores) {
  for (std::size_t e = 0; e < batch.edges; ++e, edge_data += edge_width, scores += panel.pitch) {
    const std::int64_t node = order.others[batch.begin + static_cast<std::int64_t>(e)];
    const Real* row = asked + static_cast<std::size_t>(node * heads + panel.first) * edge_width;
    for (std::size_t h = 0; h < panel.rows; ++h, row += edge_width) {
      Real sum = 0;
      for (std::size_t x = 0; x < edge_width; ++x) sum += row[x] * edge_data[x];
      scores[h] += sum;
    }
  }
}

/// The panel's heads of the batch's rows, with zeros where the scores leave an edge out for a head:
/// a weight of 0 protects from nothing, since 0 * NaN is NaN. Copied to `room`,
/// [kBatch][heads][features], where nothing else looks at them.
template <class Real>
EdgeRows<Real> left_out(const EdgeScores<Real>& scores, const EdgeRows<Real>& rows,
                        const PanelRows& panel, std::size_t edges, std::size_t features,
                        Real* room) {
  const EdgeRows<Real> from = of_panel(rows, panel);
  for (std::size_t e = 0; e < edges; ++e) {
    const Real* row = from.data + from.source[e] * from.stride;
    Real* to = room + e * panel.rows * features;
    for (std::size_t h = 0; h < panel.rows; ++h, row += from.head_stride, to += features) {
      if (scores.leaves_out(e, h)) {
        std::fill_n(to, features, Real{0});
      } else {
        std::copy_n(row, features, to);
      }
    }
  }
  return {room, kConsecutive.row, static_cast<std::ptrdiff_t>(panel.rows * features),
          static_cast<std::ptrdiff_t>(features)};
}

extern template class EdgeScores<float>;
extern template class EdgeScores<double>;

}  // namespace heed
