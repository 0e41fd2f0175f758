// Gradients of scores, a batch of edges and a panel of heads at a time, and where they go: to the
// sums of a node, to its edges' bias and data, and to sums of a range. Scores that are no products,
// <a, act(z)> with z = query + key + edge data, have
//
//   of z              gradients of scores x a x derivatives of act(z)
//   of query and key  sums over edges of these
//   of a              the sum over edges of gradients of scores x act(z)
//   of W_edge_key     the sum over edges of edge data x gradients of z
#pragma once

#include "engine/graph/backward/step.hpp"
#include "engine/graph/dropout.hpp"
#include "engine/graph/scores.hpp"

namespace heed {

/// Sums over the edges of a range, of gradients that no node has for itself. nullptr: nobody wants
/// them.
template <class Real>
struct RangeSums {
  double* head_weights;  ///< [heads]
  Real* weights;         ///< of a, [heads][features], padded
  Real* edge_keys;       ///< of W_edge_key, [edge_width][heads][features], padded
};

template <class Real>
class ScoreGradients {
 public:
  /// The scores are the node's, and batches are of this order.
  ScoreGradients(const GraphBackwardThread<Real>& on, const EdgeScores<Real>& scores,
                 const EdgeOrder& order)
      : on_(on), scores_(scores), order_(order) {
    if (!is_product_) scores_.read_weights(on.scale, weights_);
    std::fill_n(gradients_, kBatch * kMaxPanel, Real{0});
  }

  /// Of probabilities, then of scores, [edges][pitch].
  Real* gradients() const { return gradients_; }
  /// To be filled with tanh(s / softcap); nullptr: not needed.
  Real* tanh() const { return tanh_; }
  /// A buffer of derivatives of act(), [kBatch][heads][features].
  Real* slopes() const { return slopes_; }

  /// Drops values of edges that the forward run dropped, and magnifies the others as it did.
  void drop(const PanelRows& panel, const Batch& batch, Real* numbers) const {
    dropout_.apply(panel, batch, order_, 1 / dropout_.kept(), numbers);
  }

  /// Scores become probabilities, gradients become gradients of biased scores, times the
  /// temperature.
  void compute(const PanelRows& panel, std::size_t edges, Real* scores, const Real* lse = kZeros,
               const Real* delta = kZeros) const {
    kernels_.panels.softmax_gradient(panel.vectors, scores, edges, kZeros, lse, delta, gradients_);
  }

  /// Writes gradients of biased scores, summed over all heads where they share a bias.
  void write_bias(const PanelRows& panel, const Batch& batch) const {
    if (given_.grad_edge_bias == nullptr) return;
    const auto factor = static_cast<Real>(1 / problem_.temperature);
    const bool shared = on_.plan.problem.sums_bias;
    const bool last = panel.first + static_cast<std::int64_t>(panel.rows) == problem_.heads;
    Layout along = on_.plan.problem.grad_edge_bias;
    along.strides.feature = along.strides.head;
    for (std::size_t e = 0; e < batch.edges; ++e) {
      Real of_edge[kMaxPanel];
      for (std::size_t h = 0; h < panel.rows; ++h)
        of_edge[h] = gradients_[e * panel.pitch + h] * factor;
      if (shared) {
        if (panel.first == 0) bias_sums_[e] = 0;
        for (std::size_t h = 0; h < panel.rows; ++h) bias_sums_[e] += of_edge[h];
        if (!last) continue;
      }
      Real buffer[kMaxPanel];
      write_gradient(kernels_, along, on_.back.adds(), shared ? bias_sums_ + e : of_edge,
                     shared ? 1 : static_cast<std::int64_t>(panel.rows), buffer,
                     row_at(given_.grad_edge_bias, along, 0, shared ? 0 : panel.first,
                            order_.given(batch.edge(e))));
    }
  }

  /// Gradients become gradients of scores before the softcap, times the temperature; and with them
  /// the sums grow, of which finish() makes gradients of the node.
  void add(const PanelRows& panel, const Batch& batch, Real* sums) {
    if (tanh_ != nullptr) multiply_by_cap_slope(tanh_, batch.edges * panel.pitch, gradients_);
    if (is_product_)
      return scores_.add_rows(panel, batch, scores_.rows().again(), features_, gradients_, false,
                              sums);
    activated_ = scores_.activate(panel, 0, batch.edges, slopes_);
    leave_out(panel, batch.edges);
    add_panel_rows(panel, batch, slopes_, sums);
  }

