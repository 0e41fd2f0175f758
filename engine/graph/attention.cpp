#include "engine/graph/products.hpp"
#include "engine/graph/splits.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

/// A thread's work: the nodes of some ranges against all their edges.
template <class Real>
class Nodes {
 public:
  /// The slab is the thread's.
  Nodes(const GraphStep& step, std::byte* slab) : on_{step, slab} {}

  void attend(const NodeRange& range) {
    if (range.split != kNoSplit) return attend_split(on_.step, range, softmax_);
    const bool wants_weights = on_.step.wants_weights();
    softmax_.attend_nodes(range, [&](std::int64_t n) {
      const std::int64_t begin = on_.graph.offsets[n];
      const std::int64_t end = on_.graph.offsets[n + 1];
      const bool at_once =
          wants_weights && !on_.problem.hard && end - begin <= static_cast<std::int64_t>(kBatch);
      softmax_.attend(n, begin, end, at_once);
      softmax_.finish(n, false);
      if (wants_weights && !at_once) softmax_.recompute_weights(begin, end);
    });
  }

  /// The splits have all been attended; leaves the softmax of the whole hub with each.
  void merge(const Hub& hub) {
    merge_splits(on_.step, hub, softmax_);
    softmax_.finish(hub.node, !on_.problem.hard);
    for (std::int32_t k = 0; on_.step.wants_weights() && k < hub.splits; ++k)
      copy_softmax<Real>(on_.problem, softmax_.state(), Split<Real>(on_.step, hub.first_split + k));
  }

  /// Writes the weights of a hub's edges in a range, after merging.
  void recompute_weights(const NodeRange& range) {
    if (range.split == kNoSplit) return;
    softmax_.forget();
    copy_softmax<Real>(on_.problem, Split<Real>(on_.step, range.split), softmax_.state());
    softmax_.scores().begin_node(range.first);
    softmax_.recompute_weights(range.begin, range.end);
  }

 private:
  const GraphThread<Real> on_;
  NodeSoftmax<Real> softmax_{on_};
};

/// Data times matrices of the nodes' own.
template <class Real>
void project_nodes(const GraphStep& step, const Matmul (&products)[3]) {
  const heed_graph_attention_plan& plan = step.plan;
  const KernelTable<Real>& kernels = kernels_of<Real>(*plan.context->kernels);
  const Gather<Real> data(kernels, step.data, 1, plan.problem.width, nullptr);
  share_out(step.threads(plan.project_workers), static_cast<std::size_t>(plan.problem.nodes),
            kNodesPerClaim, [&](std::int64_t begin, std::int64_t end, std::byte* slab) {
              const NodeProducts<Real> own(plan, slab);
              Real* const row = at<Real>(slab, plan.slab.data);
              for (std::int64_t n = begin; n < end; ++n) {
                data.copy(n, row);
                for (const Matmul& product : products)
                  kernels.numbers.write(
                      product.y.layout.type, own.multiply(n, product.w.matrix, product.w.data, row),
                      static_cast<std::size_t>(product.w.matrix.out), product.y.at(n, 0), 1);
              }
            });
}

/// Projects data to queries, keys and values in the workspace, and points the step at them.
void project(GraphStep& step) {
  const heed_graph_attention_plan& plan = step.plan;
  const heed_graph_attention_args& args = step.args;
  const GraphProblem& p = plan.problem;
  std::byte* const query = step.workspace + plan.space.query;
  std::byte* const key = step.workspace + plan.space.key_value;
  const auto product = [&](const MatmulPlan& planned, const GivenMatrix& w, const Matrix& matrix,
                           std::byte* to, Tensor& made) {
    made.data = to;
    return Matmul{&planned,
                  p.nodes,
                  {step.data.data, step.data.layout, p.nodes},
                  w.laid_out(matrix, p.bias),
                  {to, made.layout, p.nodes, made.layout.strides.head}};
  };
  const Matmul products[] = {
      product(plan.matmuls.keys, HEED_GIVEN_MATRIX(args, query), p.w_query, query, step.query),
      product(plan.matmuls.keys, HEED_GIVEN_MATRIX(args, key), p.w_key, key, step.key),
      product(plan.matmuls.values, HEED_GIVEN_MATRIX(args, value), p.w_value,
              key + p.keys_width * p.key.bytes, step.value)};
  if (p.shares_matrices()) return run_matmuls(step.threads(plan.project_workers), products, 3);
  with_real(p.float64, [&](auto real) { project_nodes<decltype(real)>(step, products); });
}

}  // namespace

void run_step(const GraphStep& step) {
  const heed_graph& graph = *step.plan.graph;
  const RunThreads threads = step.threads(step.plan.workers);
  const std::int64_t per_claim = step.plan.ranges_per_claim;
  with_real(step.plan.problem.float64, [&](auto real) {
    using Work = Nodes<decltype(real)>;
    share_out(threads, step, graph.ranges, per_claim, &Work::attend);
    share_out(threads, step, graph.hubs, 1, &Work::merge);
    if (step.wants_weights() && graph.hubs.size() > 0)
      share_out(threads, step, graph.ranges, per_claim, &Work::recompute_weights);
  });
  if (step.last)
    clear_removed(step.plan, step.args.weights, step.plan.problem.weights, step.plan.problem.heads,
                  1);
}

