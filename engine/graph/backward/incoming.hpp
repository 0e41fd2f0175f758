// For every node:
//
//   results     = softmax over its edges, as in the forward run
//   delta       = <grad, results> - grad_lse
//   for each batch of edges
//     probabilities = exp2(scores - lse)
//     gradients     = probabilities * (<grad, values> - delta)
//     sums         += gradients x keys, and what edge data needs
//   grad_query  = scale / temperature * sums
//
// A hub's splits find their softmax, the hub merges it, the splits sum gradients, the hub adds up.
#pragma once

#include <cmath>
#include <limits>

#include "engine/graph/backward/gradients.hpp"
#include "engine/graph/splits.hpp"
#include "engine/tensor/heads.hpp"

namespace heed {

template <class Real>
class Incoming {
 public:
  /// The slab is the thread's.
  Incoming(const GraphBackwardStep& step, std::byte* slab) : on_{step, slab} {
    const std::int64_t padded = round_up(problem_.heads, GraphBuffers::kPanel);
    std::fill_n(lse_, padded, Real{0});
    std::fill_n(delta_, padded, Real{0});
  }

  void differentiate(const NodeRange& range) {
    begin_range(index_of(range), true);
    if (range.split != kNoSplit) return attend_split(step_.forward, range, softmax_);
    // All of the above in one kernel: delta is then the sum of probabilities times their gradients,
    // which needs no results.
    scores_.each_node(
        at_once_, range, value_of_, query_rows_.in_place() && !of_lse_ && grad_of_.has_whole_rows(),
        [&](const NodeTile& tile) { return differentiate_at_once(tile); },
        [&](std::int64_t n) {
          const std::int64_t begin = on_.graph.offsets[n];
          const std::int64_t end = on_.graph.offsets[n + 1];
          softmax_.attend(n, begin, end, false);
          finish_softmax(n, false);
          begin_node(n);
          add_edges(begin, end, in_one_batch(end - begin));
          finish(n);
        });
  }

  void merge(const Hub& hub) {
    merge_splits(step_.forward, hub, softmax_);
    begin_range(hub.first_range, false);
    finish_softmax(hub.node, true);
  }

  void differentiate_split(const NodeRange& range) {
    if (range.split == kNoSplit) return;
    begin_range(index_of(range), false);
    read_grad(range.first);
    recall(range.first);
    scores_.begin_node(range.first);
    begin_node(range.first);
    add_edges(range.begin, range.end, false);
    std::copy_n(sums_, on_.plan.sums.numbers, on_.split_sums(range.split));
  }

  void sum(const Hub& hub) {
    on_.sum_splits(hub, on_.plan.sums.numbers, sums_);
    begin_range(hub.first_range, false);
    finish(hub.node);
  }

 private:
  std::int64_t index_of(const NodeRange& range) const { return &range - on_.graph.ranges.data(); }
  std::size_t query_numbers() const { return on_.heads * on_.features; }
  /// The sums of a range begin `fresh`, or go on.
  void begin_range(std::int64_t index, bool fresh) {
    const auto find = [&](auto*& sums, bool wanted, std::size_t offset, std::size_t numbers) {
      using Sum = std::remove_reference_t<decltype(*sums)>;
      sums = wanted ? step_.numbers_of<Sum>(index, offset, numbers) : nullptr;
      if (wanted && fresh) std::fill_n(sums, numbers, Sum{0});
    };
    const heed_graph_attention_backward_args& to = step_.args.given;
    find(of_range_.head_weights, problem_.combine == HEED_COMBINE_WEIGHTED,
         on_.plan.space.head_terms, on_.heads);
    find(of_range_.weights, to.grad_score_weights != nullptr, on_.plan.space.score_terms,
         query_numbers());
    find(of_range_.edge_keys, to.grad_w_edge_key != nullptr && !problem_.is_product(),
         on_.plan.space.edge_terms,
         query_numbers() * static_cast<std::size_t>(problem_.edge_width));
  }
  std::size_t edge_numbers() const { return on_.heads * on_.edge_width; }