  /// Of the batch and panel that were just added, adds to the sums of a range, and the gradients
  /// that heads pass on to the data of their edges, through keys and through values. `asked` is
  /// W_edge_value times the gradients of heads, [heads][edge_width].
  void add_others(const PanelRows& panel, const Batch& batch, const RangeSums<Real>& sums,
                  const Real* probs, const Real* asked) const {
    add_data(panel, batch, probs, asked);
    if (is_product_) return;
    if (sums.weights != nullptr) add_panel_rows(panel, batch, activated_, sums.weights);
    const bool of_data = given_.grad_edge_data != nullptr;
    if (!matrix_.given() || (sums.edge_keys == nullptr && !of_data)) return;
    const auto first = static_cast<std::size_t>(panel.first) * features_;
    const std::size_t width = panel.rows * features_;
    for (std::size_t e = 0; e < batch.edges; ++e)
      for (std::size_t i = 0; i < width; ++i) {
        const Real gradient = gradients_[e * panel.pitch + i / features_];
        if (gradient != 0) slopes_[e * width + i] *= gradient * weights_[first + i];
      }
    const EdgeRows rows = consecutive_rows(slopes_, width, features_);
    for (std::int64_t c = 0; c < problem_.edge_width; ++c) {
      if (sums.edge_keys != nullptr)
        add_edge_key(panel, batch, rows, scores_.edge_numbers() + c,
                     sums.edge_keys + static_cast<std::size_t>(c) * row_);
      if (of_data)
        kernels_.rows.edge_scores(rows, batch.edges, matrix_.row(c) + first, 1, width, false,
                                  data_rows_ + c, width_);
    }
  }

  /// Writes gradients of a batch's edge data, which all panels have added to.
  void write_data(const Batch& batch) const {
    const Layout& layout = on_.plan.problem.grad_edge_data;
    for (std::size_t e = 0; given_.grad_edge_data != nullptr && e < batch.edges; ++e)
      write_gradient(kernels_, layout, on_.back.adds(), data_rows_ + e * width_,
                     problem_.edge_width, on_.buffer(&GraphBackwardSlab::rows),
                     row_at(given_.grad_edge_data, layout, 0, 0, order_.given(batch.edge(e))));
  }

  /// Makes gradients of the node's sums.
  void finish(Real* sums) const {
    if (is_product_)
      multiply_values(sums, on_.scale, row_, sums);
    else
      weigh(sums);
  }

  /// Kernels that take nodes at once multiply gradients with this: to them a score that adds up is
  /// as a product.
  Real factor_at_once() const { return is_product_ || adds_numbers_ ? on_.scale : Real{1}; }
  /// Makes gradients of the rows that they leave. Where scores add up that is one value for each
  /// head, which becomes a row unless it is written as it is.
  void finish_at_once(const NodeRows<Real>& rows, std::int64_t nodes, bool in_place) const {
    const bool weighs = !is_product_ && !adds_numbers_;
    for (std::int64_t i = 0; weighs && i < nodes; ++i) weigh(rows.first + i * rows.stride);
    for (std::size_t h = on_.heads; adds_numbers_ && !in_place && h-- > 0;) {
      const Real of_head = rows.first[h];
      std::fill_n(rows.first + h * features_, features_, Real{0});
      rows.first[h * features_] = of_head;
    }
  }

 private:
  alignas(kAlignment) static constexpr Real kZeros[kMaxPanel] = {};

  /// Multiplies sums with weights of features: nothing, beside weights that are infinite, stays
  /// nothing.
  void weigh(Real* sums) const {
    const Real* __restrict weights = weights_;
    Real* __restrict to = sums;
    constexpr std::size_t kTogether = RowKernels<Real>::feature_padding;
    // A fixed number at a time, which g++ makes a vector of.
    for (std::size_t i = 0; i < row_; i += kTogether, to += kTogether, weights += kTogether)
      for (std::size_t k = 0; k < kTogether; ++k) {
        const Real product = to[k] * weights[k];
        to[k] = to[k] == 0 ? to[k] : product;
      }
  }

