// The softmax of one node over some of its edges, and its weighted sums of values and edge data.
#pragma once

#include "engine/graph/dropout.hpp"
#include "engine/graph/output.hpp"
#include "engine/graph/scores.hpp"

namespace heed {

/// Softmax as it stands: of a node in a thread's slab, or of a hub's split.
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

/// In the thread's slab.
template <class Real>
class NodeSoftmax {
 public:
  /// `same_bits`: see EdgeSide.
  explicit NodeSoftmax(const GraphThread<Real>& on, bool same_bits = false)
      : on_(on),
        scores_(on, {on.graph, on.step.query, on.step.key, on.buffer(&NodeSlab::keys), nullptr,
                     same_bits}) {
    // Lanes without a head stay finite: their scores begin at 0, and probabilities are at most 2^8.
    std::fill_n(probs_, kBatch * kMaxPanel, Real{0});
    forget();
  }

  const SoftmaxState<Real>& state() const { return state_; }
  EdgeScores<Real>& scores() { return scores_; }
  const Gather<Real>& values() const { return value_of_; }
  const EdgeMatrix<Real>& matrix() const { return matrix_; }

  /// Calls function(sums, their features) for the sums that there are, members of a SoftmaxState.
  template <class Function>
  void each_sum(Function&& function) const {
    function(&SoftmaxState<Real>::values, on_.value_features);
    if (matrix_.given()) function(&SoftmaxState<Real>::edge_data, on_.edge_width);
  }

  void clear_sums() const {
    each_sum([&](auto sums, std::size_t features) {
      std::fill_n(state_.*sums, on_.heads * features, Real{0});
    });
  }

  /// Computes and writes the results of a range's nodes, at once where kernels can; alone(node)
  /// does it for the others.
  template <class Alone>
  void attend_nodes(const NodeRange& range, Alone&& alone) {
    scores_.each_node(
        at_once_, range, value_of_, out_.in_place() && !on_.step.wants_lse(),
        [&](const NodeTile& tile) { return attend_at_once(tile); }, alone);
  }

  /// Goes over the edges [begin, end) of a node. `write_weights`: weights are wanted, and known at
  /// once, because these are all its edges and they fit one batch.
  void attend(std::int64_t node, std::int64_t begin, std::int64_t end, bool write_weights) {
    forget();
    if (begin == end || problem_.hard) clear_sums();
    if (begin == end) return;
    scores_.begin_node(node);
    each_batch(begin, end, [&](const Batch& batch) {
      scores_.begin_batch(batch);
      EdgeRows values{};
      if (!problem_.hard) values = scores_.values(value_of_, batch);
      on_.each_panel([&](const PanelRows& panel) {
        scores_.compute(panel, batch, probs_);
        if (problem_.hard)
          return argmax(panel.first)
              .look(kernels_, probs_, batch.begin, batch.edges, panel.rows, panel.vectors);
        const bool fresh = batch.begin == begin;
        find_weights(panel, batch, fresh);
        if (write_weights)
          output_.write_weights(panel, batch, probs_, state_.row_sum + panel.first);
        dropout_.apply(panel, batch, on_.graph, 1, probs_);
        scores_.add_rows(panel, batch, values, on_.value_features, probs_, fresh, state_.values);
        if (matrix_.given())
          scores_.add_rows(panel, batch, scores_.edge_data(), on_.edge_width, probs_, fresh,
                           state_.edge_data);
      });
    });
  }

  /// Goes back to the state of having seen no edge.
  void forget() const {
    const auto lanes = static_cast<std::size_t>(round_up(problem_.heads, kernels_.panels.lanes));
    std::fill_n(state_.row_max, lanes, kNoRowMax<Real>);
    std::fill_n(state_.row_sum, lanes, Real{0});
    if (problem_.hard) argmax(0).begin(lanes, on_.heads);
  }

  /// Writes the results of a node, or of a hub whose row_max, row_sum (or chosen) and sums have
  /// been merged and, if `divided`, divided.
  void finish(std::int64_t node, bool divided) {
    if (problem_.hard) take_chosen();
    const Real* const factors = finish_sums(divided);
    output_.write(node, state_.values, factors);
    if (on_.step.wants_lse()) output_.write_lse(node, state_.row_max, state_.row_sum);
  }
  /// Adds what edge data adds to values, and returns the factors of these sums, [heads].
  const Real* finish_sums(bool divided) const {
    if (matrix_.given()) add_edge_values();
    for (std::size_t h = 0; h < on_.heads; ++h) {
      const Real sum = state_.row_sum[h];
      factors_[h] = (divided && sum != 0 ? Real{1} : inverse_of(sum)) / dropout_.kept();
    }
    return factors_;
  }

  /// Writes the weights of the edges [begin, end) of a node whose softmax is known and whose query
  /// is the latest.
  void recompute_weights(std::int64_t begin, std::int64_t end) {
    each_batch(begin, end, [&](const Batch& batch) {
      if (problem_.hard) return output_.write_chosen(batch, state_.chosen);
      scores_.begin_batch(batch);
      on_.each_panel([&](const PanelRows& panel) {
        alignas(kAlignment) Real unused[kMaxPanel] = {};
        scores_.compute(panel, batch, probs_);
        kernels_.panels.exponentials(panel.vectors, probs_, batch.edges,
                                     state_.row_max + panel.first, unused);
        output_.write_weights(panel, batch, probs_, state_.row_sum + panel.first);
      });
    });
  }

