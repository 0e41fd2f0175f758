// One step on its way back, and what its two passes share.
#pragma once

#include <type_traits>

#include "engine/graph/backward/plan.hpp"
#include "engine/graph/scores.hpp"
#include "engine/tensor/loops.hpp"
#include "engine/tensor/merge.hpp"

namespace heed {

/// Where rows of gradients go.
struct GradientTarget {
  void* data;  ///< nullptr: nowhere
  Layout layout;
  bool accumulate;

  /// Where a node's gradients may be written as they are, as whole_row() says; else nullptr.
  template <class Real>
  Real* in_place(std::int64_t heads, std::int64_t features, std::int64_t node) const {
    return accumulate ? nullptr : whole_row<Real>(data, layout, heads, features, node);
  }
};

struct GraphBackwardStep {
  const heed_graph_attention_backward_plan& plan;
  const GraphBackwardArgs& args;
  const GraphStep& forward;
  Tensor grad_out;  ///< [nodes][heads of out][value_features]
  GradientTarget query, key, value;
  bool last;         ///< of the forward run, the first on the way back
  std::byte* space;  ///< the workspace

  const GraphProblem& problem() const { return plan.problem.attention; }
  /// Whether gradients of edges, which all steps share, are added to what is there.
  bool adds() const { return plan.problem.accumulate || !last; }

  /// [nodes] numbers of the workspace, so many each; nullptr where there are none.
  template <class Real>
  Real* of_node(std::size_t offset, std::int64_t node, std::size_t numbers) const {
    return at<Real>(space, offset) + static_cast<std::size_t>(node) * numbers;
  }

  /// The gradient of the results of heads: of out, where they lie side by side there.
  template <class Real>
  Tensor grad_of_heads() const {
    const GraphProblem& p = problem();
    if (p.combine == HEED_COMBINE_CONCAT) return grad_out;
    const std::int64_t padded = Gather<Real>::padded(p.value_features);
    return {space + plan.space.grad,
            {kTypeOf<Real>, sizeof(Real), {0, padded, p.heads * padded, 1}}};
  }
};

/// A thread at work on a step's way back, in a slab of its own: the forward run's comes first.
template <class Real>
struct GraphBackwardThread {
  const GraphBackwardStep& step;
  std::byte* slab;
  const heed_graph_attention_backward_plan& plan = step.plan;
  const GraphThread<Real> forward{step.forward, slab};
  const std::size_t heads = static_cast<std::size_t>(forward.problem.heads);
  /// Gradients of scores become gradients of queries and keys times this.
  const Real scale = static_cast<Real>(forward.problem.scale / forward.problem.temperature);

  Real* buffer(std::size_t GraphBackwardSlab::*offset) const {
    return at<Real>(slab + plan.attention.slab.bytes, plan.slab.*offset);
  }

  /// Writes a node's rows [heads][padded] times a factor.
  void write(const GradientTarget& to, std::int64_t node, std::int64_t features, Real* rows,
             Real factor) const {
    if (to.data == nullptr) return;
    const std::int64_t count = forward.problem.heads;
    const std::int64_t padded = Gather<Real>::padded(features);
    for (std::int64_t i = 0; i < count * padded; ++i) rows[i] *= factor;
    const Strides& strides = to.layout.strides;
    if (features == 1) {  // heads are as the features of one
      Layout along = to.layout;
      along.strides.feature = strides.head;
      for (std::int64_t h = 0; h < count; ++h) rows[h] = rows[h * padded];
      return write_gradient(forward.kernels, along, to.accumulate, rows, count,
                            buffer(&GraphBackwardSlab::rows), row_at(to.data, along, 0, 0, node));
    }
    const bool one_run = padded == features && strides.head == features && strides.feature == 1;
    for (std::int64_t h = 0; h < (one_run ? 1 : count); ++h)
      write_gradient(forward.kernels, to.layout, to.accumulate, rows + h * padded,
                     one_run ? count * features : features, buffer(&GraphBackwardSlab::rows),
                     row_at(to.data, to.layout, 0, h, node));
  }
};

/// Whether a node's log-sum-exp has lost digits: what it lacks is then kept too.
template <class Real>
bool is_far(Real lse) {
  return has_lost_digits(static_cast<double>(lse), std::is_same_v<Real, double>);
}

/// Row `node` of results, heads side by side.
template <class Real>
void read_row(const KernelTable<Real>& kernels, const GraphProblem& p, const Tensor& from,
              std::int64_t node, Real* to) {
  const Layout& layout = from.layout;
  for (std::int64_t h = 0; h < p.out_heads(); ++h)
    kernels.numbers.read(layout.type, row_at(from.data, layout, 0, h, node), layout.strides.feature,
                         static_cast<std::size_t>(p.value_features), to + h * p.value_features);
}

/// Turns gradients of probabilities into gradients of scores, for a batch and a panel of heads.
template <class Real>
class ScoreGradients {
 public:
  explicit ScoreGradients(const GraphBackwardThread<Real>& on)
      : kernels_(on.forward.kernels),
        gradients_(on.buffer(&GraphBackwardSlab::gradients)),
        tanh_(on.forward.problem.softcap == 0 ? nullptr : on.buffer(&GraphBackwardSlab::tanh)) {
    std::fill_n(gradients_, kBatch * kMaxPanel, Real{0});
  }

  Real* gradients() const { return gradients_; }
  /// To be filled with tanh(s / softcap); nullptr: not needed.
  Real* tanh() const { return tanh_; }

  /// Scores become probabilities, gradients become gradients of biased scores, times the
  /// temperature.
  void compute(const PanelRows& panel, std::size_t edges, const Real* lse, const Real* delta,
               Real* scores) const {
    alignas(kAlignment) static constexpr Real kZeros[kMaxPanel] = {};
    kernels_.panels.softmax_gradient(panel.vectors, scores, edges, kZeros, lse, delta, gradients_);
  }

  /// Gradients become gradients of scores before the softcap, times the temperature.
  void uncap(const PanelRows& panel, std::size_t edges) const {
    if (tanh_ != nullptr) multiply_by_cap_slope(tanh_, edges * panel.pitch, gradients_);
  }

 private:
  const KernelTable<Real>& kernels_;
  Real* const gradients_;
  Real* const tanh_;
};

/// sums[h] += weights[e][h] times the rows of a batch, except of edges that are left out.
template <class Real>
void add_rows(const KernelTable<Real>& kernels, const EdgeScores<Real>& scores,
              const PanelRows& panel, const Batch& batch, const EdgeRows& rows,
              std::size_t features, const Real* weights, Real* sums) {
  kernels.rows.edge_values(scores.attended(rows, panel, batch.edges, features), batch.edges,
                           weights, panel.pitch, panel.rows, features,
                           sums + static_cast<std::size_t>(panel.first) * features, false);
}

/// The first `count` sums of a split, in the workspace.
template <class Real>
Real* split_sums(const GraphBackwardStep& step, std::int64_t split) {
  return step.of_node<Real>(step.plan.space.splits, split,
                            static_cast<std::size_t>(step.plan.sums.numbers));
}

/// The sums of a hub: its splits' added up, in order.
template <class Real>
void sum_splits(const GraphBackwardStep& step, const Hub& hub, std::int64_t count, Real* to) {
  std::copy_n(split_sums<Real>(step, hub.first_split), count, to);
  for (std::int64_t k = 1; k < hub.splits; ++k)
    add_values(split_sums<Real>(step, hub.first_split + k), static_cast<std::size_t>(count), to);
}

}  // namespace heed
