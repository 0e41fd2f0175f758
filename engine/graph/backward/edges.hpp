// What edges get of the gradients of a node: those of their bias and of their data.
#pragma once

#include "engine/graph/backward/step.hpp"

namespace heed {

/// Gradients of one batch at a time, which panels of heads add to.
template <class Real>
class EdgeGradients {
 public:
  /// The slab is the thread's; the scores are those of the node.
  EdgeGradients(const GraphBackwardStep& step, std::byte* slab, const EdgeScores<Real>& scores);

  /// Writes gradients of biased scores, those of all heads summed where they share a bias.
  void write_bias(const PanelRows& panel, const Batch& batch, const Real* gradients) const;

  /// Adds what the panel's heads pass on to the data of their edges, through keys and through
  /// values. `values` is W_edge_value times the gradients of heads, [heads][edge_width].
  void add_data(const PanelRows& panel, const Batch& batch, const Real* gradients,
                const Real* probs, const Real* values) const;

  /// Writes the sums of all panels.
  void write_data(const Batch& batch) const;

 private:
  void write_edge(const Batch& batch, std::size_t e, std::int64_t first, Real* numbers,
                  std::size_t heads) const;

  const GraphBackwardStep& step_;
  const GraphProblem& problem_;
  const heed_graph& graph_;
  const KernelTable<Real>& kernels_;
  const EdgeScores<Real>& scores_;
  const std::size_t width_;  ///< of edge data, padded
  Real* const rows_;
  Real* const bias_sums_;
  Real* const room_;
};

extern template class EdgeGradients<float>;
extern template class EdgeGradients<double>;

}  // namespace heed
