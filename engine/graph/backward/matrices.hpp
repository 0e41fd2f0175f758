// Gradients of matrices, and of the data that they project.
#pragma once

#include <algorithm>

#include "engine/graph/backward/step.hpp"
#include "engine/graph/products.hpp"
#include "engine/projection/over_rows.hpp"

namespace heed {

template <class Real>
class MatrixGradients {
 public:
  MatrixGradients(const heed_graph_attention_backward_plan& plan, const GraphBackwardArgs& args,
                  std::byte* space)
      : plan_(plan), args_(args), space_(space) {}

  /// Where a step leaves the gradients of what it has projected: of query, key and value.
  GradientTarget made(int projection) const { return projections_[projection].made; }

  /// Adds a step's share to the gradients of W_edge_key and W_edge_value.
  void add_edges(const GraphBackwardStep& step) const {
    const heed_graph_attention_backward_args& to = args_.given;
    if (to.grad_w_edge_key != nullptr && !problem_.is_product())
      sum_edge_keys(step, buffer(plan_.space.w_edge_key));
    else if (to.grad_w_edge_key != nullptr)
      add_edge_matrix(step, plan_.matmuls.edge_keys, plan_.space.edge_keys, step.forward.query,
                      problem_.features, buffer(plan_.space.w_edge_key));
    if (to.grad_w_edge_value != nullptr)
      add_edge_matrix(step, plan_.matmuls.edge_values, plan_.space.edge_values,
                      step.template grad_of_heads<Real>(), problem_.value_features,
                      buffer(plan_.space.w_edge_value));
  }

  /// Adds a step's share to the gradients of W_query and so on. Returns the gradient of its data,
  /// step t's.
  Tensor go_back(const GraphBackwardStep& step, std::int64_t t) const {
    Real* const to = buffer(plan_.space.grad_data[t % 2]);
    // It is the gradient of a result of the step before, whose heads lie side by side.
    const Tensor grad = {
        to, {kTypeOf<Real>, sizeof(Real), {0, problem_.value_features, problem_.width, 1}}};
    const bool own = problem_.inputs == HEED_GRAPH_PER_NODE;
    share_out(threads_, static_cast<std::size_t>(problem_.nodes), kNodesPerClaim,
              [&](std::int64_t begin, std::int64_t end, std::byte* slab) {
                for (std::int64_t n = begin; n < end; ++n) {
                  Real* const row = to + n * problem_.width;
                  if (problem_.residual)
                    read_row(kernels_, problem_, step.grad_out, n, row);
                  else
                    std::fill_n(row, problem_.width, Real{0});
                  if (own) go_back_node(step, n, slab, row);
                }
              });
    if (own) return grad;
    const InputRows x = {step.forward.data.data, step.forward.data.layout, problem_.nodes};
    const bool wants_data = problem_.nodes > 0 && (t > 0 || args_.given.grad_data != nullptr);
    for (const Projection& one : projections_) {
      const InputRows made = {one.made.data, one.made.layout, problem_.nodes};
      if (one.to != nullptr)
        multiply_over_rows(threads_, one.over, {x, made, problem_.nodes}, one.sums, !step.last);
      if (one.to_bias != nullptr)
        write_sum_of_rows(threads_, problem_.float64, made, problem_.nodes,
                          {one.to_bias,
                           {kTypeOf<Real>, sizeof(Real), {0, 0, 0, 1}},
                           1,
                           one.matrix.out,
                           step.adds()});
      if (!wants_data) continue;
      const Matmul matmul = {&one.back,
                             problem_.nodes,
                             made,
                             {nullptr, transposed(one.matrix), one.w},
                             {to, grad.layout, problem_.nodes, problem_.width},
                             true};
      run_matmuls(threads_, &matmul, 1);
    }
    return grad;
  }

  /// Writes the sums of all steps.
  void write() const {
    const heed_graph_attention_backward_args& to = args_.given;
    write_edge_matrix(buffer(plan_.space.w_edge_key), problem_.features, to.grad_w_edge_key,
                      plan_.problem.grad_w_edge_key);
    write_edge_matrix(buffer(plan_.space.w_edge_value), problem_.value_features,
                      to.grad_w_edge_value, plan_.problem.grad_w_edge_value);
    for (const Projection& one : projections_)
      if (one.to != nullptr && problem_.shares_matrices())
        write_rows(
            threads_, problem_.float64, one.sums, 0, one.matrix.in,
            {one.to, one.as.layout, one.matrix.in, one.matrix.out, plan_.problem.accumulate});
  }

 private:
  /// One of the three: data times a matrix.
  struct Projection {
    const void* w;
    const Matrix& matrix;
    GradientTarget made;     ///< [nodes][out] in the workspace
    const MatmulPlan& over;  ///< data^T times that
    const MatmulPlan& back;  ///< that times the transposed matrix
    Real* sums;              ///< [in][out]
    void* to;                ///< the gradient of the matrix
    const Matrix& as;        ///< where that lies
    void* to_bias;
  };

  Projection projection(int index, const void* w, const Matrix& matrix, void* to, const Matrix& as,
                        void* to_bias) const {
    const GraphBackwardMatmuls& m = plan_.matmuls;
    const bool value = index == 2;
    const std::int64_t head = matrix.out / problem_.heads;
    const Layout rows = {kTypeOf<Real>, sizeof(Real), {0, head, matrix.out, 1}};
    return {w,
            matrix,
            {space_ + plan_.space.made[index], rows, head, false},
            value ? m.w_values : m.w_keys,
            value ? m.values : m.keys,
            buffer(plan_.space.w[index]),
            to,
            as,
            to_bias};
  }