  bool differentiate_at_once(const NodeTile& tile) {
    const std::int64_t node = tile.first;
    NodeEdges<Real> edges = scores_.at_once(tile, value_of_, gradients_.slopes());
    edges.grad = grad_of_.from(node, grad_);
    grad_of_.prefetch_after(tile);
    for (std::size_t h = 0; of_lse_ && h < on_.heads; ++h)
      delta_[h] = grad_lse(node, static_cast<std::int64_t>(h));
    const NodeRows<Real> of_query = query_rows_.of(tile);
    Real* const of_weights = of_range_.weights;
    if (of_weights != nullptr) std::copy_n(of_weights, query_numbers(), row_);
    if (!at_once_->node_gradients(edges, gradients_.factor_at_once(), of_lse_ ? delta_ : nullptr,
                                  on_.stats(node), of_query, of_weights)) {
      if (of_weights != nullptr) std::copy_n(row_, query_numbers(), of_weights);
      return false;
    }
    gradients_.finish_at_once(of_query, tile.nodes, query_rows_.in_place());
    if (!query_rows_.in_place()) on_.write(step_.query, node, sums_);
    return true;
  }

  // ---- Softmax and delta of a node, before its edges are gone over again ----

  /// Fetches the gradient of the node's row of out, or of its heads.
  void read_grad(std::int64_t node) {
    if (problem_.combine == HEED_COMBINE_CONCAT) return grad_of_.copy(node, grad_);
    std::copy_n(kept_grad(node), on_.heads * on_.value_features, grad_);
  }
  Real* kept_grad(std::int64_t node) const {
    return step_.numbers_of<Real>(node, on_.plan.space.grad, on_.heads * on_.value_features);
  }

  void finish_softmax(std::int64_t node, bool divided) {
    const Real* const factors = softmax_.finish_sums(divided);
    const SoftmaxState<Real>& state = softmax_.state();
    const std::size_t features = on_.value_features;
    for (std::size_t h = 0; h < on_.heads; ++h)
      multiply_values(state.values + h * features, factors[h], features,
                      state.values + h * features);
    if (problem_.combine != HEED_COMBINE_CONCAT) spread(node, state.values);
    read_grad(node);
    Real* const stored = on_.stats(node);
    kernels_.rows.edge_scores(consecutive_rows(state.values, 0, features), 1, grad_, on_.heads,
                              features, true, stored + on_.heads, on_.heads);
    for (std::size_t h = 0; h < on_.heads; ++h) {
      stored[h] = log2_sum_exp(state.row_max[h], state.row_sum[h], on_.lse_rest(node)[h]);
      const Real delta = stored[on_.heads + h] - grad_lse(node, static_cast<std::int64_t>(h));
      stored[on_.heads + h] = state.row_sum[h] == 0 ? Real{0} : delta;
    }
    recall(node);
  }

  void recall(std::int64_t node) {
    const Real* const stored = on_.stats(node);
    std::copy_n(stored + on_.heads, on_.heads, delta_);
    const Real* const rest = on_.lse_rest(node);
    for (std::size_t h = 0; h < on_.heads; ++h) {
      const bool far = is_far(stored[h]);
      shift_[h] = far ? stored[h] : Real{0};
      lse_[h] = far ? rest[h] : stored[h];
    }
  }

  /// Nothing was seen: no probability but 0. Scores of +inf, which share all of it, have no
  /// gradient. `rest` is what is lost.
  static Real log2_sum_exp(Real row_max, Real sum, Real& rest) {
    rest = 0;
    if (sum == 0) return std::numeric_limits<Real>::infinity();
    if (row_max == -kNoRowMax<Real>) return std::numeric_limits<Real>::quiet_NaN();
    const double log_sum = std::log2(static_cast<double>(sum));
    const double lse = static_cast<double>(row_max) + log_sum;
    if (std::isnan(lse)) return static_cast<Real>(lse);
    const auto whole = finite_score<Real>(lse);
    rest = static_cast<Real>(static_cast<double>(row_max) - static_cast<double>(whole) + log_sum);
    return whole;
  }

  Real grad_lse(std::int64_t node, std::int64_t head) const {
    if (!of_lse_) return 0;
    const Layout& layout = on_.plan.problem.grad_lse;
    Real gradient = 0;
    kernels_.numbers.read(layout.type, row_at(step_.args.given.grad_lse, layout, 0, head, node), 1,
                          1, &gradient);
    return gradient;
  }

