#include "engine/graph/softmax.hpp"

#include <limits>

namespace heed {

template <class Real>
NodeSoftmax<Real>::NodeSoftmax(const GraphStep& step, std::byte* slab)
    : step_(step),
      problem_(step.plan.problem),
      kernels_(kernels_of<Real>(*step.plan.context->kernels)),
      at_once_(node_kernels_of<Real>(step)),
      scores_(step, slab),
      sums_(step, slab),
      output_(step, slab),
      probs_(at<Real>(slab, step.plan.slab.scores)),
      row_max_(at<Real>(slab, step.plan.slab.row_max)),
      row_sum_(at<Real>(slab, step.plan.slab.row_sum)),
      factors_(at<Real>(slab, step.plan.slab.factors)),
      weights_(at<Real>(slab, step.plan.slab.isolated)),
      chosen_(at<std::int64_t>(slab, step.plan.slab.chosen)) {
  // Lanes without a head stay finite: their scores begin at 0, and probabilities are at most 2^8.
  std::fill_n(probs_, kBatch * kMaxPanel, Real{0});
  forget();
}

template <class Real>
bool NodeSoftmax<Real>::attend_at_once(std::int64_t node, std::int64_t begin, std::int64_t end) {
  const Batch batch = {begin, static_cast<std::size_t>(end - begin)};
  if (at_once_ == nullptr || batch.edges == 0 || batch.edges > kBatch) return false;
  prefetch(batch);
  NodeEdges<Real> edges = scores_.at_once(node, batch);
  const Gather<Real>& values = sums_.rows();
  edges.values = values.rows(step_.plan.graph->others.data() + begin, batch.edges);
  edges.value_features = values.features();
  Real* const out = output_.in_place(node);
  Real* const weights = step_.wants_weights() ? weights_ : nullptr;
  if (!at_once_->attend_node(edges, row_max_, row_sum_, out != nullptr ? out : sums_.values(),
                             weights))
    return false;
  if (out == nullptr) {
    std::fill_n(factors_, problem_.heads, Real{1});
    output_.write(node, sums_.values(), factors_);
  }
  if (step_.wants_lse()) output_.write_lse(node, row_max_, row_sum_);
  if (weights != nullptr) output_.write_weights(batch, weights);
  return true;
}

template <class Real>
void NodeSoftmax<Real>::attend(std::int64_t node, std::int64_t begin, std::int64_t end,
                               bool write_weights) {
  forget();
  if (begin == end || problem_.hard) sums_.clear();
  if (begin == end) return;
  scores_.begin_node(node);
  each_batch(begin, end, [&](const Batch& batch) {
    prefetch(batch);
    scores_.begin_batch(batch);
    if (!problem_.hard) sums_.begin_batch(batch);
    each_panel(kernels_, problem_.heads, [&](const PanelRows& panel) {
      scores_.compute(panel, batch, probs_);
      if (problem_.hard)
        return argmax(panel.first)
            .look(kernels_, probs_, batch.begin, batch.edges, panel.rows, panel.vectors);
      accumulate(panel, batch, batch.begin == begin);
      if (write_weights) output_.write_weights(panel, batch, probs_, row_sum_ + panel.first);
    });
  });
}

template <class Real>
void NodeSoftmax<Real>::forget() const {
  const auto heads = static_cast<std::size_t>(problem_.heads);
  const auto lanes = static_cast<std::size_t>(round_up(problem_.heads, kernels_.panels.lanes));
  std::fill_n(row_max_, lanes, kNoRowMax<Real>);
  std::fill_n(row_sum_, lanes, Real{0});
  if (problem_.hard) argmax(0).begin(lanes, heads);
}

/// Turns scores into probabilities, and adds the values times those.
template <class Real>
void NodeSoftmax<Real>::accumulate(const PanelRows& panel, const Batch& batch, bool fresh) {
  alignas(kAlignment) Real before[kMaxPanel];
  std::copy_n(row_max_ + panel.first, panel.rows, before);
  // The kernel sees no accumulators, because here they do not lie in its lanes.
  const RowState<Real> state = {row_max_ + panel.first, row_sum_ + panel.first, nullptr, true};
  kernels_.panels.softmax(panel.vectors, probs_, all_keys(batch.edges), 0, state, 0);
  if (!fresh) rescale_sums(panel, before);
  sums_.add(panel, batch, scores_, probs_, fresh);
}

template <class Real>
void NodeSoftmax<Real>::rescale_sums(const PanelRows& panel, const Real* before) {
  Real factors[kMaxPanel];
  bool moved = false;
  for (std::size_t h = 0; h < panel.rows; ++h) {
    const Real now = row_max_[panel.first + static_cast<std::int64_t>(h)];
    moved = moved || now != before[h];
    factors[h] = before[h] - now;
  }
  if (!moved) return;
  kernels_.numbers.exp2(factors, factors, panel.rows);
  sums_.rescale(panel, factors);
}

/// Gives the chosen edge all the weight.
template <class Real>
void NodeSoftmax<Real>::take_chosen() {
  const std::size_t size = sums_.value_size() / static_cast<std::size_t>(problem_.heads);
  for (std::int64_t h = 0; h < problem_.heads; ++h) {
    chosen_[h] = argmax(0).chosen(static_cast<std::size_t>(h));
    row_sum_[h] = chosen_[h] == kNoKey ? Real{0} : Real{1};
    if (chosen_[h] >= 0) sums_.take(h, chosen_[h]);
    if (chosen_[h] == kNotANumber)
      std::fill_n(sums_.values() + static_cast<std::size_t>(h) * size, size,
                  std::numeric_limits<Real>::quiet_NaN());
  }
}

template <class Real>
void NodeSoftmax<Real>::finish(std::int64_t node, bool divided) {
  if (problem_.hard) take_chosen();
  sums_.add_edge_values(row_sum_);
  for (std::int64_t h = 0; h < problem_.heads; ++h)
    factors_[h] = row_sum_[h] == 0 ? Real{0} : Real{1} / (divided ? Real{1} : row_sum_[h]);
  output_.write(node, sums_.values(), factors_);
  if (step_.wants_lse()) output_.write_lse(node, row_max_, row_sum_);
}

template <class Real>
void NodeSoftmax<Real>::recompute_weights(std::int64_t begin, std::int64_t end) {
  each_batch(begin, end, [&](const Batch& batch) {
    if (problem_.hard) return output_.write_chosen(batch, chosen_);
    scores_.begin_batch(batch);
    each_panel(kernels_, problem_.heads, [&](const PanelRows& panel) {
      alignas(kAlignment) Real unused[kMaxPanel] = {};
      scores_.compute(panel, batch, probs_);
      kernels_.panels.exponentials(panel.vectors, probs_, batch.edges, row_max_ + panel.first,
                                   unused);
      output_.write_weights(panel, batch, probs_, row_sum_ + panel.first);
    });
  });
}

template class NodeSoftmax<float>;
template class NodeSoftmax<double>;

}  // namespace heed
