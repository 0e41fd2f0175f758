// Dropout of weights of edges: after softmax, whose sums do not know of it.
#pragma once

#include <algorithm>

#include "engine/graph/step.hpp"
#include "engine/tensor/dropout.hpp"

namespace heed {

template <class Real>
class EdgeDropout {
 public:
  explicit EdgeDropout(const GraphStep& step)
      : panels_(kernels_of<Real>(*step.plan.context->kernels).panels),
        numbers_(step.args.dropout_edges),
        mask_(step.plan.problem.dropout, step.args.dropout_seed,
              step.args.dropout_offset + static_cast<std::uint64_t>(step.index)) {}

  /// Weights that stay are divided by it.
  Real kept() const { return static_cast<Real>(kept_part(mask_.threshold)); }

  /// Multiplies values of the panel's heads, [edges][pitch], by `factor`, or makes them 0 where
  /// that edge is dropped. `order` is the one that the batch counts in.
  void apply(const PanelRows& panel, const Batch& batch, const EdgeOrder& order, Real factor,
             Real* numbers) const {
    if (mask_.threshold == 0) return;
    const std::size_t lanes = panels_.lanes;
    for (std::size_t first = 0; first < batch.edges; first += lanes) {
      const std::size_t edges = std::min(lanes, batch.edges - first);
      std::uint32_t lower[kMaxPanel] = {};
      std::uint32_t upper[kMaxPanel] = {};
      for (std::size_t e = 0; e < edges; ++e) {
        const std::int64_t given = order.given(batch.edge(first + e));
        const auto edge = static_cast<std::uint64_t>(numbers_ == nullptr ? given : numbers_[given]);
        lower[e] = static_cast<std::uint32_t>(edge);
        upper[e] = static_cast<std::uint32_t>(edge >> 32);
      }
      // Edges are the rows of a panel, and heads its keys: they share what one counter makes.
      const DroppedPairs pairs = {
          {mask_.key[0], mask_.key[1]},           mask_.threshold, 0, lower, upper,
          static_cast<std::uint64_t>(panel.first)};
      alignas(kAlignment) Real factors[kMaxPanel * kMaxPanel / kMaxVectors];
      std::fill_n(factors, panel.rows * lanes, Real{1});
      panels_.drop(1, pairs, all_keys(panel.rows), factors, factor, factors, nullptr);
      for (std::size_t e = 0; e < edges; ++e) {
        Real* const of_edge = numbers + (first + e) * panel.pitch;
        for (std::size_t h = 0; h < panel.rows; ++h) {
          const Real by = factors[h * lanes + e];
          of_edge[h] = by == 0 ? 0 : of_edge[h] * by;
        }
      }
    }
  }

 private:
  const PanelKernels<Real>& panels_;
  const std::int64_t* const numbers_;  ///< of edges given, in a larger graph; nullptr: their places
  const DropoutMask mask_;
};

}  // namespace heed
