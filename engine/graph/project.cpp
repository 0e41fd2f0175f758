#include "engine/graph/node_products.hpp"
#include "engine/parallel/parallel_for.hpp"

namespace heed {
namespace {

template <class Real>
void project_nodes(const GraphStep& step, std::int64_t begin, std::int64_t end, std::byte* slab) {
  const GraphProblem& p = step.plan.problem;
  const NodeProducts<Real> products(step.plan, slab);
  const KernelTable<Real>& kernels = kernels_of<Real>(*step.plan.context->kernels);
  Real* const row = at<Real>(slab, step.plan.slab.data);
  const Gather<Real> data(kernels, step.data, 1, p.width, nullptr);
  for (std::int64_t n = begin; n < end; ++n) {
    data.copy(n, row);
    const auto project = [&](const Matrix& matrix, const void* numbers, const Tensor& to) {
      kernels.numbers.write(to.layout.type, products.multiply(n, matrix, numbers, row),
                            static_cast<std::size_t>(matrix.out),
                            row_at(const_cast<void*>(to.data), to.layout, 0, 0, n), 1);
    };
    project(p.w_query, step.args.w_query, step.query);
    project(p.w_key, step.args.w_key, step.key);
    project(p.w_value, step.args.w_value, step.value);
  }
}

template <class Real>
void project_nodes(const GraphStep& step) {
  const heed_graph_attention_plan& plan = step.plan;
  std::byte* const slabs = step.workspace + plan.space.slabs;
  parallel_for(plan.context->threads, {plan.problem.nodes, kNodesPerClaim, plan.project_workers},
               [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                 project_nodes<Real>(step, begin, end, slabs + worker * plan.space.slab_bytes);
               });
}

/// Data times matrices that all nodes share: the products of multi-head blocks.
void project_together(const GraphStep& step) {
  const heed_graph_attention_plan& plan = step.plan;
  const GraphProblem& p = plan.problem;
  const heed_graph_attention_args& args = step.args;
  const auto matmul = [&](const MatmulPlan& planned, const MatrixArgument& w, const Tensor& to) {
    return Matmul{&planned,
                  p.nodes,
                  {step.data.data, step.data.layout, p.nodes},
                  w,
                  {const_cast<void*>(to.data), to.layout, p.nodes, to.layout.strides.head}};
  };
  const Matmul matmuls[] = {
      matmul(plan.matmuls.query, {args.p_query, &p.w_query, args.w_query, args.b_query, p.bias},
             step.query),
      matmul(plan.matmuls.key, {args.p_key, &p.w_key, args.w_key, args.b_key, p.bias}, step.key),
      matmul(plan.matmuls.value, {args.p_value, &p.w_value, args.w_value, args.b_value, p.bias},
             step.value)};
  run_matmuls(*plan.context, matmuls, 3, plan.project_workers, step.workspace + plan.space.slabs,
              plan.space.slab_bytes);
}

}  // namespace

void project(GraphStep& step) {
  const heed_graph_attention_plan& plan = step.plan;
  const GraphProblem& p = plan.problem;
  std::byte* const both = step.workspace + plan.space.key_value;
  step.query = {step.workspace + plan.space.query, plan.query};
  step.key = {both, plan.key};
  step.value = {both + p.keys_width * plan.key.bytes, plan.value};
  if (p.inputs == HEED_GRAPH_SHARED) return project_together(step);
  with_real(p.float64, [&](auto real) { project_nodes<decltype(real)>(step); });
}

}  // namespace heed