  Real* buffer(std::size_t offset) const { return at<Real>(space_, offset); }

  /// Matrices of the node's own: their gradients are written at once, and data's grows.
  void go_back_node(const GraphBackwardStep& step, std::int64_t node, std::byte* slab,
                    Real* grad_data) const {
    const NodeProducts<Real> products(plan_.attention, slab);
    Real* const data = at<Real>(slab, plan_.attention.slab.data);
    Real* const grad = at<Real>(slab + plan_.attention.slab.bytes, plan_.slab.rows);
    const Gather<Real> data_of(kernels_, step.forward.data, 1, problem_.width, nullptr);
    data_of.copy(node, data);
    for (const Projection& one : projections_) {
      const std::int64_t out = one.matrix.out;
      const std::int64_t padded = Gather<Real>::padded(out);
      std::copy_n(static_cast<const Real*>(one.made.data) + node * out, out, grad);
      std::fill(grad + out, grad + padded, Real{0});
      if (one.to != nullptr) write_node_matrix(step, one, node, data, grad, grad + padded);
      Matrix w = transposed(one.matrix);
      w.layout.strides.batch = one.matrix.layout.strides.batch;
      const Real* const product = products.multiply(node, w, one.w, grad);
      for (std::int64_t x = 0; x < problem_.width; ++x) grad_data[x] += product[x];
    }
  }

  /// data^T grad, row by row.
  void write_node_matrix(const GraphBackwardStep& step, const Projection& one, std::int64_t node,
                         const Real* data, const Real* grad, Real* buffer) const {
    const std::int64_t out = one.matrix.out;
    for (std::int64_t i = 0; i < problem_.width; ++i) {
      for (std::int64_t x = 0; x < out; ++x) buffer[x] = data[i] * grad[x];
      write_gradient(kernels_, one.as.layout, step.adds(), buffer, out, buffer + out,
                     row_at(one.to, one.as.layout, node, 0, i));
    }
  }

  /// Head by head: sums of edge data of every node, times its query, or the gradient of its result.
  void add_edge_matrix(const GraphBackwardStep& step, const MatmulPlan& plan, std::size_t kept,
                       const Tensor& with, std::int64_t features, Real* sums) const {
    const std::int64_t padded = Gather<Real>::padded(problem_.edge_width);
    const Layout rows = {kTypeOf<Real>, sizeof(Real), {0, 0, problem_.heads * padded, 1}};
    for (std::int64_t h = 0; h < problem_.heads; ++h) {
      const Factors factors = {
          {buffer(kept) + h * padded, rows, problem_.nodes},
          {problem_.nodes == 0 ? nullptr : row_at(with.data, with.layout, 0, h, 0), with.layout,
           problem_.nodes},
          problem_.nodes};
      multiply_over_rows(threads_, plan, factors, sums + h * problem_.edge_width * features,
                         !step.last);
    }
  }

  /// [edge_width][heads][features] of all ranges, to [heads][edge_width][features].
  void sum_edge_keys(const GraphBackwardStep& step, Real* sums) const {
    const std::int64_t features = problem_.features;
    const std::int64_t padded = Gather<Real>::padded(features);
    const std::int64_t row = problem_.heads * padded;
    const Real* const terms = buffer(plan_.space.edge_terms);
    for (std::int64_t i = 0; i < problem_.edge_width * row; ++i) {
      const std::int64_t h = i % row / padded;
      if (i % padded >= features) continue;
      double sum = 0;
      for (std::size_t range = 0; range < plan_.graph->ranges.size(); ++range)
        sum += static_cast<double>(
            terms[static_cast<std::int64_t>(range) * problem_.edge_width * row + i]);
      Real& to = sums[(h * problem_.edge_width + i / row) * features + i % padded];
      to = static_cast<Real>((step.last ? 0 : static_cast<double>(to)) + sum);
    }
  }

  void write_edge_matrix(const Real* sums, std::int64_t features, void* to,
                         const Matrix& as) const {
    if (to == nullptr) return;
    for (std::int64_t h = 0; h < problem_.heads; ++h)
      write_rows(
          threads_, problem_.float64, const_cast<Real*>(sums) + h * problem_.edge_width * features,
          0, problem_.edge_width,
          {static_cast<std::byte*>(to) + h * features * as.layout.strides.feature * as.layout.bytes,
           as.layout, problem_.edge_width, features, plan_.problem.accumulate});
  }

  const heed_graph_attention_backward_plan& plan_;
  const GraphBackwardArgs& args_;
  std::byte* const space_;
  const GraphProblem& problem_ = plan_.problem.attention;
  const KernelTable<Real>& kernels_ = kernels_of<Real>(*plan_.context->kernels);
  const RunThreads threads_ = {*plan_.context, plan_.workers, space_ + plan_.space.slabs,
                               plan_.space.slab_bytes};
  const Projection projections_[3] = {
      projection(0, args_.attention.w_query, problem_.w_query, args_.given.grad_w_query,
                 plan_.problem.grad_w_query, args_.given.grad_b_query),
      projection(1, args_.attention.w_key, problem_.w_key, args_.given.grad_w_key,
                 plan_.problem.grad_w_key, args_.given.grad_b_key),
      projection(2, args_.attention.w_value, problem_.w_value, args_.given.grad_w_value,
                 plan_.problem.grad_w_value, args_.given.grad_b_value)};
};

}  // namespace heed
