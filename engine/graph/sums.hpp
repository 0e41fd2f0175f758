// Weighted sums of values and edge data over the edges of a node.
#pragma once

#include "engine/graph/scores.hpp"

namespace heed {

template <class Real>
class EdgeSums {
 public:
  explicit EdgeSums(const GraphThread<Real>& on) : on_(on) {}

  /// [heads][value features], padded.
  Real* values() const { return values_; }
  std::size_t value_size() const { return heads_ * value_of_.features(); }
  /// [heads][edge_width], padded; size 0 if edges add nothing to values.
  Real* edge_data() const { return edge_sums_; }
  std::size_t edge_size() const { return !matrix_.given() ? 0 : heads_ * edge_width_; }

  const Gather<Real>& rows() const { return value_of_; }

  void clear() const {
    std::fill_n(values_, value_size(), Real{0});
    std::fill_n(edge_sums_, edge_size(), Real{0});
  }

  /// Finds the batch's values, and copies them if need be.
  void begin_batch(const Batch& batch) {
    rows_ = value_of_.rows(on_.graph.others.data() + batch.begin, batch.edges);
  }

  /// Adds weight times value. Where the scores leave an edge out for a head, values that are not
  /// finite do not reach the sums. The first batch of a node is `fresh`.
  void add(const PanelRows& panel, const Batch& batch, const EdgeScores<Real>& scores,
           const Real* weights, bool fresh) const {
    const auto first = static_cast<std::size_t>(panel.first);
    const auto add_rows = [&](const EdgeRows& rows, std::size_t features, Real* sums) {
      on_.kernels.rows.edge_values(scores.attended(rows, panel, batch.edges, features), batch.edges,
                                   weights, panel.pitch, panel.rows, features,
                                   sums + first * features, fresh);
    };
    add_rows(rows_, value_of_.features(), values_);
    if (matrix_.given()) add_rows(scores.edge_data(), edge_width_, edge_sums_);
  }

  /// Multiplies the sums of the panel's heads by their factors.
  void rescale(const PanelRows& panel, const Real* factors) const {
    const auto scale = [&](Real* sums, std::size_t size) {
      sums += static_cast<std::size_t>(panel.first) * size;
      for (std::size_t h = 0; h < panel.rows; ++h, sums += size)
        for (std::size_t x = 0; x < size; ++x) sums[x] *= factors[h];
    };
    scale(values_, value_of_.features());
    if (matrix_.given()) scale(edge_sums_, edge_width_);
  }

  /// Sets the sums of one head to the values of one edge, with weight 1.
  void take(std::int64_t head, std::int64_t edge) const {
    const auto& [data, layout] = on_.step.value;
    on_.kernels.numbers.read(layout.type, row_at(data, layout, 0, head, on_.graph.others[edge]),
                             layout.strides.feature,
                             static_cast<std::size_t>(on_.problem.value_features),
                             values_ + static_cast<std::size_t>(head) * value_of_.features());
    if (matrix_.given())
      edge_data_of_.copy(on_.graph.given(edge),
                         edge_sums_ + static_cast<std::size_t>(head) * edge_width_);
  }

  /// Once per node: adds what edge data adds to values, for heads whose weights have a sum: the sum
  /// of p (v + W^T f) is the sum of p v, plus W^T (the sum of p f).
  void add_edge_values(const Real* sum_of_weights) const {
    if (!matrix_.given()) return;
    const auto weighed = [&](std::int64_t h) { return sum_of_weights[h] != 0; };
    each_panel(on_.kernels, on_.problem.heads, [&](const PanelRows& panel) {
      bool all = true;
      for (std::size_t h = 0; h < panel.rows; ++h)
        all = all && weighed(panel.first + static_cast<std::int64_t>(h));
      if (all) return matrix_.add(panel, edge_sums_, values_);
      for (std::size_t h = 0; h < panel.rows; ++h) {
        const std::int64_t head = panel.first + static_cast<std::int64_t>(h);
        if (weighed(head)) matrix_.add({head, 1, 1, 1}, edge_sums_, values_);
      }
    });
  }

 private:
  const GraphThread<Real>& on_;
  const Gather<Real> value_of_{on_.kernels, on_.step.value, on_.problem.heads,
                               on_.problem.value_features, on_.buffer(&NodeSlab::values)};
  const Gather<Real> edge_data_of_{on_.kernels,
                                   {on_.step.args.edge_data, on_.problem.edge_data},
                                   1,
                                   on_.problem.edge_width,
                                   nullptr};
  const std::size_t heads_ = static_cast<std::size_t>(on_.problem.heads);
  const std::size_t edge_width_ = edge_data_of_.features();  ///< padded
  Real* const values_ = on_.buffer(&NodeSlab::sums);
  Real* const edge_sums_ = on_.buffer(&NodeSlab::edge_sums);
  const EdgeMatrix<Real> matrix_{on_, EdgeMatrix<Real>::kValues};
  EdgeRows rows_{};
};

}  // namespace heed
