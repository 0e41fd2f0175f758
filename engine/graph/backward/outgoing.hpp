// For every node, and each batch of the edges that it is the source of:
//
//   probabilities  = exp2(scores - lse of destinations)     scores in the bits that lse was made of
//   gradients      = probabilities * (<its value, grad of destinations> - delta of destinations)
//   grad_key      += gradients x queries of destinations
//   grad_value    += probabilities x grad of destinations
#pragma once

#include <limits>

#include "engine/graph/backward/gradients.hpp"

namespace heed {

template <class Real>
class Outgoing {
 public:
  /// The slab is the thread's.
  Outgoing(const GraphBackwardStep& step, std::byte* slab) : on_{step, slab} {
    std::fill_n(probs_, kBatch * kMaxPanel, Real{0});
  }

  void differentiate(const NodeRange& range) {
    if (range.split != kNoSplit) {
      add_edges(range.first, range.begin, range.end);
      std::copy_n(sums_, on_.plan.sums.edge_keys, on_.split_sums(range.split));
      return;
    }
    scores_.each_node(
        at_once_, range, grad_of_,
        key_rows_.in_place() && value_rows_.in_place() && value_of_.has_whole_rows(),
        [&](const NodeTile& tile) { return differentiate_at_once(tile); },
        [&](std::int64_t m) {
          add_edges(m, order_.offsets[m], order_.offsets[m + 1]);
          finish(m);
        });
  }

  void sum(const Hub& hub) {
    on_.sum_splits(hub, on_.plan.sums.edge_keys, sums_);
    finish(hub.node);
  }

 private:
  /// A matrix of edge data times the queries of nodes, or times gradients of their results.
  const Real* asked(const void* matrix, std::size_t GraphBackwardSpace::*offset) const {
    return matrix == nullptr ? nullptr : at<Real>(step_.forward.workspace, on_.plan.space.*offset);
  }

  bool differentiate_at_once(const NodeTile& tile) {
    const NodeRows<Real> key = key_rows_.of(tile);
    const NodeRows<Real> value = value_rows_.of(tile);
    if (!add_at_once(tile, gradients_.factor_at_once(), true, key, value)) return false;
    gradients_.finish_at_once(key, tile.nodes, key_rows_.in_place());
    if (!key_rows_.in_place()) on_.write(step_.key, tile.first, sums_);
    if (!value_rows_.in_place()) on_.write(step_.value, tile.first, value_sums_);
    return true;
  }

  /// Sums gradients over the edges of a tile with one kernel, of keys times `factor`. False where
  /// that cannot be done.
  bool add_at_once(const NodeTile& tile, Real factor, bool fresh, const NodeRows<Real>& grad_key,
                   const NodeRows<Real>& grad_value) {
    NodeEdges<Real> edges = scores_.at_once(tile, grad_of_, gradients_.slopes());
    edges.grad = value_of_.from(tile.first, value_);
    value_of_.prefetch_after(tile);
    return at_once_->source_gradients(edges, factor, on_.stats(0),
                                      order_.others.data() + tile.batch.begin, fresh, grad_key,
                                      grad_value);
  }

  /// The same of many edges of one node, to the node's sums.
  bool add_at_once(std::int64_t node, std::int64_t begin, std::int64_t end) {
    if (!kHasNodeKernels<Real> || at_once_ == nullptr || begin == end) return false;
    bool good = true;
    each_batch(begin, end, [&](const Batch& batch) {
      const std::int64_t offsets[] = {0, static_cast<std::int64_t>(batch.edges)};
      good = good && add_at_once({node, 1, batch, offsets}, Real{1}, batch.begin == begin,
                                 {sums_, 0}, {value_sums_, 0});
    });
    if (good) gradients_.finish_at_once({sums_, 0}, 0, false);
    return good;
  }

  void add_edges(std::int64_t node, std::int64_t begin, std::int64_t end) {
    if (add_at_once(node, begin, end)) return;
    std::fill_n(sums_, on_.plan.sums.edge_keys, Real{0});
    if (begin == end) return;
    scores_.begin_node(node);
    value_of_.copy(node, value_);
    each_batch(begin, end, [&](const Batch& batch) {
      scores_.begin_batch(batch);
      grads_ = grad_of_.rows(order_.others.data() + batch.begin, batch.edges);
      on_.each_panel([&](const PanelRows& panel) { add_panel(panel, batch); });
    });
  }

