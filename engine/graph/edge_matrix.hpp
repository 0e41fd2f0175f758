// A matrix that edge data is multiplied with, W_edge_key or W_edge_value, as nodes use it: once per
// node, not once per edge.
#pragma once

#include "engine/graph/step.hpp"

namespace heed {

template <class Real>
class EdgeMatrix {
 public:
  /// Which matrix: it multiplies queries, or what becomes of values.
  enum Of { kKeys, kValues };

  EdgeMatrix(const GraphThread<Real>& on, Of of)
      : on_(on),
        features_(static_cast<std::size_t>(
            Gather<Real>::padded(of == kKeys ? on.problem.features : on.problem.value_features))) {
    const heed_graph_attention_args& args = on.step.args;
    const GraphSpace& space = on.step.plan.space;
    if ((of == kKeys ? args.w_edge_key : args.w_edge_value) != nullptr)
      numbers_ = at<Real>(on.step.workspace, of == kKeys ? space.w_edge_key : space.w_edge_value);
  }

  bool given() const { return numbers_ != nullptr; }
  std::size_t padded_width() const { return padded_; }
  /// Row c of all heads, [heads][features].
  const Real* row(std::int64_t c) const { return numbers_ + static_cast<std::size_t>(c) * row_; }

  /// to[h][c] = <row c of head h, rows[h]>: <q, W^T f> = <W q, f>. rows is [heads][features].
  void ask(const Real* rows, Real* to) const {
    each_panel(on_.kernels, on_.problem.heads, [&](const PanelRows& panel) {
      each_lines([&](std::size_t c, const EdgeRows& lines, std::size_t count) {
        multiply_rows(on_.kernels, panel, lines, count, rows, features_, true,
                      products_ + c * panel.pitch);
      });
      Real* row = to + static_cast<std::size_t>(panel.first) * padded_;
      for (std::size_t h = 0; h < panel.rows; ++h, row += padded_) {
        std::fill_n(row, padded_, Real{0});
        for (std::size_t c = 0; c < width_; ++c) row[c] = products_[c * panel.pitch + h];
      }
    });
  }

  /// to[h] += the sum over c of sums[h][c] times row c of head h, for the panel's heads: the sum of
  /// p (W^T f) = W^T (sum of p f). `sums` is [heads][edge_width], padded.
  void add(const PanelRows& panel, const Real* sums, Real* to) const {
    const Real* from = sums + static_cast<std::size_t>(panel.first) * padded_;
    for (std::size_t h = 0; h < panel.rows; ++h, from += padded_)
      for (std::size_t c = 0; c < width_; ++c) products_[c * panel.pitch + h] = from[c];
    each_lines([&](std::size_t c, const EdgeRows& lines, std::size_t count) {
      sum_rows(on_.kernels, panel, lines.from_head(panel.first), count, products_ + c * panel.pitch,
               features_, false, to);
    });
  }

  /// to[h][x] += the sum over c of data[c] times row c of head h.
  void add_row(const Real* data, Real* to) const {
    each_lines([&](std::size_t c, const EdgeRows& lines, std::size_t count) {
      on_.kernels.rows.edge_values(lines, count, data + c, 1, 1, row_, to, false);
    });
  }

 private:
  /// Calls function(c, lines, count) for the lines [c, c + count) of the matrix.
  template <class Function>
  void each_lines(Function&& function) const {
    each_batch(0, on_.problem.edge_width, [&](const Batch& b) {
      function(static_cast<std::size_t>(b.begin), consecutive_rows(row(b.begin), row_, features_),
               b.edges);
    });
  }

  const GraphThread<Real>& on_;
  const std::size_t features_;
  const std::size_t row_ = on_.heads * features_;
  const std::size_t width_ = static_cast<std::size_t>(on_.problem.edge_width);
  const std::size_t padded_ =
      static_cast<std::size_t>(Gather<Real>::padded(on_.problem.edge_width));
  Real* const products_ = on_.buffer(&NodeSlab::products);  ///< [edge_width][kMaxPanel]
  const Real* numbers_ = nullptr;  ///< [edge_width][heads][features], padded; nullptr: no matrix
};

}  // namespace heed