void clear_removed(const heed_graph_attention_plan& plan, void* to, const Layout& layout,
                   std::int64_t heads, std::int64_t features) {
  if (to == nullptr) return;
  const heed_graph& graph = *plan.graph;
  const Threads& threads = plan.context->threads;
  each_range(threads, Ranges::of(threads, graph.edges_given - graph.edges),
             [&](std::int64_t, std::int64_t begin, std::int64_t end) {
               for (std::int64_t e = graph.edges + begin; e < graph.edges + end; ++e)
                 for (std::int64_t h = 0; h < heads; ++h)
                   for (std::int64_t x = 0; x < features; ++x)
                     std::fill_n(row_at(to, layout, 0, h, graph.given(e)) +
                                     x * layout.strides.feature * layout.bytes,
                                 layout.bytes, std::byte{0});
             });
}

GraphStep begin_step(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
                     const Tensor& data, std::byte* workspace, std::int64_t index, bool last) {
  const GraphProblem& p = plan.problem;
  GraphStep step = {
      plan,  args, {args.query, p.query}, {args.key, p.key}, {args.value, p.value}, data, workspace,
      index, last};
  if (!p.is_projected() && p.nodes > 0) project(step);
  return step;
}

void widen_edge_matrices(const heed_graph_attention_plan& plan,
                         const heed_graph_attention_args& args, std::byte* workspace) {
  const GraphProblem& p = plan.problem;
  with_real(p.float64, [&](auto real) {
    using Real = decltype(real);
    const auto widen = [&](const void* matrix, Layout layout, std::int64_t features,
                           std::size_t to) {
      layout.strides.head = features * layout.strides.feature;
      const Gather<Real> from(kernels_of<Real>(*plan.context->kernels), {matrix, layout}, p.heads,
                              features, nullptr);
      const std::int64_t row = p.heads * Gather<Real>::padded(features);
      for (std::int64_t c = 0; matrix != nullptr && c < p.edge_width; ++c)
        from.copy(c, at<Real>(workspace, to) + c * row);
    };
    widen(args.w_edge_key, p.w_edge_key.layout, p.features, plan.space.w_edge_key);
    widen(args.w_edge_value, p.w_edge_value.layout, p.value_features, plan.space.w_edge_value);
  });
}

namespace {

/// out where it lies, or a copy if its heads do not lie side by side.
Tensor out_as_data(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
                   std::byte* workspace) {
  const GraphProblem& p = plan.problem;
  const Strides& s = p.out.strides;
  if (!p.copies_data()) return {args.out, {p.out.type, p.out.bytes, {0, 0, s.row, s.feature}}};
  return with_real(p.float64, [&](auto real) -> Tensor {
    using Real = decltype(real);
    Real* const copy = at<Real>(workspace, plan.space.data);
    each_range(plan.context->threads, Ranges::of(plan.context->threads, p.nodes),
               [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                 for (std::int64_t n = begin; n < end; ++n)
                   read_row(kernels_of<Real>(*plan.context->kernels), p, {args.out, p.out}, n,
                            copy + n * p.width);
               });
    return {copy, {kTypeOf<Real>, sizeof(Real), {0, 0, p.width, 1}}};
  });
}

}  // namespace

void run_plan(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
              void* workspace, std::size_t bytes) {
  const GraphProblem& p = plan.problem;
  validate(p, args, plan.context->backend);
  check_workspace(plan.space.bytes, workspace, bytes);
  if (p.nodes == 0) return;
  auto* const space = static_cast<std::byte*>(workspace);
  widen_edge_matrices(plan, args, space);
  Tensor data = {args.data, p.data};
  for (std::int64_t t = 0; t < p.steps; ++t) {
    if (t > 0) data = out_as_data(plan, args, space);
    run_step(begin_step(plan, args, data, space, t, t + 1 == p.steps));
  }
}

heed_graph_projections project_plan(const heed_graph_attention_plan& plan,
                                    const heed_graph_attention_args& args, void* workspace,
                                    std::size_t bytes) {
  const GraphProblem& p = plan.problem;
  if (p.is_projected())
    refuse("desc.inputs of the plan is HEED_GRAPH_PROJECTED (0); there is nothing to project");
  validate_inputs(p, args, plan.context->backend);
  check_workspace(plan.space.bytes, workspace, bytes);
  const GraphStep step =
      begin_step(plan, args, {args.data, p.data}, static_cast<std::byte*>(workspace), 0, false);
  const auto layout = [&](const Layout& made) {
    const Strides& s = made.strides;
    const std::uint32_t dtype = p.float64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
    return heed_layout{dtype, HEED_STRIDES_EXPLICIT, s.batch, s.head, s.row, s.feature};
  };
  heed_graph_projections made = HEED_GRAPH_PROJECTIONS_INIT;
  made.query = step.query.data;
  made.key = step.key.data;
  made.value = step.value.data;
  made.query_layout = layout(p.query);
  made.key_layout = layout(p.key);
  made.value_layout = layout(p.value);
  return made;
}

}  // namespace heed
