// One step of a run, and the few things that all its code shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/graph/gather.hpp"
#include "engine/graph/plan.hpp"
#include "engine/tensor/panels.hpp"

namespace heed {

/// Nodes per claim, where all that a node takes is rows or matrices of its own.
inline constexpr std::int64_t kNodesPerClaim = 64;

/// The tensors that a step computes between.
struct GraphStep {
  const heed_graph_attention_plan& plan;
  const heed_graph_attention_args& args;
  Tensor query, key, value;
  Tensor data;  ///< added to results, with residual
  std::byte* workspace;
  std::int64_t index;  ///< of the step, from 0 on
  bool last;           ///< its lse and weights are wanted

  bool wants_weights() const { return last && args.weights != nullptr; }
  bool wants_lse() const { return last && args.lse != nullptr; }
};

/// Whether there are kernels of nodes for this type at all: code that calls them is made for no
/// other.
template <class Real>
inline constexpr bool kHasNodeKernels = std::is_same_v<Real, float>;

/// The kernels that take a node with few edges at once: where edges bring nothing, nothing is done
/// to scores but to scale them, and there are such kernels; else nullptr.
template <class Real>
const NodeKernels<Real>* node_kernels_of(const GraphStep& step) {
  static_assert(kBatch <= kNodeEdges);
  const GraphProblem& p = step.plan.problem;
  const bool plain = !p.divides_by_norms() && !p.hard && p.softcap == 0 && p.edge_width == 0 &&
                     p.dropout == 0 && step.args.edge_bias == nullptr;
  return plain ? kernels_of<Real>(*step.plan.context->kernels).nodes : nullptr;
}

/// Numbers at an offset into a slab or the workspace.
template <class T>
T* at(std::byte* slab, std::size_t offset) {
  return reinterpret_cast<T*>(slab + offset);
}

/// A thread at work on a step, in a slab of its own.
template <class Real>
struct GraphThread {
  const GraphStep& step;
  std::byte* slab;
  const GraphProblem& problem = step.plan.problem;
  const heed_graph& graph = *step.plan.graph;
  const KernelTable<Real>& kernels = kernels_of<Real>(*step.plan.context->kernels);

  Real* buffer(std::size_t NodeSlab::*offset) const {
    return at<Real>(slab, step.plan.slab.*offset);
  }
};

/// 1 / sum; 0 where nothing was summed.
template <class Real>
Real inverse_of(Real sum) {
  return sum == 0 ? Real{0} : 1 / sum;
}

/// Calls function(panel) for panels of all heads. Heads lie side by side in the lanes of scores, as
/// query rows do in dense attention.
template <class Real, class Function>
void each_panel(const KernelTable<Real>& kernels, std::int64_t heads, Function&& function) {
  const std::int64_t most = std::int64_t{kernels.panels.lanes} * kernels.panels.max_vectors;
  for (std::int64_t first = 0; first < heads; first += most)
    function(PanelRows::of(first, std::min(most, heads - first), kernels.panels.lanes));
}

/// The same rows, from the panel's first head on.
inline EdgeRows of_panel(const EdgeRows& rows, const PanelRows& panel) {
  return rows.from_head(panel.first);
}

/// Some edges of one node, in the graph's order.
struct Batch {
  std::int64_t begin;
  std::size_t edges;
};

/// Calls function(batch) for the edges [begin, end).
template <class Function>
void each_batch(std::int64_t begin, std::int64_t end, Function&& function) {
  constexpr auto kStep = static_cast<std::int64_t>(kBatch);
  for (std::int64_t e = begin; e < end; e += kStep)
    function(Batch{e, static_cast<std::size_t>(std::min(kStep, end - e))});
}

/// Projects data to queries, keys and values in the workspace, and points the step at them.
void project(GraphStep& step);

/// The step that reads `data`, projected where queries, keys and values are not given.
GraphStep begin_step(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
                     const Tensor& data, std::byte* workspace, std::int64_t index, bool last);

/// Computes a step's results from its queries, keys and values.
void run_step(const GraphStep& step);

/// Sets rows [heads][features] of edges that the graph has removed to 0.
void clear_removed(const heed_graph_attention_plan& plan, void* to, const Layout& layout,
                   std::int64_t heads, std::int64_t features);

/// Copies the matrices over edge data into the workspace, as EdgeMatrix wants them.
void widen_edge_matrices(const heed_graph_attention_plan& plan,
                         const heed_graph_attention_args& args, std::byte* workspace);

}  // namespace heed
