// One step of a run, and the few things that all its code shares.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/graph/gather.hpp"
#include "engine/graph/plan.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/projection/over_rows.hpp"
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
  RunThreads threads(std::uint32_t workers) const {
    return {*plan.context, workers, workspace + plan.space.slabs, plan.space.slab_bytes};
  }
};

/// Whether there are kernels of nodes of this type; the code that calls them is left out if not.
template <class Real>
inline constexpr bool kHasNodeKernels = std::is_same_v<Real, float>;

/// The kernels that take nodes with few edges at once: where edges bring nothing, nothing is done
/// to scores but to scale them, and there are such kernels; else nullptr.
template <class Real>
const NodeKernels<Real>* node_kernels_of(const GraphStep& step) {
  static_assert(kBatch <= kNodeEdges);
  const GraphProblem& p = step.plan.problem;
  const bool plain = !p.divides_by_norms() && !p.hard && p.softcap == 0 && p.edge_width == 0 &&
                     p.dropout == 0 && step.args.edge_bias == nullptr;
  return plain ? kernels_of<Real>(*step.plan.context->kernels).nodes : nullptr;
}

/// The values at an offset into a slab or the workspace.
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
  const std::size_t heads = static_cast<std::size_t>(problem.heads);
  /// Padded.
  const std::size_t features = Gather<Real>::padded_size(problem.features);
  const std::size_t value_features = Gather<Real>::padded_size(problem.value_features);
  const std::size_t edge_width = Gather<Real>::padded_size(problem.edge_width);
  const Gather<Real> edge_data{
      kernels, {step.args.edge_data, problem.edge_data}, 1, problem.edge_width, nullptr};

  Real* buffer(std::size_t NodeSlab::*offset) const {
    return at<Real>(slab, step.plan.slab.*offset);
  }

  /// Calls function(panel) for panels of all heads. Heads lie side by side in the lanes of scores,
  /// as query rows do in dense attention.
  template <class Function>
  void each_panel(Function&& function) const {
    const std::int64_t most = std::int64_t{kernels.panels.lanes} * kernels.panels.max_vectors;
    for (std::int64_t first = 0; first < problem.heads; first += most)
      function(PanelRows::of(first, std::min(most, problem.heads - first), kernels.panels.lanes));
  }

  /// products[e][h] = <row of edge e, own[h]> for the panel's heads, added to what is there unless
  /// `fresh`. Rows and `own` are of all heads, [heads][features].
  void multiply_rows(const PanelRows& panel, const EdgeRows& rows, std::size_t edges,
                     const Real* own, std::size_t width, bool fresh, Real* products) const {
    kernels.rows.edge_scores(rows.from_head(panel.first), edges,
                             own + static_cast<std::size_t>(panel.first) * width, panel.rows, width,
                             fresh, products, panel.pitch);
  }

  /// products[e][h] += <edge data of e, asked[the node that e leads to][h]>, both of edge_width
  /// values, added up as if the node asked.
  void add_edge_products(const EdgeOrder& order, const Real* asked, const Real* edge_numbers,
                         const PanelRows& panel, const Batch& batch, Real* products) const {
    for (std::size_t e = 0; e < batch.edges; ++e, products += panel.pitch) {
      const auto node = static_cast<std::size_t>(order.others[batch.edge(e)]);
      const EdgeRows row = consecutive_rows(edge_numbers + e * edge_width, edge_width, 0);
      multiply_rows(panel, row, 1, asked + node * heads * edge_width, edge_width, false, products);
    }
  }

  /// sums[h] = the sum of weights[e][h] times the row of edge e for the panel's heads, added to
  /// what is there unless `fresh`. Rows are of the panel's heads, sums of all, [heads][features].
  void sum_rows(const PanelRows& panel, const EdgeRows& rows, std::size_t edges,
                const Real* weights, std::size_t width, bool fresh, Real* sums) const {
    kernels.rows.edge_values(rows, edges, weights, panel.pitch, panel.rows, width,
                             sums + static_cast<std::size_t>(panel.first) * width, fresh);
  }
};

/// 1 / sum; 0 where nothing was summed.
template <class Real>
Real inverse_of(Real sum) {
  return sum == 0 ? Real{0} : 1 / sum;
}

/// Calls function(begin, end, slab) until each of so many tasks is done once, with the slab of the
/// thread that does these.
template <class Function>
void share_out(const RunThreads& threads, std::size_t count, std::int64_t per_claim,
               Function&& function) {
  parallel_for(threads.context.threads,
               {static_cast<std::int64_t>(count), per_claim, threads.workers},
               [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                 function(begin, end, threads.slabs + worker * threads.slab_bytes);
               });
}

/// Works on all of some tasks, shared out among threads: each makes Nodes of the step, in its slab.
template <class Nodes, class Step, class Task>
void share_out(const RunThreads& threads, const Step& step, const Array<Task>& tasks,
               std::int64_t per_claim, void (Nodes::*work)(const Task&)) {
  share_out(threads, tasks.size(), per_claim,
            [&](std::int64_t begin, std::int64_t end, std::byte* slab) {
              Nodes nodes(step, slab);
              for (std::int64_t i = begin; i < end; ++i) (nodes.*work)(tasks[i]);
            });
}

/// Calls function(batch) for the edges [begin, end).
template <class Function>
void each_batch(std::int64_t begin, std::int64_t end, Function&& function) {
  constexpr auto kStep = static_cast<std::int64_t>(kBatch);
  for (std::int64_t e = begin; e < end; e += kStep)
    function(Batch{e, static_cast<std::size_t>(std::min(kStep, end - e))});
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

/// The step that reads `data`, projected where queries, keys and values are not given.
GraphStep begin_step(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
                     const Tensor& data, std::byte* workspace, std::int64_t index, bool last);

/// Computes a step's results from its queries, keys and values.
void run_step(const GraphStep& step);

/// Sets rows [heads][features] of edges that the graph has removed to 0, if they are given.
void clear_removed(const heed_graph_attention_plan& plan, void* to, const Layout& layout,
                   std::int64_t heads, std::int64_t features);

/// Copies the matrices over edge data into the workspace, as EdgeMatrix wants them.
void widen_edge_matrices(const heed_graph_attention_plan& plan,
                         const heed_graph_attention_args& args, std::byte* workspace);

}  // namespace heed