  void add_data(const PanelRows& panel, const Batch& batch, const Real* probs,
                const Real* asked) const {
    if (given_.grad_edge_data == nullptr) return;
    const auto unit = static_cast<double>(scores_.own_scale());
    const double scale = problem_.scale / problem_.temperature;
    const auto factor = static_cast<Real>(unit == 0 ? 0 : scale / unit);
    const bool to_values = on_.back.args.attention.w_edge_value != nullptr;
    const auto first = static_cast<std::size_t>(panel.first);
    for (std::size_t e = 0; e < batch.edges; ++e) {
      Real* const to = data_rows_ + e * width_;
      if (panel.first == 0) std::fill_n(to, width_, Real{0});
      for (std::size_t h = 0; h < panel.rows; ++h) {
        if (scores_.leaves_out(e, h)) continue;
        const auto grow = [&](bool given, Real weight, const Real* by) {
          for (std::size_t c = 0; given && c < width_; ++c) to[c] += weight * by[c];
        };
        const std::size_t at = e * panel.pitch + h;
        grow(is_product_ && matrix_.given(), gradients_[at] * factor,
             scores_.edge_query() + (first + h) * width_);
        grow(to_values, probs[at], asked + (first + h) * width_);
      }
    }
  }

  /// An edge without a gradient adds nothing, whatever it holds: 0 * NaN is NaN.
  void leave_out(const PanelRows& panel, std::size_t edges) {
    leaves_out_ = false;
    for (std::size_t e = 0; e < edges; ++e)
      for (std::size_t h = 0; h < panel.rows; ++h) {
        if (gradients_[e * panel.pitch + h] != 0) continue;
        leaves_out_ = true;
        const std::size_t at = (e * panel.rows + h) * features_;
        std::fill_n(activated_ + at, features_, Real{0});
        std::fill_n(slopes_ + at, features_, Real{0});
      }
  }

  /// sums[h] += values of edges x their gradients of z, without edges that have no gradient.
  void add_edge_key(const PanelRows& panel, const Batch& batch, const EdgeRows& rows,
                    const Real* numbers, Real* sums) const {
    Real* const first = sums + static_cast<std::size_t>(panel.first) * features_;
    if (!leaves_out_)
      return kernels_.rows.edge_values(rows, batch.edges, numbers, width_, 1,
                                       panel.rows * features_, first, false);
    Real attended[kBatch * kMaxPanel];
    for (std::size_t e = 0; e < batch.edges; ++e)
      for (std::size_t h = 0; h < panel.rows; ++h) {
        const std::size_t at = e * panel.pitch + h;
        attended[at] = gradients_[at] == 0 ? 0 : numbers[e * width_];
      }
    on_.sum_rows(panel, rows, batch.edges, attended, features_, false, sums);
  }

  /// sums[h] += gradients x rows, [edges][panel's heads][features].
  void add_panel_rows(const PanelRows& panel, const Batch& batch, const Real* rows,
                      Real* sums) const {
    on_.sum_rows(panel, consecutive_rows(rows, panel.rows * features_, features_), batch.edges,
                 gradients_, features_, false, sums);
  }

  const GraphBackwardThread<Real>& on_;
  const EdgeScores<Real>& scores_;
  const EdgeOrder& order_;
  const heed_graph_attention_backward_args& given_ = on_.back.args.given;
  const GraphProblem& problem_ = on_.problem;
  const KernelTable<Real>& kernels_ = on_.kernels;
  const bool is_product_ = problem_.is_product();
  const bool adds_numbers_ = problem_.score == HEED_SCORE_SUM;
  const EdgeDropout<Real> dropout_{on_.back.forward};
  const EdgeMatrix<Real>& matrix_ = scores_.matrix();
  const std::size_t features_ = on_.features;
  const std::size_t row_ = on_.heads * features_;
  const std::size_t width_ = on_.edge_width;
  Real* const gradients_ = on_.buffer(&GraphBackwardSlab::gradients);
  Real* const tanh_ = problem_.softcap == 0 ? nullptr : on_.buffer(&GraphBackwardSlab::tanh);
  Real* const data_rows_ = on_.buffer(&GraphBackwardSlab::edge_rows);
  Real* const bias_sums_ = on_.buffer(&GraphBackwardSlab::bias_sums);
  /// a, times the factor of gradients of products.
  Real* const weights_ = on_.buffer(&GraphBackwardSlab::score_weights);
  Real* const slopes_ = on_.buffer(&GraphBackwardSlab::slopes);
  Real* activated_ = nullptr;  ///< what act() made of the batch and panel that were just added
  bool leaves_out_ = false;    ///< edges of these
};

}  // namespace heed