  void add_panel(const PanelRows& panel, const Batch& batch) {
    const std::size_t features = grad_of_.features();
    Real* const gradients = gradients_.gradients();
    scores_.compute(panel, batch, probs_, gradients_.tanh());
    on_.multiply_rows(panel, grads_, batch.edges, value_, features, true, gradients);
    if (asked_values_ != nullptr)
      on_.add_edge_products(order_, asked_values_, scores_.edge_numbers(), panel, batch, gradients);
    gradients_.drop(panel, batch, gradients);
    subtract(panel, batch);
    gradients_.compute(panel, batch.edges, probs_);
    gradients_.add(panel, batch, sums_);
    gradients_.drop(panel, batch, probs_);
    scores_.add_rows(panel, batch, grads_.again(), features, probs_, false, value_sums_);
  }

  /// Each edge has a destination of its own, with its log-sum-exp and delta. A score of -inf stays
  /// one whatever the former is.
  void subtract(const PanelRows& panel, const Batch& batch) const {
    const auto first = static_cast<std::size_t>(panel.first);
    for (std::size_t e = 0; e < batch.edges; ++e) {
      const std::int64_t node = order_.others[batch.edge(e)];
      __builtin_prefetch(on_.stats(order_.others[batch.edge(e) + kSourcesAhead / 2]));
      const Real* const lse = on_.stats(node) + first;
      const Real* const delta = lse + on_.heads;
      const Real* const rest = on_.lse_rest(node) + first;
      Real* const score = probs_ + e * panel.pitch;
      Real* const gradient = gradients_.gradients() + e * panel.pitch;
      for (std::size_t h = 0; h < panel.rows; ++h) {
        if (score[h] != -std::numeric_limits<Real>::infinity()) score[h] -= lse[h];
        if (is_far(lse[h])) score[h] -= rest[h];
        gradient[h] -= delta[h];
      }
    }
  }

  void finish(std::int64_t node) {
    if (problem_.divides_by_norms()) scores_.leave_norms(node, sums_, nullptr);
    gradients_.finish(sums_);
    on_.write(step_.key, node, sums_);
    on_.write(step_.value, node, value_sums_);
  }

  const GraphBackwardThread<Real> on_;
  const GraphBackwardStep& step_ = on_.back;
  const GraphProblem& problem_ = on_.problem;
  const EdgeOrder& order_ = on_.graph.outgoing;
  const KernelTable<Real>& kernels_ = on_.kernels;
  const NodeKernels<Real>* const at_once_ = node_kernels_of<Real>(step_.forward);
  const Real* const asked_values_ =
      asked(step_.args.attention.w_edge_value, &GraphBackwardSpace::asked_values);
  EdgeScores<Real> scores_{
      on_,
      {order_, step_.forward.key, step_.forward.query, on_.buffer(&GraphBackwardSlab::keys),
       asked(problem_.is_product() ? step_.args.attention.w_edge_key : nullptr,
             &GraphBackwardSpace::asked_keys),
       true}};
  ScoreGradients<Real> gradients_{on_, scores_, order_};
  const Gather<Real> value_of_{kernels_, step_.forward.value, problem_.heads,
                               problem_.value_features, nullptr};
  const Gather<Real> grad_of_{kernels_, step_.template grad_of_heads<Real>(), problem_.heads,
                              problem_.value_features, on_.buffer(&GraphBackwardSlab::values)};
  Real* const probs_ = on_.buffer(&NodeSlab::scores);
  Real* const value_ = on_.buffer(&GraphBackwardSlab::grad);
  Real* const sums_ = on_.buffer(&GraphBackwardSlab::sums);
  Real* const value_sums_ = sums_ + on_.plan.sums.values;
  const TileRows<Real> key_rows_ =
      step_.key.template tile_rows<Real>(problem_.heads, problem_.score == HEED_SCORE_SUM, sums_);
  const TileRows<Real> value_rows_ =
      step_.value.template tile_rows<Real>(problem_.heads, false, value_sums_);
  EdgeRows grads_{};
};

}  // namespace heed
