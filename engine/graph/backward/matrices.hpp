// Gradients of matrices, and of the data that they project.
#pragma once

#include "engine/graph/backward/step.hpp"
#include "engine/projection/over_rows.hpp"

namespace heed {

/// Where a step leaves the gradients of what it has projected.
struct GradientOfProjections {
  GradientTarget query, key, value;
};

template <class Real>
class MatrixGradients {
 public:
  MatrixGradients(const heed_graph_attention_backward_plan& plan, const GraphBackwardArgs& args,
                  std::byte* space);

  GradientOfProjections projections() const;

  /// Adds a step's share to the gradients of W_edge_key and W_edge_value.
  void add_edges(const GraphBackwardStep& step) const;

  /// Adds a step's share to those of W_query and so on. Returns the gradient of its data, step t's.
  Tensor go_back(const GraphBackwardStep& step, std::int64_t t) const;

  /// Writes the sums of all steps.
  void write() const;

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
  void each_projection(Function&& function) const;

  InputRows rows_of(const GradientTarget& made) const;
  Real* room(std::size_t offset) const { return at<Real>(space_, offset); }
  void add_edge_matrix(const GraphBackwardStep& step, const MatmulPlan& plan, std::size_t kept,
                       const Tensor& with, std::int64_t features, Real* sums) const;
  void write_edge_matrix(const Real* sums, std::int64_t features, void* to, const Matrix& as) const;
  void begin_data(const GraphBackwardStep& step, Real* to) const;
  void go_back_node(const GraphBackwardStep& step, std::int64_t node, std::byte* slab,
                    Real* grad_data) const;
  void write_node_matrix(const GraphBackwardStep& step, const Projection& one, std::int64_t node,
                         const Real* data, const Real* grad, Real* room) const;

  const heed_graph_attention_backward_plan& plan_;
  const GraphProblem& problem_;
  const GraphBackwardArgs& args_;
  const KernelTable<Real>& kernels_;
  std::byte* const space_;
  const RunThreads threads_;
};

extern template class MatrixGradients<float>;
extern template class MatrixGradients<double>;

}  // namespace heed
