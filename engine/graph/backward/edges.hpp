// The gradients of a node's edges: of their bias and of their data.
#pragma once

#include "engine/graph/backward/step.hpp"
#include "engine/graph/scores.hpp"

namespace heed {

/// Gradients of one batch at a time, which panels of heads add to.
template <class Real>
class EdgeGradients {
 public:
  /// The scores are the node's.
  EdgeGradients(const GraphBackwardThread<Real>& on, const EdgeScores<Real>& scores)
      : on_(on), scores_(scores) {}

  /// Writes gradients of biased scores, summed over all heads where they share a bias.
  void write_bias(const PanelRows& panel, const Batch& batch, const Real* gradients) const {
    if (step_.args.given.grad_edge_bias == nullptr) return;
    const auto factor = static_cast<Real>(1 / problem_.temperature);
    for (std::size_t e = 0; e < batch.edges; ++e) {
      const Real* const from = gradients + e * panel.pitch;
      Real of_edge[kMaxPanel];
      for (std::size_t h = 0; h < panel.rows; ++h) of_edge[h] = from[h] * factor;
      if (!step_.plan.problem.sums_bias) {
        write_edge(batch, e, panel.first, of_edge, panel.rows);
        continue;
      }
      if (panel.first == 0) bias_sums_[e] = 0;
      for (std::size_t h = 0; h < panel.rows; ++h) bias_sums_[e] += of_edge[h];
      if (panel.first + static_cast<std::int64_t>(panel.rows) == problem_.heads)
        write_edge(batch, e, 0, bias_sums_ + e, 1);
    }
  }

  /// Adds the gradients that the panel's heads pass on to the data of their edges, through keys and
  /// through values. `values` is W_edge_value times the gradients of heads, [heads][edge_width].
  void add_data(const PanelRows& panel, const Batch& batch, const Real* gradients,
                const Real* probs, const Real* values) const {
    if (step_.args.given.grad_edge_data == nullptr) return;
    const auto unit = static_cast<double>(scores_.own_scale());
    const double scale = problem_.scale / problem_.temperature;
    const auto factor = static_cast<Real>(unit == 0 ? 0 : scale / unit);
    const bool to_keys = problem_.is_product() && step_.args.attention.w_edge_key != nullptr;
    const bool to_values = step_.args.attention.w_edge_value != nullptr;
    const auto first = static_cast<std::size_t>(panel.first);
    for (std::size_t e = 0; e < batch.edges; ++e) {
      Real* const to = rows_ + e * width_;
      if (panel.first == 0) std::fill_n(to, width_, Real{0});
      for (std::size_t h = 0; h < panel.rows; ++h) {
        if (scores_.leaves_out(e, h)) continue;
        const auto grow = [&](bool given, Real weight, const Real* by) {
          for (std::size_t c = 0; given && c < width_; ++c) to[c] += weight * by[c];
        };
        const std::size_t at = e * panel.pitch + h;
        grow(to_keys, gradients[at] * factor, scores_.edge_query() + (first + h) * width_);
        grow(to_values, probs[at], values + (first + h) * width_);
      }
    }
  }

  /// The sums of a batch's edge data so far, [edges][edge_width]; nullptr: nobody wants them.
  Real* rows() const { return step_.args.given.grad_edge_data == nullptr ? nullptr : rows_; }

  /// Writes the sums of all panels.
  void write_data(const Batch& batch) const {
    if (step_.args.given.grad_edge_data == nullptr) return;
    const Layout& layout = step_.plan.problem.grad_edge_data;
    for (std::size_t e = 0; e < batch.edges; ++e)
      write_gradient(
          kernels_, layout, step_.adds(), rows_ + e * width_, problem_.edge_width, buffer_,
          row_at(step_.args.given.grad_edge_data, layout, 0, 0, graph_.given(batch.edge(e))));
  }

 private:
  void write_edge(const Batch& batch, std::size_t e, std::int64_t first, Real* numbers,
                  std::size_t heads) const {
    Layout along = step_.plan.problem.grad_edge_bias;
    along.strides.feature = along.strides.head;
    Real buffer[kMaxPanel];
    write_gradient(
        kernels_, along, step_.adds(), numbers, static_cast<std::int64_t>(heads), buffer,
        row_at(step_.args.given.grad_edge_bias, along, 0, first, graph_.given(batch.edge(e))));
  }

  const GraphBackwardThread<Real>& on_;
  const GraphBackwardStep& step_ = on_.step;
  const GraphProblem& problem_ = on_.forward.problem;
  const heed_graph& graph_ = on_.forward.graph;
  const KernelTable<Real>& kernels_ = on_.forward.kernels;
  const EdgeScores<Real>& scores_;
  /// The padded width of edge data.
  const std::size_t width_ = static_cast<std::size_t>(Gather<Real>::padded(problem_.edge_width));
  Real* const rows_ = on_.buffer(&GraphBackwardSlab::edge_rows);
  Real* const bias_sums_ = on_.buffer(&GraphBackwardSlab::bias_sums);
  Real* const buffer_ = on_.buffer(&GraphBackwardSlab::rows);
};

}  // namespace heed
