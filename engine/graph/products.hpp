// Rows of nodes times matrices: one that edge data is multiplied with, and the nodes' own.
#pragma once

#include "engine/graph/step.hpp"

namespace heed {

/// A matrix that edge data is multiplied with, W_edge_key or W_edge_value, as nodes use it: once
/// per node, not once per edge.
template <class Real>
class EdgeMatrix {
 public:
  /// The matrix as widen_edge_matrices() has left it, if it is `given`; features are of keys or
  /// values, padded.
  EdgeMatrix(const GraphThread<Real>& on, const void* given, std::size_t widened,
             std::size_t features)
      : on_(on),
        features_(features),
        numbers_(given == nullptr ? nullptr : at<Real>(on.step.workspace, widened)) {}

  bool given() const { return numbers_ != nullptr; }
  /// Row c of all heads, [heads][features].
  const Real* row(std::int64_t c) const { return numbers_ + static_cast<std::size_t>(c) * row_; }

  /// to[h][c] = <row c of head h, rows[h]>: <q, W^T f> = <W q, f>. rows is [heads][features].
  void ask(const Real* rows, Real* to) const {
    on_.each_panel([&](const PanelRows& panel) {
      each_batch(0, on_.problem.edge_width, [&](const Batch& batch) {
        on_.multiply_rows(panel, lines(batch), batch.edges, rows, features_, true,
                          products_ + static_cast<std::size_t>(batch.begin) * panel.pitch);
      });
      Real* row = to + static_cast<std::size_t>(panel.first) * on_.edge_width;
      for (std::size_t h = 0; h < panel.rows; ++h, row += on_.edge_width) {
        std::fill_n(row, on_.edge_width, Real{0});
        for (std::size_t c = 0; c < width_; ++c) row[c] = products_[c * panel.pitch + h];
      }
    });
  }

  /// to[h] += the sum over c of sums[h][c] times row c of head h, for the panel's heads: the sum of
  /// p (W^T f) = W^T (sum of p f). `sums` is [heads][edge_width], padded.
  void add(const PanelRows& panel, const Real* sums, Real* to) const {
    const Real* from = sums + static_cast<std::size_t>(panel.first) * on_.edge_width;
    for (std::size_t h = 0; h < panel.rows; ++h, from += on_.edge_width)
      for (std::size_t c = 0; c < width_; ++c) products_[c * panel.pitch + h] = from[c];
    each_batch(0, on_.problem.edge_width, [&](const Batch& batch) {
      on_.sum_rows(panel, lines(batch).from_head(panel.first), batch.edges,
                   products_ + static_cast<std::size_t>(batch.begin) * panel.pitch, features_,
                   false, to);
    });
  }

  /// to[h][x] += the sum over c of data[c] times row c of head h.
  void add_row(const Real* data, Real* to) const {
    each_batch(0, on_.problem.edge_width, [&](const Batch& batch) {
      on_.kernels.rows.edge_values(lines(batch), batch.edges, data + batch.begin, 1, 1, row_, to,
                                   false);
    });
  }

 private:
  /// Some lines of the matrix, as rows of edges.
  EdgeRows lines(const Batch& batch) const {
    return consecutive_rows(row(batch.begin), row_, features_);
  }

  const GraphThread<Real>& on_;
  const std::size_t features_;
  const Real* const numbers_;  ///< [edge_width][heads][features], padded; nullptr: no matrix
  const std::size_t row_ = on_.heads * features_;
  const std::size_t width_ = static_cast<std::size_t>(on_.problem.edge_width);
  Real* const products_ = on_.buffer(&NodeSlab::products);  ///< [edge_width][kMaxPanel]
};

/// Rows times matrices of their own, one for each node. They are read once, so that all that counts
/// is to read them as they lie: by rows if features out are side by side, else by columns.
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
