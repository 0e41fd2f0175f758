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
      : kernels_(on.kernels),
        heads_(on.problem.heads),
        width_(static_cast<std::size_t>(on.problem.edge_width)),
        padded_(static_cast<std::size_t>(Gather<Real>::padded(on.problem.edge_width))),
        features_(static_cast<std::size_t>(
            Gather<Real>::padded(of == kKeys ? on.problem.features : on.problem.value_features))),
        products_(on.buffer(&NodeSlab::products)) {
    const GraphStep& step = on.step;
    if ((of == kKeys ? step.args.w_edge_key : step.args.w_edge_value) != nullptr)
      numbers_ = at<Real>(step.workspace,
                          of == kKeys ? step.plan.space.w_edge_key : step.plan.space.w_edge_value);
  }

  bool given() const { return numbers_ != nullptr; }
  std::size_t padded_width() const { return padded_; }
  /// Row c of all heads, [heads][features].
  const Real* row(std::int64_t c) const {
    return numbers_ + c * heads_ * static_cast<std::int64_t>(features_);
  }

  /// to[h][c] = <row c of head h, rows[h]>: <q, W^T f> = <W q, f>. rows is [heads][features].
  void ask(const Real* rows, Real* to) const {
    each_panel(kernels_, heads_, [&](const PanelRows& panel) {
      const Real* const from = rows + static_cast<std::size_t>(panel.first) * features_;
      each_lines([&](std::size_t c, const EdgeRows& lines, std::size_t count) {
        kernels_.rows.edge_scores(of_panel(lines, panel), count, from, panel.rows, features_, true,
                                  products_ + c * panel.pitch, panel.pitch);
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
    const auto first = static_cast<std::size_t>(panel.first);
    const Real* from = sums + first * padded_;
    for (std::size_t h = 0; h < panel.rows; ++h, from += padded_)
      for (std::size_t c = 0; c < width_; ++c) products_[c * panel.pitch + h] = from[c];
    each_lines([&](std::size_t c, const EdgeRows& lines, std::size_t count) {
      kernels_.rows.edge_values(of_panel(lines, panel), count, products_ + c * panel.pitch,
                                panel.pitch, panel.rows, features_, to + first * features_, false);
    });
  }

  /// to[h][x] += the sum over c of data[c] times row c of head h.
  void add_row(const Real* data, Real* to) const {
    const std::size_t width = static_cast<std::size_t>(heads_) * features_;
    each_lines([&](std::size_t c, const EdgeRows& lines, std::size_t count) {
      kernels_.rows.edge_values(lines, count, data + c, 1, 1, width, to, false);
    });
  }

 private:
  /// Calls function(c, lines, count) for the lines [c, c + count) of the matrix.
  template <class Function>
  void each_lines(Function&& function) const {
    const std::int64_t stride = heads_ * static_cast<std::int64_t>(features_);
    each_batch(0, static_cast<std::int64_t>(width_), [&](const Batch& b) {
      const EdgeRows lines = consecutive_rows(numbers_ + b.begin * stride,
                                              static_cast<std::size_t>(stride), features_);
      function(static_cast<std::size_t>(b.begin), lines, b.edges);
    });
  }

  const KernelTable<Real>& kernels_;
  const std::int64_t heads_;
  const std::size_t width_, padded_, features_;
  Real* const products_;           ///< [edge_width][kMaxPanel]
  const Real* numbers_ = nullptr;  ///< [edge_width][heads][features], padded; nullptr: no matrix
};

}  // namespace heed
