#include "engine/graph/scores.hpp"

#include <limits>

namespace heed {
template <class Real>
EdgeScores<Real>::EdgeScores(const GraphStep& step, std::byte* slab)
    : EdgeScores(
          step, slab,
          {*step.plan.graph, step.query, step.key, at<Real>(slab, step.plan.slab.keys), nullptr}) {}

template <class Real>
EdgeScores<Real>::EdgeScores(const GraphStep& step, std::byte* slab, const EdgeSide<Real>& side)
    : step_(step),
      problem_(step.plan.problem),
      order_(side.order),
      kernels_(kernels_of<Real>(*step.plan.context->kernels)),
      query_of_(kernels_, side.own, problem_.heads, problem_.features, nullptr),
      key_of_(kernels_, side.other, problem_.heads, problem_.features, side.rows),
      edge_data_of_(kernels_, {step.args.edge_data, problem_.edge_data}, 1, problem_.edge_width,
                    nullptr),
      edge_width_(static_cast<std::size_t>(Gather<Real>::padded(problem_.edge_width))),
      scale_(static_cast<Real>(problem_.query_scale(problem_.softcap > 0, problem_.log2_unit))),
      query_(at<Real>(slab, step.plan.slab.query)),
      edge_query_(at<Real>(slab, step.plan.slab.edge_query)),
      bias_(at<Real>(slab, step.plan.slab.bias)),
      matrix_(step,
              step.args.w_edge_key == nullptr
                  ? nullptr
                  : at<Real>(step.workspace, step.plan.space.w_edge_key),
              query_of_.features(), at<Real>(slab, step.plan.slab.products)),
      edge_data_(at<Real>(slab, step.plan.slab.edge_data)),
      asked_(side.asked) {}

template <class Real>
void EdgeScores<Real>::begin_node(std::int64_t node) {
  query_of_.copy_scaled(node, scale_, query_);
  if (matrix_.given() && asked_ == nullptr) matrix_.ask(query_, edge_query_);
}

template <class Real>
NodeEdges<Real> EdgeScores<Real>::at_once(std::int64_t node, const Batch& batch) const {
  query_of_.prefetch_own(node);
  NodeEdges<Real> edges{};
  edges.keys = key_of_.rows(order_.others.data() + batch.begin, batch.edges);
  edges.edges = batch.edges;
  edges.heads = static_cast<std::size_t>(problem_.heads);
  edges.features = key_of_.features();
  edges.query = query_of_.whole(node, query_);
  edges.scale = scale_;
  return edges;
}

template <class Real>
void EdgeScores<Real>::begin_batch(const Batch& batch) {
  keys_ = key_of_.rows(order_.others.data() + batch.begin, batch.edges);
  for (std::size_t e = 0; problem_.edge_width > 0 && e < batch.edges; ++e)
    edge_data_of_.copy(order_.given(batch.begin + static_cast<std::int64_t>(e)),
                       edge_data_ + e * edge_width_);
}

template <class Real>
void EdgeScores<Real>::compute(const PanelRows& panel, const Batch& batch, Real* scores,
                               Real* tanh) {
  const auto first = static_cast<std::size_t>(panel.first);
  kernels_.rows.edge_scores(of_panel(keys_, panel), batch.edges,
                            query_ + first * key_of_.features(), panel.rows, key_of_.features(),
                            true, scores, panel.pitch);
  if (asked_ != nullptr) {
    add_asked(panel, batch, scores);
  } else if (matrix_.given()) {
    const EdgeRows<Real> rows = {edge_data_, kConsecutive.row,
                                 static_cast<std::ptrdiff_t>(edge_width_), 0};
    kernels_.rows.edge_scores(rows, batch.edges, edge_query_ + first * edge_width_, panel.rows,
                              edge_width_, false, scores, panel.pitch);
  }
  if (problem_.softcap > 0) {
    const auto cap = static_cast<Real>(problem_.softcap * problem_.log2_unit);
    kernels_.panels.softcap(panel.vectors, scores, batch.edges, tanh == nullptr ? cap : Real{1});
    for (std::size_t i = 0; tanh != nullptr && i < batch.edges * panel.pitch; ++i) {
      tanh[i] = scores[i];
      scores[i] *= cap;
    }
  }
  leaves_out_ = false;
  if (step_.args.edge_bias != nullptr) add_bias(panel, batch, scores);
}

/// Every edge leads to a query of its own.
template <class Real>
void EdgeScores<Real>::add_asked(const PanelRows& panel, const Batch& batch, Real* scores) const {
  add_edge_products(order_, problem_.heads, edge_width_, asked_, edge_data_, panel, batch, scores);
}

template <class Real>
void EdgeScores<Real>::add_bias(const PanelRows& panel, const Batch& batch, Real* scores) {
  const Layout& layout = problem_.edge_bias;
  for (std::size_t e = 0; e < batch.edges; ++e) {
    const std::int64_t given = order_.given(batch.begin + static_cast<std::int64_t>(e));
    Real of_edge[kMaxPanel];
    kernels_.numbers.read(layout.type, row_at(step_.args.edge_bias, layout, 0, panel.first, given),
                          layout.strides.head, panel.rows, of_edge);
    for (std::size_t h = 0; h < panel.rows; ++h) {
      bias_[h * kBatch + e] = of_edge[h];
      leaves_out_ = leaves_out_ || of_edge[h] == -std::numeric_limits<Real>::infinity();
    }
  }
  const Real* rows[kMaxPanel];
  for (std::size_t h = 0; h < panel.rows; ++h) rows[h] = bias_ + h * kBatch;
  kernels_.panels.add_rows(panel.vectors, scores, batch.edges, rows, panel.rows,
                           static_cast<Real>(problem_.log2_unit));
}

template <class Real>
bool EdgeScores<Real>::leaves_out(std::size_t edge, std::size_t head) const {
  return leaves_out_ && bias_[head * kBatch + edge] == -std::numeric_limits<Real>::infinity();
}

template class EdgeScores<float>;
template class EdgeScores<double>;

}  // namespace heed
