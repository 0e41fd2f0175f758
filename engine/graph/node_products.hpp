// Rows times matrices of their own, one for each node.
#pragma once

#include "engine/graph/step.hpp"

namespace heed {

/// These matrices are read once, so that all that counts is to read them as they lie: by rows if
/// features out are side by side, else by columns.
template <class Real>
class NodeProducts {
 public:
  /// The slab is the thread's.
  NodeProducts(const heed_graph_attention_plan& plan, std::byte* slab)
      : kernels_(kernels_of<Real>(*plan.context->kernels)),
        rows_(at<Real>(slab, plan.slab.matrix)),
        product_(at<Real>(slab, plan.slab.projected)) {}

  /// A row times the node's matrix. `row` is padded; the result, too, is the next one's.
  const Real* multiply(std::int64_t node, const Matrix& matrix, const void* numbers,
                       const Real* row) const {
    const Strides& s = matrix.layout.strides;
    const std::byte* const begin = row_at(numbers, matrix.layout, node, 0, 0);
    if (magnitude(s.feature) <= magnitude(s.row)) {
      add_rows(begin, matrix, row);
    } else {
      multiply_columns(begin, matrix, row);
    }
    return product_;
  }

 private:
  /// product[j] = sum over i of row[i] * row i [j] of the matrix.
  void add_rows(const std::byte* begin, const Matrix& matrix, const Real* row) const {
    const Strides& s = matrix.layout.strides;
    each_line(begin, matrix.layout, s.row, s.feature, matrix.in, matrix.out,
              [&](const Batch& batch, const EdgeRows& rows, std::size_t width) {
                kernels_.rows.edge_values(rows, batch.edges, row + batch.begin, 1, 1, width,
                                          product_, batch.begin == 0);
              });
  }

  /// product[j] = <column j, row>.
  void multiply_columns(const std::byte* begin, const Matrix& matrix, const Real* row) const {
    const Strides& s = matrix.layout.strides;
    each_line(begin, matrix.layout, s.feature, s.row, matrix.out, matrix.in,
              [&](const Batch& batch, const EdgeRows& columns, std::size_t width) {
                kernels_.rows.edge_scores(columns, batch.edges, row, 1, width, true,
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

  const KernelTable<Real>& kernels_;
  Real* const rows_;
  Real* const product_;
};

}  // namespace heed
