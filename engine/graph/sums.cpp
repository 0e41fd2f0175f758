#include "engine/graph/sums.hpp"

namespace heed {

template <class Real>
EdgeSums<Real>::EdgeSums(const GraphStep& step, std::byte* slab)
    : step_(step),
      problem_(step.plan.problem),
      graph_(*step.plan.graph),
      kernels_(kernels_of<Real>(*step.plan.context->kernels)),
      value_of_(kernels_, step.value, problem_.heads, problem_.value_features,
                at<Real>(slab, step.plan.slab.values)),
      edge_data_of_(kernels_, {step.args.edge_data, problem_.edge_data}, 1, problem_.edge_width,
                    nullptr),
      heads_(static_cast<std::size_t>(problem_.heads)),
      edge_width_(static_cast<std::size_t>(Gather<Real>::padded(problem_.edge_width))),
      values_(at<Real>(slab, step.plan.slab.sums)),
      edge_sums_(at<Real>(slab, step.plan.slab.edge_sums)),
      edge_data_(at<Real>(slab, step.plan.slab.edge_data)),
      isolated_(at<Real>(slab, step.plan.slab.isolated)),
      matrix_(step,
              step.args.w_edge_value == nullptr
                  ? nullptr
                  : at<Real>(step.workspace, step.plan.space.w_edge_value),
              value_of_.features(), at<Real>(slab, step.plan.slab.products)) {}

template <class Real>
void EdgeSums<Real>::clear() const {
  std::fill_n(values_, value_size(), Real{0});
  std::fill_n(edge_sums_, edge_size(), Real{0});
}

template <class Real>
void EdgeSums<Real>::begin_batch(const Batch& batch) {
  rows_ = value_of_.rows(graph_.others.data() + batch.begin, batch.edges);
}

template <class Real>
void EdgeSums<Real>::add(const PanelRows& panel, const Batch& batch, const EdgeScores<Real>& scores,
                         const Real* weights, bool fresh) {
  const auto first = static_cast<std::size_t>(panel.first);
  const bool isolate = scores.leaves_out();
  const EdgeRows<Real> values =
      isolate ? left_out(scores, rows_, panel, batch.edges, value_of_.features(), isolated_)
              : of_panel(rows_, panel);
  kernels_.rows.edge_values(values, batch.edges, weights, panel.pitch, panel.rows,
                            value_of_.features(), values_ + first * value_of_.features(), fresh);
  if (!matrix_.given()) return;
  EdgeRows<Real> data = {edge_data_, kConsecutive.row, static_cast<std::ptrdiff_t>(edge_width_), 0};
  if (isolate) data = left_out(scores, data, panel, batch.edges, edge_width_, isolated_);
  kernels_.rows.edge_values(data, batch.edges, weights, panel.pitch, panel.rows, edge_width_,
                            edge_sums_ + first * edge_width_, fresh);
}

template <class Real>
void EdgeSums<Real>::rescale(const PanelRows& panel, const Real* factors) const {
  const auto scale = [&](Real* sums, std::size_t size) {
    sums += static_cast<std::size_t>(panel.first) * size;
    for (std::size_t h = 0; h < panel.rows; ++h, sums += size)
      for (std::size_t x = 0; x < size; ++x) sums[x] *= factors[h];
  };
  scale(values_, value_of_.features());
  if (matrix_.given()) scale(edge_sums_, edge_width_);
}

template <class Real>
void EdgeSums<Real>::take(std::int64_t head, std::int64_t edge) const {
  const Layout& layout = step_.value.layout;
  Real* const to = values_ + static_cast<std::size_t>(head) * value_of_.features();
  kernels_.numbers.read(layout.type, row_at(step_.value.data, layout, 0, head, graph_.others[edge]),
                        layout.strides.feature, static_cast<std::size_t>(problem_.value_features),
                        to);
  if (matrix_.given())
    edge_data_of_.copy(graph_.given(edge),
                       edge_sums_ + static_cast<std::size_t>(head) * edge_width_);
}

/// sum of p (v + W^T f) = sum of p v + W^T (sum of p f).
template <class Real>
void EdgeSums<Real>::add_edge_values(const Real* sum_of_weights) const {
  if (!matrix_.given()) return;
  const auto weighed = [&](std::int64_t h) { return sum_of_weights[h] != 0; };
  each_panel(kernels_, problem_.heads, [&](const PanelRows& panel) {
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

template class EdgeSums<float>;
template class EdgeSums<double>;

}  // namespace heed
