// Gradients of matrices, and of the data that they project.
#pragma once

#include <algorithm>

#include "engine/graph/backward/step.hpp"
#include "engine/graph/node_products.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/projection/over_rows.hpp"

namespace heed {

/// Where a step leaves the gradients of what it has projected.
struct GradientOfProjections {
  GradientTarget query, key, value;
};

/// sums[i] += terms of all ranges, [ranges][count], in order.
template <class Real, class Sum>
void add_ranges(const Real* terms, std::size_t ranges, std::int64_t count, Sum* sums) {
  for (std::size_t range = 0; range < ranges; ++range, terms += count)
    for (std::int64_t i = 0; i < count; ++i) sums[i] += static_cast<Sum>(terms[i]);
}

template <class Real>
class MatrixGradients {
 public:
  MatrixGradients(const heed_graph_attention_backward_plan& plan, const GraphBackwardArgs& args,
                  std::byte* space)
      : plan_(plan),
        problem_(plan.problem.attention),
        args_(args),
        kernels_(kernels_of<Real>(*plan.context->kernels)),
        space_(space),
        threads_{*plan.context, plan.workers, space + plan.space.slabs, plan.space.slab_bytes} {}

  GradientOfProjections projections() const {
    const auto rows = [&](std::size_t offset, std::int64_t features) {
      const std::int64_t row = problem_.heads * features;
      return GradientTarget{
          space_ + offset, {kTypeOf<Real>, sizeof(Real), {0, features, row, 1}}, false};
    };
    return {rows(plan_.space.query, problem_.features), rows(plan_.space.key, problem_.features),
            rows(plan_.space.value, problem_.value_features)};
  }

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
    const Layout layout = {kTypeOf<Real>, sizeof(Real), {0, 0, problem_.width, 1}};
    Layout rows = layout;  // as a result of the step before
    rows.strides.head = problem_.value_features;
    begin_data(step, to);
    if (problem_.inputs == HEED_GRAPH_PER_NODE) {
      parallel_for(plan_.context->threads, {problem_.nodes, kNodesPerClaim, plan_.workers},
                   [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                     std::byte* const slab = threads_.slabs + worker * threads_.slab_bytes;
                     for (std::int64_t n = begin; n < end; ++n)
                       go_back_node(step, n, slab, to + n * problem_.width);
                   });
      return {to, rows};
    }
    const Tensor& data = step.forward.data;
    const InputRows x = {data.data, data.layout, problem_.nodes};
    each_projection([&](const Projection& one) {
      if (one.to != nullptr)
        multiply_over_rows(threads_, one.over, {x, rows_of(one.made), problem_.nodes}, one.sums,
                           !step.last);
      if (one.to_bias != nullptr)
        write_sum_of_rows(threads_, problem_.float64, rows_of(one.made), problem_.nodes,
                          {one.to_bias,
                           {kTypeOf<Real>, sizeof(Real), {0, 0, 0, 1}},
                           1,
                           one.matrix.out,
                           step.adds()});
    });
    if (t == 0 && args_.given.grad_data == nullptr) return {to, rows};
    each_projection([&](const Projection& one) {
      const PlainMatrix w = transposed({one.matrix, one.w});
      Matmul matmul = {&one.back,
                       problem_.nodes,
                       rows_of(one.made),
                       {nullptr, &w.matrix, w.data, nullptr, {}},
                       {to, layout, problem_.nodes, problem_.width}};
      matmul.adds = true;
      run_matmuls(threads_.context, &matmul, 1, threads_.workers, threads_.slabs,
                  threads_.slab_bytes);
    });
    return {to, rows};
  }

