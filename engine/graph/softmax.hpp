// The softmax of one node over some of its edges, and its weighted sums.
#pragma once

#include "engine/graph/output.hpp"
#include "engine/graph/scores.hpp"
#include "engine/graph/sums.hpp"
#include "engine/tensor/argmax.hpp"

namespace heed {

template <class Real>
class NodeSoftmax {
 public:
  /// The slab is the thread's.
  NodeSoftmax(const GraphStep& step, std::byte* slab);

  /// All of these are [heads].
  Real* row_max() const { return row_max_; }
  Real* row_sum() const { return row_sum_; }
  std::int64_t* chosen() const { return chosen_; }
  const EdgeSums<Real>& sums() const { return sums_; }
  EdgeScores<Real>& scores() { return scores_; }

  /// Goes over the edges [begin, end) of a node. `write_weights`: weights are wanted, and known at
  /// once, because these are all its edges and they fit one batch.
  void attend(std::int64_t node, std::int64_t begin, std::int64_t end, bool write_weights);

  /// Computes and writes the results of a node at once, if it can be done so.
  bool attend_at_once(std::int64_t node, std::int64_t begin, std::int64_t end);

  /// Prefetches what a batch some way ahead needs.
  [[gnu::always_inline]] void prefetch(const Batch& batch) const;

  /// Goes back to the state of having seen no edge.
  void forget() const;

  /// Writes the results of a node, or of a hub whose row_max, row_sum (or chosen) and sums have
  /// been merged and, if `divided`, divided.
  void finish(std::int64_t node, bool divided);

  /// Writes the weights of the edges [begin, end) of a node whose softmax is known and whose query
  /// is the latest.
  void recompute_weights(std::int64_t begin, std::int64_t end);

  /// Fetches the query of another node.
  void recall(std::int64_t node) { scores_.begin_node(node); }

 private:
  void accumulate(const PanelRows& panel, const Batch& batch, bool fresh);
  void rescale_sums(const PanelRows& panel, const Real* before);
  /// The heads from `first` on, with edges for keys.
  Argmax<Real> argmax(std::int64_t first) const { return {row_max_ + first, chosen_ + first}; }
  void take_chosen();

  const GraphStep& step_;
  const GraphProblem& problem_;
  const KernelTable<Real>& kernels_;
  const NodeKernels<Real>* const at_once_;
  EdgeScores<Real> scores_;
  EdgeSums<Real> sums_;
  const NodeOutput<Real> output_;
  Real* const probs_;
  Real* const row_max_;
  Real* const row_sum_;
  Real* const factors_;
  Real* const weights_;  ///< [kBatch][heads]
  std::int64_t* const chosen_;
};

/// Prefetches the rows of a later batch's worth of edges in one go. Most rows begin in a page whose
/// address has to be looked up, and look-ups overlap only if they follow each other closely.
template <class Real>
inline void NodeSoftmax<Real>::prefetch(const Batch& batch) const {
  const Gather<Real>& keys = scores_.keys();
  const Gather<Real>& values = sums_.rows();
  const std::int32_t* const source = step_.plan.graph->others.data() + batch.begin + keys.ahead();
  for (std::size_t e = 0; e < batch.edges; ++e) {
    keys.prefetch(source[e]);
    values.prefetch(source[e]);
  }
}

extern template class NodeSoftmax<float>;
extern template class NodeSoftmax<double>;

}  // namespace heed
