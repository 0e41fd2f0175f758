// The softmax of one node over some of its edges, and its weighted sums.
#pragma once

#include "engine/graph/dropout.hpp"
#include "engine/graph/output.hpp"
#include "engine/graph/sums.hpp"

namespace heed {

template <class Real>
class NodeSoftmax {
 public:
  /// `same_bits`: see EdgeSide.
  explicit NodeSoftmax(const GraphThread<Real>& on, bool same_bits = false)
      : on_(on), scores_(on, same_bits) {
    // Lanes without a head stay finite: their scores begin at 0, and probabilities are at most 2^8.
    std::fill_n(probs_, kBatch * kMaxPanel, Real{0});
    forget();
  }

  /// All of these are [heads].
  Real* row_max() const { return row_max_; }
  Real* row_sum() const { return row_sum_; }
  std::int64_t* chosen() const { return chosen_; }
  const EdgeSums<Real>& sums() const { return sums_; }
  EdgeScores<Real>& scores() { return scores_; }

  /// Prefetches the rows of a later batch's worth of edges in one go. Most rows begin in a page
  /// whose address has to be looked up, and look-ups overlap only if they follow each other
  /// closely.
  [[gnu::always_inline]] void prefetch(const Batch& batch) const {
    const Gather<Real>& keys = scores_.keys();
    const Gather<Real>& values = sums_.rows();
    const std::int32_t* const source = on_.graph.others.data() + batch.begin + keys.ahead();
    const bool one_row = keys.is(values);
    for (std::size_t e = 0; e < batch.edges; ++e) {
      keys.prefetch(source[e]);
      if (!one_row) values.prefetch(source[e]);
    }
  }

  /// Computes and writes the results of a node at once, if it can be done so.
  bool attend_at_once(std::int64_t node, std::int64_t begin, std::int64_t end) {
    const Batch batch = {begin, static_cast<std::size_t>(end - begin)};
    if (!kHasNodeKernels<Real> || at_once_ == nullptr) return false;
    if (batch.edges == 0 || batch.edges > kBatch) return false;
    prefetch(batch);
    const NodeEdges<Real> edges = scores_.at_once(node, batch, sums_.rows());
    Real* const out = output_.in_place(node);
    Real* const weights = on_.step.wants_weights() ? weights_ : nullptr;
    if (!at_once_->attend_node(edges, row_max_, row_sum_, out != nullptr ? out : sums_.values(),
                               weights))
      return false;
    if (out == nullptr) {
      std::fill_n(factors_, problem_.heads, Real{1});
      output_.write(node, sums_.values(), factors_);
    }
    if (on_.step.wants_lse()) output_.write_lse(node, row_max_, row_sum_);
    if (weights != nullptr) output_.write_weights(batch, weights);
    return true;
  }

  /// Goes over the edges [begin, end) of a node. `write_weights`: weights are wanted, and known at
  /// once, because these are all its edges and they fit one batch.
  void attend(std::int64_t node, std::int64_t begin, std::int64_t end, bool write_weights) {
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
        const bool fresh = batch.begin == begin;
        find_weights(panel, batch, fresh);
        if (write_weights) output_.write_weights(panel, batch, probs_, row_sum_ + panel.first);
        dropout_.apply(panel, batch, on_.graph, 1, probs_);
        sums_.add(panel, batch, scores_, probs_, fresh);
      });
    });
  }

  /// Goes back to the state of having seen no edge.
  void forget() const {
    const auto heads = static_cast<std::size_t>(problem_.heads);
    const auto lanes = static_cast<std::size_t>(round_up(problem_.heads, kernels_.panels.lanes));
    std::fill_n(row_max_, lanes, kNoRowMax<Real>);
    std::fill_n(row_sum_, lanes, Real{0});
    if (problem_.hard) argmax(0).begin(lanes, heads);
  }

  /// Writes the results of a node, or of a hub whose row_max, row_sum (or chosen) and sums have
  /// been merged and, if `divided`, divided.
  void finish(std::int64_t node, bool divided) {
    if (problem_.hard) take_chosen();
    sums_.add_edge_values(row_sum_);
    for (std::int64_t h = 0; h < problem_.heads; ++h) factors_[h] = factor_of(h, divided);
    output_.write(node, sums_.values(), factors_);
    if (on_.step.wants_lse()) output_.write_lse(node, row_max_, row_sum_);
  }
  /// The factor of a head's sums in the end.
  Real factor_of(std::int64_t head, bool divided) const {
    const Real of_sum = divided && row_sum_[head] != 0 ? Real{1} : inverse_of(row_sum_[head]);
    return of_sum / dropout_.kept();
  }

  /// Writes the weights of the edges [begin, end) of a node whose softmax is known and whose query
  /// is the latest.
  void recompute_weights(std::int64_t begin, std::int64_t end) {
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

 private:
  /// Turns scores into probabilities, and rescales the sums so far where the largest has moved.
  void find_weights(const PanelRows& panel, const Batch& batch, bool fresh) {
    alignas(kAlignment) Real before[kMaxPanel];
    std::copy_n(row_max_ + panel.first, panel.rows, before);
    // The kernel sees no accumulators, because here they do not lie in its lanes.
    const RowState<Real> state = {row_max_ + panel.first, row_sum_ + panel.first, nullptr, true};
    kernels_.panels.softmax(panel.vectors, probs_, all_keys(batch.edges), 0, state, 0);
    if (!fresh) rescale_sums(panel, before);
  }

  void rescale_sums(const PanelRows& panel, const Real* before) const {
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

  /// The heads from `first` on, with edges for keys.
  Argmax<Real> argmax(std::int64_t first) const { return {row_max_ + first, chosen_ + first}; }

  /// Gives the chosen edge all the weight.
  void take_chosen() const {
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

  const GraphThread<Real>& on_;
  const GraphProblem& problem_ = on_.problem;
  const KernelTable<Real>& kernels_ = on_.kernels;
  const NodeKernels<Real>* const at_once_ = node_kernels_of<Real>(on_.step);
  EdgeScores<Real> scores_;
  EdgeSums<Real> sums_{on_};
  const EdgeDropout<Real> dropout_{on_.step};
  const NodeOutput<Real> output_{on_};
  Real* const probs_ = on_.buffer(&NodeSlab::scores);
  Real* const row_max_ = on_.buffer(&NodeSlab::row_max);
  Real* const row_sum_ = on_.buffer(&NodeSlab::row_sum);
  Real* const factors_ = on_.buffer(&NodeSlab::factors);
  Real* const weights_ = on_.buffer(&NodeSlab::isolated);  ///< [kBatch][heads]
  std::int64_t* const chosen_ = at<std::int64_t>(on_.slab, on_.step.plan.slab.chosen);
};

}  // namespace heed