  /// Writes the sums of all steps.
  void write() const {
    const heed_graph_attention_backward_args& to = args_.given;
    if (problem_.nodes == 0) {
      const auto clear = [&](Real* sums, std::int64_t in, std::int64_t out) {
        std::fill_n(sums, in * out, Real{0});
      };
      if (problem_.inputs == HEED_GRAPH_SHARED)
        each_projection([&](const Projection& one) {
          clear(one.sums, one.matrix.in, one.matrix.out);
          if (one.to_bias != nullptr && !plan_.problem.accumulate)
            clear(static_cast<Real*>(one.to_bias), 1, one.matrix.out);
        });
      clear(buffer(plan_.space.w_edge_key), problem_.edge_width, problem_.keys_width);
      clear(buffer(plan_.space.w_edge_value), problem_.edge_width, problem_.values_width);
    }
    write_edge_matrix(buffer(plan_.space.w_edge_key), problem_.features, to.grad_w_edge_key,
                      plan_.problem.grad_w_edge_key);
    write_edge_matrix(buffer(plan_.space.w_edge_value), problem_.value_features,
                      to.grad_w_edge_value, plan_.problem.grad_w_edge_value);
    if (problem_.inputs != HEED_GRAPH_SHARED) return;
    each_projection([&](const Projection& one) {
      if (one.to != nullptr)
        write_rows(
            threads_, problem_.float64, one.sums, 0, one.matrix.in,
            {one.to, one.as.layout, one.matrix.in, one.matrix.out, plan_.problem.accumulate});
    });
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

  /// Calls function(projection) for all of them.
  template <class Function>
  void each_projection(Function&& function) const {
    const heed_graph_attention_args& a = args_.attention;
    const heed_graph_attention_backward_args& to = args_.given;
    const GraphBackwardProblem& p = plan_.problem;
    const GraphBackwardMatmuls& m = plan_.matmuls;
    const GradientOfProjections made = projections();
    function(Projection{a.w_query, problem_.w_query, made.query, m.w_keys, m.keys,
                        buffer(plan_.space.w_query), to.grad_w_query, p.grad_w_query,
                        to.grad_b_query});
    function(Projection{a.w_key, problem_.w_key, made.key, m.w_keys, m.keys,
                        buffer(plan_.space.w_key), to.grad_w_key, p.grad_w_key, to.grad_b_key});
    function(Projection{a.w_value, problem_.w_value, made.value, m.w_values, m.values,
                        buffer(plan_.space.w_value), to.grad_w_value, p.grad_w_value,
                        to.grad_b_value});
  }

  /// All heads of a node side by side.
  InputRows rows_of(const GradientTarget& made) const {
    Layout layout = made.layout;
    layout.strides.head = 0;
    return {made.data, layout, problem_.nodes};
  }

  Real* buffer(std::size_t offset) const { return at<Real>(space_, offset); }

  /// The residual's share, or nothing.
  void begin_data(const GraphBackwardStep& step, Real* to) const {
    parallel_for(plan_.context->threads, {problem_.nodes, kNodesPerClaim, plan_.workers},
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
                   for (std::int64_t n = begin; n < end; ++n) {
                     Real* const row = to + n * problem_.width;
                     if (problem_.residual) {
                       read_row(kernels_, problem_, step.grad_out, n, row);
                     } else {
                       std::fill_n(row, problem_.width, Real{0});
                     }
                   }
                 });
  }

  /// Matrices of the node's own: their gradients are written at once, and data's grows.
  void go_back_node(const GraphBackwardStep& step, std::int64_t node, std::byte* slab,
                    Real* grad_data) const {
    const NodeProducts<Real> products(plan_.attention, slab);
    Real* const data = at<Real>(slab, plan_.attention.slab.data);
    Real* const grad = at<Real>(slab + plan_.attention.slab.bytes, plan_.slab.rows);
    const Gather<Real> data_of(kernels_, step.forward.data, 1, problem_.width, nullptr);
    data_of.copy(node, data);
    each_projection([&](const Projection& one) {
      const std::int64_t out = one.matrix.out;
      const std::int64_t padded = Gather<Real>::padded(out);
      std::copy_n(static_cast<const Real*>(one.made.data) + node * out, out, grad);
      std::fill(grad + out, grad + padded, Real{0});
      if (one.to != nullptr) write_node_matrix(step, one, node, data, grad, grad + padded);
      Matrix w = transposed(PlainMatrix{one.matrix, one.w}).matrix;
      w.layout.strides.batch = one.matrix.layout.strides.batch;
      const Real* const product = products.multiply(node, w, one.w, grad);
      for (std::int64_t x = 0; x < problem_.width; ++x) grad_data[x] += product[x];
    });
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
          {row_at(with.data, with.layout, 0, h, 0), with.layout, problem_.nodes},
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
  const GraphProblem& problem_;
  const GraphBackwardArgs& args_;
  const KernelTable<Real>& kernels_;
  std::byte* const space_;
  const RunThreads threads_;
};

}  // namespace heed
