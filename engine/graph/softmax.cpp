#include "engine/graph/softmax.hpp"

#include <limits>

namespace heed {

template <class Real>
NodeSoftmax<Real>::NodeSoftmax(const GraphStep& step, std::byte* slab)
    : step_(step),
      problem_(step.plan.problem),
      kernels_(kernels_of<Real>(*step.plan.context->kernels)),
      scores_(step, slab),
      sums_(step, slab),
      output_(step, slab),
      probs_(at<Real>(slab, step.plan.slab.scores)),
      row_max_(at<Real>(slab, step.plan.slab.row_max)),
      row_sum_(at<Real>(slab, step.plan.slab.row_sum)),
      factors_(at<Real>(slab, step.plan.slab.factors)),
      chosen_(at<std::int64_t>(slab, step.plan.slab.chosen)) {
  // Lanes without a head stay finite: their scores begin at 0, and probabilities are at most 2^8.
  std::fill_n(probs_, kBatch * kMaxPanel, Real{0});
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

/// Prefetches the rows of a later batch's worth of edges in one go. Most rows begin in a page whose
/// address has to be looked up, and look-ups overlap only if they follow each other closely.
template <class Real>
inline void NodeSoftmax<Real>::prefetch(const Batch& batch) const {
  const Gather<Real>& keys = scores_.keys();
  const Gather<Real>& values = sums_.rows();
  const std::int32_t* const source = step_.plan.graph->others.data() + batch.begin + keys.ahead();
  for (std::size_t e = 0; e < batch.edges; ++e) {
    keys.prefetch(source[e]);
    values.prefetch(source[e]);
  }
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