  /// Spreads the gradient over heads through combine; kept, because edges are gone over from both
  /// ends.
  void spread(std::int64_t node, const Real* results) {
    const std::size_t features = on_.value_features;
    grad_of_.copy(node, row_);
    const auto* weights = static_cast<const Real*>(step_.args.attention.head_weights);
    if (problem_.combine == HEED_COMBINE_MEAN) {
      Real* const shares = on_.buffer(&NodeSlab::factors);
      std::fill_n(shares, on_.heads, 1 / static_cast<Real>(problem_.heads));
      weights = shares;
    }
    const auto width = static_cast<std::int64_t>(features);
    split_gradient(problem_.combine == HEED_COMBINE_MAX ? HEED_COMBINE_MAX : HEED_COMBINE_WEIGHTED,
                   row_, results, problem_.heads, width, width, weights, kept_grad(node));
    for (std::size_t h = 0; of_range_.head_weights != nullptr && h < on_.heads; ++h)
      of_range_.head_weights[h] +=
          kernels_.numbers.inner_product(row_, results + h * features, features);
  }

  /// The query is the latest.
  void begin_node(std::int64_t node) {
    std::fill_n(sums_, on_.plan.sums.numbers, Real{0});
    if (problem_.edge_width == 0) return;
    if (key_matrix_.given() && problem_.is_product())
      keep(scores_.edge_query(), Real{1}, on_.plan.space.asked_keys, node);
    if (!matrix_.given()) return;
    matrix_.ask(grad_, edge_grad_);
    keep(edge_grad_, Real{1}, on_.plan.space.asked_values, node);
  }

  // ---- Edges ----

  /// `again`: the softmax has just gone over the same edges, in one batch and panel, and has left
  /// what it knows of them.
  void add_edges(std::int64_t begin, std::int64_t end, bool again) {
    each_batch(begin, end, [&](const Batch& batch) {
      if (!again) scores_.begin_batch(batch);
      values_ = value_of_.rows(on_.graph.others.data() + batch.begin, batch.edges);
      if (again) values_ = values_.again();
      on_.each_panel([&](const PanelRows& panel) { add_panel(panel, batch, again); });
      gradients_.write_data(batch);
    });
  }

  bool in_one_batch(std::int64_t edges) const {
    const std::size_t panel = std::size_t{kernels_.panels.lanes} * kernels_.panels.max_vectors;
    return edges <= static_cast<std::int64_t>(kBatch) && on_.heads <= panel &&
           problem_.softcap == 0 && problem_.dropout == 0;
  }

  /// Normalises probabilities, which are relative to row_max, and turns their gradients into
  /// gradients of scores. False, with both as they were, unless all are finite.
  bool finish_gradients(const PanelRows& panel, std::size_t edges) const {
    Real* const gradients = gradients_.gradients();
    Real inverse[kMaxPanel] = {};
    Real special = 0;
    for (std::size_t h = 0; h < panel.rows; ++h) {
      inverse[h] = inverse_of(softmax_.state().row_sum[h]);
      if (softmax_.state().row_max[h] == -kNoRowMax<Real>) return false;
      for (std::size_t e = 0; e < edges; ++e) {
        const std::size_t at = e * panel.pitch + h;
        special += probs_[at] * (gradients[at] - delta_[h]) * Real{0};
      }
    }
    if (special != 0) return false;
    for (std::size_t e = 0; e < edges; ++e) {
      for (std::size_t h = 0; h < panel.rows; ++h) {
        const std::size_t at = e * panel.pitch + h;
        probs_[at] *= inverse[h];
        gradients[at] = probs_[at] * (gradients[at] - delta_[h]);
      }
    }
    return true;
  }

