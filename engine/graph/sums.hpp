// Softmax over edges of a node as it stands, and its weighted sums of values and edge data.
#pragma once

#include "engine/graph/scores.hpp"

namespace heed {

/// Of a node in a thread's slab, or of a hub's split.
template <class Real>
struct SoftmaxState {
  SoftmaxState(const SoftmaxBuffers& offsets, std::byte* slab)
      : row_max(at<Real>(slab, offsets.row_max)),
        row_sum(at<Real>(slab, offsets.row_sum)),
        chosen(at<std::int64_t>(slab, offsets.chosen)),
        values(at<Real>(slab, offsets.values)),
        edge_data(at<Real>(slab, offsets.edge_data)) {}

  Real* row_max;  ///< [heads], see RowState
  Real* row_sum;
  std::int64_t* chosen;  ///< [heads] with hard attention: the edge of the largest score
  Real* values;          ///< weighted values, [heads][value features], padded
  Real* edge_data;       ///< weighted edge data, [heads][edge_width], padded
};

template <class Real>
class EdgeSums {
 public:
  /// Sums go to the thread's slab.
  explicit EdgeSums(const GraphThread<Real>& on) : on_(on) {}

  const Gather<Real>& rows() const { return value_of_; }

  /// Calls function(sums, their features) for those of a SoftmaxState that there are.
  template <class Function>
  void each(Function&& function) const {
    function(&SoftmaxState<Real>::values, value_of_.features());
    if (matrix_.given()) function(&SoftmaxState<Real>::edge_data, edge_width_);
  }

  void clear() const {
    each([&](auto sums, std::size_t features) {
      std::fill_n(state_.*sums, on_.heads * features, Real{0});
    });
  }

  /// Finds the batch's values, and copies them if need be.
  void begin_batch(const Batch& batch) {
    rows_ = value_of_.rows(on_.graph.others.data() + batch.begin, batch.edges);
  }

  /// Adds weight times value. Where the scores leave an edge out for a head, values that are not
  /// finite do not reach the sums. The first batch of a node is `fresh`.
  void add(const PanelRows& panel, const Batch& batch, const EdgeScores<Real>& scores,
           const Real* weights, bool fresh) const {
    scores.add_rows(panel, batch, rows_, value_of_.features(), weights, fresh, state_.values);
    if (matrix_.given())
      scores.add_rows(panel, batch, scores.edge_data(), edge_width_, weights, fresh,
                      state_.edge_data);
  }

  /// Multiplies the sums of the panel's heads by their factors.
  void rescale(const PanelRows& panel, const Real* factors) const {
    each([&](auto sums, std::size_t features) {
      Real* of_head = state_.*sums + static_cast<std::size_t>(panel.first) * features;
      for (std::size_t h = 0; h < panel.rows; ++h, of_head += features)
        for (std::size_t x = 0; x < features; ++x) of_head[x] *= factors[h];
    });
  }

  /// Sets the sums of one head to the values of one edge, with weight 1.
  void take(std::size_t head, std::int64_t edge) const {
    const auto& [data, layout] = on_.step.value;
    on_.kernels.numbers.read(
        layout.type,
        row_at(data, layout, 0, static_cast<std::int64_t>(head), on_.graph.others[edge]),
        layout.strides.feature, static_cast<std::size_t>(on_.problem.value_features),
        state_.values + head * value_of_.features());
    if (matrix_.given())
      edge_data_of_.copy(on_.graph.given(edge), state_.edge_data + head * edge_width_);
  }

  /// Once per node: adds what edge data adds to values, for heads whose weights have a sum: the sum
  /// of p (v + W^T f) is the sum of p v, plus W^T (the sum of p f).
  void add_edge_values() const {
    if (!matrix_.given()) return;
    each_panel(on_.kernels, on_.problem.heads, [&](const PanelRows& panel) {
      const Real* const weights = state_.row_sum + panel.first;
      if (std::find(weights, weights + panel.rows, Real{0}) == weights + panel.rows)
        return matrix_.add(panel, state_.edge_data, state_.values);
      for (std::size_t h = 0; h < panel.rows; ++h)
        if (weights[h] != 0)
          matrix_.add({panel.first + static_cast<std::int64_t>(h), 1, 1, 1}, state_.edge_data,
                      state_.values);
    });
  }

 private:
  const GraphThread<Real>& on_;
  const SoftmaxState<Real> state_{on_.step.plan.slab, on_.slab};
  const Gather<Real> value_of_{on_.kernels, on_.step.value, on_.problem.heads,
                               on_.problem.value_features, on_.buffer(&NodeSlab::value_rows)};
  const Gather<Real> edge_data_of_{on_.kernels,
                                   {on_.step.args.edge_data, on_.problem.edge_data},
                                   1,
                                   on_.problem.edge_width,
                                   nullptr};
  const std::size_t edge_width_ = edge_data_of_.features();  ///< padded
  const EdgeMatrix<Real> matrix_{on_, EdgeMatrix<Real>::kValues};
  EdgeRows rows_{};
};

}  // namespace heed
