// One step on its way back, and what its two passes share.
#pragma once

#include <type_traits>

#include "engine/graph/backward/plan.hpp"
#include "engine/graph/step.hpp"
#include "engine/tensor/loops.hpp"
#include "engine/tensor/merge.hpp"

namespace heed {

/// Where rows of gradients go.
struct GradientTarget {
  void* data;  ///< nullptr: nowhere
  Layout layout;
  std::int64_t features;
  bool accumulate;

  template <class Real>
  TileRows<Real> tile_rows(std::int64_t heads, bool one_per_head, Real* buffer) const {
    return {!accumulate, data, layout, heads, features, one_per_head, buffer};
  }
};

struct GraphBackwardStep {
  const heed_graph_attention_backward_plan& plan;
  const GraphBackwardArgs& args;
  const GraphStep& forward;
  Tensor grad_out;  ///< [nodes][heads of out][value_features]
  GradientTarget query, key, value;
  bool last;  ///< of the forward run, the first on the way back

  const GraphProblem& problem() const { return plan.problem.attention; }
  /// Whether gradients of edges, which all steps share, are added to what is there.
  bool adds() const { return plan.problem.accumulate || !last; }

  /// The values of a node, range or split in the workspace, where each has as many.
  template <class T>
  T* numbers_of(std::int64_t index, std::size_t offset, std::size_t numbers) const {
    return at<T>(forward.workspace, offset) + static_cast<std::size_t>(index) * numbers;
  }

  /// The gradient of the results of heads: of out, where they lie side by side there.
  template <class Real>
  Tensor grad_of_heads() const {
    const GraphProblem& p = problem();
    if (p.combine == HEED_COMBINE_CONCAT) return grad_out;
    const std::int64_t padded = Gather<Real>::padded(p.value_features);
    return {forward.workspace + plan.space.grad,
            {kTypeOf<Real>, sizeof(Real), {0, padded, p.heads * padded, 1}}};
  }
};

/// A thread at work on a step and its way back, in a slab of its own: the forward run's comes
/// first.
template <class Real>
struct GraphBackwardThread : GraphThread<Real> {
  GraphBackwardThread(const GraphBackwardStep& step, std::byte* slab)
      : GraphThread<Real>{step.forward, slab}, back(step), plan(step.plan) {}

  const GraphBackwardStep& back;
  const heed_graph_attention_backward_plan& plan;
  /// Gradients of scores become gradients of queries and keys times this.
  const Real scale = static_cast<Real>(this->problem.scale / this->problem.temperature);

  Real* const all_stats = at<Real>(back.forward.workspace, plan.space.lse);
  Real* const all_rests = at<Real>(back.forward.workspace, plan.space.lse_rest);

  using GraphThread<Real>::buffer;
  Real* buffer(std::size_t GraphBackwardSlab::*offset) const {
    return at<Real>(this->slab + plan.attention.slab.bytes, plan.slab.*offset);
  }

  /// Log-sum-exp of the node's heads in log2 units, then delta, [2][heads]; and what the former
  /// lacks where it has lost digits.
  Real* stats(std::int64_t node) const {
    return all_stats + static_cast<std::size_t>(node) * 2 * this->heads;
  }
  Real* lse_rest(std::int64_t node) const {
    return all_rests + static_cast<std::size_t>(node) * this->heads;
  }

  /// The sums of a hub's split, in the workspace.
  Real* split_sums(std::int64_t split) const {
    return back.numbers_of<Real>(split, plan.space.splits,
                                 static_cast<std::size_t>(plan.sums.numbers));
  }
  /// The first `count` sums of a hub: its splits' added up, in order.
  void sum_splits(const Hub& hub, std::int64_t count, Real* to) const {
    std::copy_n(split_sums(hub.first_split), count, to);
    for (std::int64_t k = 1; k < hub.splits; ++k)
      this->kernels.numbers.add_onto(split_sums(hub.first_split + k),
                                     static_cast<std::size_t>(count), to);
  }

  /// Writes a node's rows [heads][padded].
  void write(const GradientTarget& to, std::int64_t node, Real* rows) const {
    if (to.data == nullptr) return;
    const std::int64_t count = this->problem.heads;
    const std::int64_t features = to.features;
    const std::int64_t padded = Gather<Real>::padded(features);
    const Strides& strides = to.layout.strides;
    if (features == 1) {  // heads are as the features of one
      Layout along = to.layout;
      along.strides.feature = strides.head;
      for (std::int64_t h = 0; h < count; ++h) rows[h] = rows[h * padded];
      return write_gradient(this->kernels, along, to.accumulate, rows, count,
                            buffer(&GraphBackwardSlab::rows), row_at(to.data, along, 0, 0, node));
    }
    const bool one_run = padded == features && strides.head == features && strides.feature == 1;
    for (std::int64_t h = 0; h < (one_run ? 1 : count); ++h)
      write_gradient(this->kernels, to.layout, to.accumulate, rows + h * padded,
                     one_run ? count * features : features, buffer(&GraphBackwardSlab::rows),
                     row_at(to.data, to.layout, 0, h, node));
  }
};

/// Whether a node's log-sum-exp has lost digits: what it lacks is then kept too.
template <class Real>
bool is_far(Real lse) {
  return has_lost_digits(static_cast<double>(lse), std::is_same_v<Real, double>);
}

}  // namespace heed
