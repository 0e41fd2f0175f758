#include "engine/graph/backward/edges.hpp"

namespace heed {

template <class Real>
EdgeGradients<Real>::EdgeGradients(const GraphBackwardStep& step, std::byte* slab,
                                   const EdgeScores<Real>& scores)
    : step_(step),
      problem_(step.problem()),
      graph_(*step.plan.graph),
      kernels_(kernels_of<Real>(*step.plan.context->kernels)),
      scores_(scores),
      width_(static_cast<std::size_t>(Gather<Real>::padded(problem_.edge_width))),
      rows_(at<Real>(slab + step.plan.attention.slab.bytes, step.plan.slab.edge_rows)),
      bias_sums_(at<Real>(slab + step.plan.attention.slab.bytes, step.plan.slab.bias_sums)),
      room_(at<Real>(slab + step.plan.attention.slab.bytes, step.plan.slab.rows)) {}

template <class Real>
void EdgeGradients<Real>::write_bias(const PanelRows& panel, const Batch& batch,
                                     const Real* gradients) const {
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

template <class Real>
void EdgeGradients<Real>::write_edge(const Batch& batch, std::size_t e, std::int64_t first,
                                     Real* numbers, std::size_t heads) const {
  Layout along = step_.plan.problem.grad_edge_bias;
  along.strides.feature = along.strides.head;
  Real room[kMaxPanel];
  write_gradient(kernels_, along, step_.adds(), numbers, static_cast<std::int64_t>(heads), room,
                 row_at(step_.args.given.grad_edge_bias, along, 0, first,
                        graph_.given(batch.begin + static_cast<std::int64_t>(e))));
}

template <class Real>
void EdgeGradients<Real>::add_data(const PanelRows& panel, const Batch& batch,
                                   const Real* gradients, const Real* probs,
                                   const Real* values) const {
  if (step_.args.given.grad_edge_data == nullptr) return;
  const double unit = problem_.query_scale(problem_.softcap > 0, problem_.log2_unit);
  const double scale = problem_.scale / problem_.temperature;
  const auto factor = static_cast<Real>(unit == 0 ? 0 : scale / unit);
  const bool to_keys = step_.args.attention.w_edge_key != nullptr;
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

template <class Real>
void EdgeGradients<Real>::write_data(const Batch& batch) const {
  if (step_.args.given.grad_edge_data == nullptr) return;
  const Layout& layout = step_.plan.problem.grad_edge_data;
  for (std::size_t e = 0; e < batch.edges; ++e)
    write_gradient(kernels_, layout, step_.adds(), rows_ + e * width_, problem_.edge_width, room_,
                   row_at(step_.args.given.grad_edge_data, layout, 0, 0,
                          graph_.given(batch.begin + static_cast<std::int64_t>(e))));
}

template class EdgeGradients<float>;
template class EdgeGradients<double>;

}  // namespace heed
