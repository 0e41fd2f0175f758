// The results of a node: its row of out, its log-sum-exp, the weights of its edges.
#pragma once

#include "engine/graph/step.hpp"

namespace heed {

template <class Real>
class NodeOutput {
 public:
  /// The slab is the thread's.
  NodeOutput(const GraphStep& step, std::byte* slab);

  /// Where the node's results may be written as they are, [heads][value features]; nullptr: write()
  /// must do so.
  Real* in_place(std::int64_t node) const;

  /// values: [heads][value features], padded; multiplies each head with its factor, in place.
  void write(std::int64_t node, Real* values, const Real* factors) const;

  void write_lse(std::int64_t node, const Real* row_max, const Real* sum) const;

  /// Writes the weights of a batch from the probabilities in `probs`.
  void write_weights(const PanelRows& panel, const Batch& batch, const Real* probs,
                     const Real* sum) const;

  /// Writes weights that are known, [edges][heads].
  void write_weights(const Batch& batch, const Real* weights) const;

  /// Hard attention: 1 at the edge chosen for each head, 0 at the others of the batch.
  void write_chosen(const Batch& batch, const std::int64_t* chosen) const;

 private:
  template <class Compute>
  void write_row(std::byte* out, const Real* data, Compute&& compute) const;
  void write_edge(std::int64_t edge, std::int64_t first, std::size_t heads,
                  const Real* weights) const;

  const GraphStep& step_;
  const GraphProblem& problem_;
  const KernelTable<Real>& kernels_;
  const std::size_t features_;  ///< of values
  const std::size_t padded_;
  Real* const row_;
  Real* const data_;
};

extern template class NodeOutput<float>;
extern template class NodeOutput<double>;

}  // namespace heed