  void add_panel(const PanelRows& panel, const Batch& batch, bool again) {
    const auto first = static_cast<std::size_t>(panel.first);
    const std::size_t width = on_.edge_width;
    const EdgeRows data = scores_.edge_data();
    Real* const gradients = gradients_.gradients();
    if (!again) scores_.compute(panel, batch, probs_, gradients_.tanh());
    on_.multiply_rows(panel, values_, batch.edges, grad_, on_.value_features, true, gradients);
    if (matrix_.given())
      on_.multiply_rows(panel, data, batch.edges, edge_grad_, width, false, gradients);
    gradients_.drop(panel, batch, gradients);
    if (!again || !finish_gradients(panel, batch.edges)) {
      if (again) scores_.compute(panel, batch, probs_);
      for (std::size_t h = 0; h < panel.rows; ++h)
        for (std::size_t e = 0; shift_[first + h] != 0 && e < batch.edges; ++e)
          probs_[e * panel.pitch + h] -= shift_[first + h];
      gradients_.compute(panel, batch.edges, probs_, lse_ + first, delta_ + first);
    }
    gradients_.write_bias(panel, batch);
    gradients_.add(panel, batch, sums_);
    if (matrix_.given()) {
      gradients_.drop(panel, batch, probs_);
      scores_.add_rows(panel, batch, data, width, probs_, false, sums_ + on_.plan.sums.edge_values);
    }
    gradients_.add_others(panel, batch, of_range_, probs_, edge_grad_);
    if (key_matrix_.given() && problem_.is_product())
      scores_.add_rows(panel, batch, data, width, gradients, false,
                       sums_ + on_.plan.sums.edge_keys);
  }

  // ---- Results ----

  void finish(std::int64_t node) {
    Real* const edge_keys = sums_ + on_.plan.sums.edge_keys;
    if (key_matrix_.given() && problem_.is_product()) {
      // Without edges the gradient is 0, also where the matrix is not finite.
      if (on_.graph.offsets[node] < on_.graph.offsets[node + 1])
        on_.each_panel([&](const PanelRows& panel) { key_matrix_.add(panel, edge_keys, sums_); });
      keep(edge_keys, on_.scale, on_.plan.space.edge_keys, node);
    }
    if (matrix_.given())
      keep(sums_ + on_.plan.sums.edge_values, Real{1}, on_.plan.space.edge_values, node);
    if (problem_.divides_by_norms()) scores_.leave_norms(node, sums_, of_range_.weights);
    gradients_.finish(sums_);
    on_.write(step_.query, node, sums_);
  }

  /// Keeps sums as wide as edge data, for the other pass or the gradients of matrices.
  void keep(const Real* sums, Real factor, std::size_t space, std::int64_t node) const {
    Real* const to = step_.numbers_of<Real>(node, space, edge_numbers());
    for (std::size_t i = 0; i < edge_numbers(); ++i) to[i] = sums[i] * factor;
  }

  const GraphBackwardThread<Real> on_;
  const GraphBackwardStep& step_ = on_.back;
  const GraphProblem& problem_ = on_.problem;
  const KernelTable<Real>& kernels_ = on_.kernels;
  const NodeKernels<Real>* const at_once_ =
      problem_.combine == HEED_COMBINE_CONCAT ? node_kernels_of<Real>(step_.forward) : nullptr;
  NodeSoftmax<Real> softmax_{on_, true};
  EdgeScores<Real>& scores_ = softmax_.scores();
  ScoreGradients<Real> gradients_{on_, scores_, on_.graph};
  RangeSums<Real> of_range_{};
  const Gather<Real> grad_of_{kernels_, step_.grad_out, problem_.out_heads(),
                              problem_.value_features, nullptr};
  const Gather<Real>& value_of_ = softmax_.values();
  const EdgeMatrix<Real>& matrix_ = softmax_.matrix();
  const EdgeMatrix<Real>& key_matrix_ = scores_.matrix();
  const bool of_lse_ = step_.last && step_.args.given.grad_lse != nullptr;
  Real* const probs_ = on_.buffer(&NodeSlab::scores);
  Real* const grad_ = on_.buffer(&GraphBackwardSlab::grad);
  Real* const edge_grad_ = on_.buffer(&GraphBackwardSlab::edge_grad);
  Real* const lse_ = on_.buffer(&GraphBackwardSlab::lse);
  Real* const shift_ = on_.buffer(&GraphBackwardSlab::shift);
  Real* const delta_ = on_.buffer(&GraphBackwardSlab::delta);
  Real* const sums_ = on_.buffer(&GraphBackwardSlab::sums);
  const TileRows<Real> query_rows_ =
      step_.query.template tile_rows<Real>(problem_.heads, problem_.score == HEED_SCORE_SUM, sums_);
  Real* const row_ = on_.buffer(&GraphBackwardSlab::rows);
  EdgeRows values_{};
};

}  // namespace heed
