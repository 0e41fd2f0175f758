#include "engine/graph/project.hpp"

#include "engine/parallel/parallel_for.hpp"

namespace heed {
namespace {

/// Data times each node's own matrices. These are read once, so that all that counts is to read
/// them as they lie: by rows if features out are side by side, else by columns.
template <class Real>
class NodeProducts {
 public:
  NodeProducts(const GraphStep& step, std::byte* slab)
      : step_(step),
        kernels_(kernels_of<Real>(*step.plan.context->kernels)),
        data_(at<Real>(slab, step.plan.slab.data)),
        rows_(at<Real>(slab, step.plan.slab.matrix)),
        product_(at<Real>(slab, step.plan.slab.projected)) {}

  void project(std::int64_t node) const {
    const GraphProblem& p = step_.plan.problem;
    const Gather<Real> data(kernels_, step_.data, 1, p.width, nullptr);
    data.copy(node, data_);
    multiply(node, p.w_query, step_.args.w_query, step_.query);
    multiply(node, p.w_key, step_.args.w_key, step_.key);
    multiply(node, p.w_value, step_.args.w_value, step_.value);
  }

 private:
  void multiply(std::int64_t node, const Matrix& matrix, const void* numbers,
                const Tensor& to) const {
    const Strides& s = matrix.layout.strides;
    const std::byte* const begin = row_at(numbers, matrix.layout, node, 0, 0);
    if (magnitude(s.feature) <= magnitude(s.row)) {
      add_rows(begin, matrix);
    } else {
      multiply_columns(begin, matrix);
    }
    kernels_.numbers.write(to.layout.type, product_, static_cast<std::size_t>(matrix.out),
                           row_at(const_cast<void*>(to.data), to.layout, 0, 0, node), 1);
  }

  /// product[j] = sum over i of data[i] * row i [j].
  void add_rows(const std::byte* begin, const Matrix& matrix) const {
    const Strides& s = matrix.layout.strides;
    each_line(begin, matrix.layout, s.row, s.feature, matrix.in, matrix.out,
              [&](const Batch& batch, const EdgeRows<Real>& rows, std::size_t width) {
                kernels_.rows.edge_values(rows, batch.edges, data_ + batch.begin, 1, 1, width,
                                          product_, batch.begin == 0);
              });
  }

  /// product[j] = <column j, data>.
  void multiply_columns(const std::byte* begin, const Matrix& matrix) const {
    const Strides& s = matrix.layout.strides;
    each_line(begin, matrix.layout, s.feature, s.row, matrix.out, matrix.in,
              [&](const Batch& batch, const EdgeRows<Real>& columns, std::size_t width) {
                kernels_.rows.edge_scores(columns, batch.edges, data_, 1, width, true,
                                          product_ + batch.begin, 1);
              });
  }

  /// Calls function(batch, lines, their width) for all `count` lines of a matrix, `step` apart.
  template <class Function>
  void each_line(const std::byte* begin, const Layout& layout, std::int64_t step,
                 std::int64_t within, std::int64_t count, std::int64_t width,
                 Function&& function) const {
    const Layout lines = {layout.type, layout.bytes, {0, 0, step, within}};
    each_batch(0, count, [&](const Batch& batch) {
      const Tensor some = {begin + batch.begin * step * layout.bytes, lines};
      const Gather<Real> gather(kernels_, some, 1, width, rows_);
      function(batch, gather.rows(kConsecutive.row, batch.edges), gather.features());
    });
  }

  const GraphStep& step_;
  const KernelTable<Real>& kernels_;
  Real* const data_;
  Real* const rows_;
  Real* const product_;
};

template <class Real>
void project_nodes(const GraphStep& step) {
  const heed_graph_attention_plan& plan = step.plan;
  std::byte* const slabs = step.workspace + plan.space.slabs;
  parallel_for(plan.context->threads, {plan.problem.nodes, kNodesPerClaim, plan.project_workers},
               [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                 const NodeProducts<Real> products(step, slabs + worker * plan.space.slab_bytes);
                 for (std::int64_t n = begin; n < end; ++n) products.project(n);
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