 private:
  bool attend_at_once(const NodeTile& tile) {
    const NodeEdges<Real> edges = scores_.at_once(tile, value_of_);
    const NodeRows<Real> out = out_.of(tile);
    Real* const row_max = on_.step.wants_lse() ? state_.row_max : nullptr;
    Real* const weights = on_.step.wants_weights() ? weights_ : nullptr;
    if (!at_once_->attend_nodes(edges, row_max, state_.row_sum, out, weights)) return false;
    if (!out_.in_place()) {
      std::fill_n(factors_, problem_.heads, Real{1});
      output_.write(tile.first, state_.values, factors_);
    }
    if (row_max != nullptr) output_.write_lse(tile.first, row_max, state_.row_sum);
    if (weights != nullptr) output_.write_weights(tile.batch, weights);
    return true;
  }

  /// Turns scores into probabilities, and rescales the sums so far where the largest has moved.
  void find_weights(const PanelRows& panel, const Batch& batch, bool fresh) {
    Real* const row_max = state_.row_max + panel.first;
    Real before[kMaxPanel];
    std::copy_n(row_max, panel.rows, before);
    // The kernel sees no accumulators, because here they do not lie in its lanes.
    const RowState<Real> state = {row_max, state_.row_sum + panel.first, nullptr, true};
    kernels_.panels.softmax(panel.vectors, probs_, all_keys(batch.edges), 0, state, 0);
    if (fresh || std::equal(before, before + panel.rows, row_max)) return;
    Real factors[kMaxPanel];
    for (std::size_t h = 0; h < panel.rows; ++h) factors[h] = before[h] - row_max[h];
    kernels_.numbers.exp2(factors, factors, panel.rows);
    each_sum([&](auto sums, std::size_t features) {
      Real* of_head = state_.*sums + static_cast<std::size_t>(panel.first) * features;
      for (std::size_t h = 0; h < panel.rows; ++h, of_head += features)
        for (std::size_t x = 0; x < features; ++x) of_head[x] *= factors[h];
    });
  }

  /// For heads whose weights have a sum: the sum of p (v + W^T f) is the sum of p v, plus W^T (the
  /// sum of p f).
  void add_edge_values() const {
    on_.each_panel([&](const PanelRows& panel) {
      const Real* const weights = state_.row_sum + panel.first;
      if (std::find(weights, weights + panel.rows, Real{0}) == weights + panel.rows)
        return matrix_.add(panel, state_.edge_data, state_.values);
      for (std::size_t h = 0; h < panel.rows; ++h)
        if (weights[h] != 0)
          matrix_.add({panel.first + static_cast<std::int64_t>(h), 1, 1, 1}, state_.edge_data,
                      state_.values);
    });
  }

  /// The heads from `first` on, with edges for keys.
  Argmax<Real> argmax(std::int64_t first) const {
    return {state_.row_max + first, state_.chosen + first};
  }

  /// Gives the chosen edge all the weight.
  void take_chosen() const {
    const auto& [data, layout] = on_.step.value;
    for (std::size_t h = 0; h < on_.heads; ++h) {
      const std::int64_t edge = argmax(0).chosen(h);
      Real* const values = state_.values + h * on_.value_features;
      state_.chosen[h] = edge;
      state_.row_sum[h] = edge == kNoKey ? Real{0} : Real{1};
      if (edge == kNotANumber)
        std::fill_n(values, on_.value_features, std::numeric_limits<Real>::quiet_NaN());
      if (edge < 0) continue;
      kernels_.numbers.read(
          layout.type,
          row_at(data, layout, 0, static_cast<std::int64_t>(h), on_.graph.others[edge]),
          layout.strides.feature, static_cast<std::size_t>(problem_.value_features), values);
      if (matrix_.given())
        on_.edge_data.copy(on_.graph.given(edge), state_.edge_data + h * on_.edge_width);
    }
  }

  const GraphThread<Real>& on_;
  const GraphProblem& problem_ = on_.problem;
  const KernelTable<Real>& kernels_ = on_.kernels;
  const NodeKernels<Real>* const at_once_ = node_kernels_of<Real>(on_.step);
  EdgeScores<Real> scores_;
  const SoftmaxState<Real> state_{on_.step.plan.slab, on_.slab};
  const Gather<Real> value_of_{kernels_, on_.step.value, problem_.heads, problem_.value_features,
                               on_.buffer(&NodeSlab::value_rows)};
  const EdgeMatrix<Real> matrix_{on_, on_.step.args.w_edge_value, on_.step.plan.space.w_edge_value,
                                 on_.value_features};
  const EdgeDropout<Real> dropout_{on_.step};
  const NodeOutput<Real> output_{on_};
  const TileRows<Real> out_{problem_.combine == HEED_COMBINE_CONCAT && !problem_.residual,
                            on_.step.args.out,
                            problem_.out,
                            problem_.heads,
                            problem_.value_features,
                            false,
                            state_.values};
  Real* const probs_ = on_.buffer(&NodeSlab::scores);
  Real* const factors_ = on_.buffer(&NodeSlab::factors);
  /// [kNodeEdges][heads]: rows of the buffer have a padded number at least.
  Real* const weights_ = on_.buffer(&NodeSlab::isolated);
  static_assert(kNodeEdges <= kBatch * RowKernels<float>::feature_padding);
};

}  // namespace heed
