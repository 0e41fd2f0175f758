// A matrix that edge data is multiplied with, W_edge_key or W_edge_value, as nodes use it: once per
// node, not once per edge.
#pragma once

#include "engine/graph/step.hpp"

namespace heed {

template <class Real>
class EdgeMatrix {
 public:
  /// `numbers` lie in the workspace as [edge_width][heads][features], padded; nullptr: there is
  /// none. `products` is [edge_width][kMaxPanel] of the thread's.
  EdgeMatrix(const GraphStep& step, const Real* numbers, std::size_t features, Real* products)
      : kernels_(kernels_of<Real>(*step.plan.context->kernels)),
        heads_(step.plan.problem.heads),
        width_(static_cast<std::size_t>(step.plan.problem.edge_width)),
        padded_(static_cast<std::size_t>(Gather<Real>::padded(step.plan.problem.edge_width))),
        numbers_(numbers),
        features_(features),
        products_(products) {}

  bool given() const { return numbers_ != nullptr; }
  std::size_t padded_width() const { return padded_; }

  /// to[h][c] = <row c of head h, rows[h]>: <q, W^T f> = <W q, f>. rows is [heads][features].
  void ask(const Real* rows, Real* to) const {
    each_panel(kernels_, heads_, [&](const PanelRows& panel) {
      const Real* const from = rows + static_cast<std::size_t>(panel.first) * features_;
      each_lines([&](std::size_t c, const EdgeRows<Real>& lines, std::size_t count) {
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
    each_lines([&](std::size_t c, const EdgeRows<Real>& lines, std::size_t count) {
      kernels_.rows.edge_values(of_panel(lines, panel), count, products_ + c * panel.pitch,
                                panel.pitch, panel.rows, features_, to + first * features_, false);
    });
  }

 private:
  /// Calls function(c, lines, count) for the lines [c, c + count) of the matrix.
  template <class Function>
  void each_lines(Function&& function) const {
    const std::int64_t stride = heads_ * static_cast<std::int64_t>(features_);
    each_batch(0, static_cast<std::int64_t>(width_), [&](const Batch& b) {
      const EdgeRows<Real> lines = {numbers_ + b.begin * stride, kConsecutive.row, stride,
                                    static_cast<std::ptrdiff_t>(features_)};
      function(static_cast<std::size_t>(b.begin), lines, b.edges);
    });
  }

  const KernelTable<Real>& kernels_;
  const std::int64_t heads_;
  const std::size_t width_, padded_;
  const Real* const numbers_;
  const std::size_t features_;
  Real* const products_;
};

}  // namespace heed
