// Turns the query of a node and the keys of its edges into the scores that softmax sees: everything
// that options do to a score.
#pragma once

#include "engine/graph/step.hpp"

namespace heed {

template <class Real>
class EdgeScores {
 public:
  /// The slab is the thread's.
  EdgeScores(const GraphStep& step, std::byte* slab);

  const Gather<Real>& keys() const { return key_of_; }

  /// Fetches the node's query, and multiplies W_edge_key with it.
  void begin_node(std::int64_t node);

  /// Finds the batch's keys and edge data, and copies them if need be.
  void begin_batch(const Batch& batch);

  /// scores[e][h] = the score of edge e of the batch and head h of the panel, in log2 units of s /
  /// temperature. Other lanes keep their numbers.
  void compute(const PanelRows& panel, const Batch& batch, Real* scores);

  /// Whether, and where, a bias of -inf leaves an edge out for a head in the batch and panel last
  /// computed.
  bool leaves_out() const { return leaves_out_; }
  bool leaves_out(std::size_t edge, std::size_t head) const;

 private:
  void ask_edge_data();
  void add_bias(const PanelRows& panel, const Batch& batch, Real* scores);

  const GraphStep& step_;
  const GraphProblem& problem_;
  const heed_graph& graph_;
  const KernelTable<Real>& kernels_;
  const Gather<Real> query_of_;
  const Gather<Real> key_of_;
  const Gather<Real> edge_data_of_;
  const std::size_t edge_width_;  ///< padded
  Real* const query_;
  Real* const edge_query_;
  Real* const products_;
  Real* const bias_;
  const Real* const w_edge_key_;  ///< nullptr: edges add nothing to keys
  Real* const edge_data_;
  EdgeRows<Real> keys_{};
  bool leaves_out_ = false;
};

extern template class EdgeScores<float>;
extern template class EdgeScores<double>;

}  // namespace heed
