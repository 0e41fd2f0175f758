// Weighted sums of values and edge data over the edges of a node.
#pragma once

#include "engine/graph/scores.hpp"

namespace heed {

template <class Real>
class EdgeSums {
 public:
  /// The slab is the thread's.
  EdgeSums(const GraphStep& step, std::byte* slab);

  /// [heads][value features], padded.
  Real* values() const { return values_; }
  std::size_t value_size() const { return heads_ * value_of_.features(); }
  /// [heads][edge_width], padded; size 0 if edges add nothing to values.
  Real* edge_data() const { return edge_sums_; }
  std::size_t edge_size() const { return !matrix_.given() ? 0 : heads_ * edge_width_; }

  const Gather<Real>& rows() const { return value_of_; }

  void clear() const;

  /// Finds the batch's values, and copies them if need be.
  void begin_batch(const Batch& batch);

  /// Adds weight times value. Where the scores leave an edge out for a head, values that are not
  /// finite do not reach the sums. The first batch of a node is `fresh`.
  void add(const PanelRows& panel, const Batch& batch, const EdgeScores<Real>& scores,
           const Real* weights, bool fresh);

  /// Multiplies the sums of the panel's heads by their factors.
  void rescale(const PanelRows& panel, const Real* factors) const;

  /// Sets the sums of one head to the values of one edge, with weight 1.
  void take(std::int64_t head, std::int64_t edge) const;

  /// Once per node: adds what edge data adds to values, for heads whose weights have a sum.
  void add_edge_values(const Real* sum_of_weights) const;

 private:
  const GraphStep& step_;
  const GraphProblem& problem_;
  const heed_graph& graph_;
  const KernelTable<Real>& kernels_;
  const Gather<Real> value_of_;
  const Gather<Real> edge_data_of_;
  const std::size_t heads_;
  const std::size_t edge_width_;  ///< padded
  Real* const values_;
  Real* const edge_sums_;
  const Real* const edge_data_;    ///< of the batch, fetched with its scores
  Real* const isolated_;           ///< rows without those that are left out
  const EdgeMatrix<Real> matrix_;  ///< W_edge_value
  EdgeRows<Real> rows_{};
};

extern template class EdgeSums<float>;
extern template class EdgeSums<double>;

}  // namespace heed
