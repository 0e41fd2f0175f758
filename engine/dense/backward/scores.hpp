// Probabilities and the gradients of scores, back through all options.
#pragma once

#include "engine/dense/backward/panel.hpp"
#include "engine/dense/dropout.hpp"
#include "engine/dense/scores.hpp"

namespace heed {

template <class Real>
class ScoreGradients {
 public:
  explicit ScoreGradients(const PackRows<Real>& rows, const LaidBias<Real>& bias = {})
      : rows_(rows), bias_(bias) {}
  ScoreGradients(const ScoreGradients&) = delete;
  ScoreGradients& operator=(const ScoreGradients&) = delete;

  /// Whether scores and their gradients are products and softmax, and nothing else.
  bool are_plain() const {
    return scores_.plain() && !dropout_.drops() && rows_.args.given.grad_temperature == nullptr &&
           rows_.args.given.grad_alibi_slopes == nullptr;
  }

  /// The scores of attention itself.
  const Scores<Real>& scores() const { return scores_; }

  /// Leaves in panel.probs the probabilities of a block of keys that values have met, and in
  /// panel.gradients, times temperature, the gradients of scores with their biases; 0 where a pair
  /// does not attend.
  void compute_biased(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                      const KeyBlock& block, Allowed allowed) const {
    Real* const scores = panel.probs;
    Real* const gradients = panel.gradients;
    Real* const before = rows_.buffer(&BackwardSlab::before);
    const std::size_t count = block.keys * panel.pitch;
    const RowsView<Real> keys = from_row(tile.key, block.begin - tile.begin);
    const KeyRanges all = all_keys(block.keys);
    scores_.compute(panel, keys, block, all, allowed, scores, bias_);
    rows_.products().scores(panel.vectors, from_row(tile.value, block.begin - tile.begin), all,
                            panel.grad_out, on_.value_features(), gradients);
    if (dropout_.drops())
      dropout_.apply(panel, block, all, gradients, dropout_.factor(), gradients, nullptr);
    const bool warms = rows_.args.given.grad_temperature != nullptr && rows_.all_terms != nullptr;
    if (warms) std::copy_n(scores, count, before);
    shift(panel, block);
    on_.kernels.panels.softmax_gradient(panel.vectors, scores, block.keys, panel.lse_whole,
                                        panel.lse_rest, panel.delta, gradients);
    if (on_.args.bias != nullptr && !on_.kernels.numbers.all_finite(gradients, count))
      exclude(panel, block);
    if (warms)
      add_terms(panel, block, &RowTerms::temperature,
                [&](std::size_t i, std::size_t j, std::int64_t) {
                  return static_cast<double>(before[j * panel.pitch + i]) * kLn2;
                });
    if (on_.args.score_function != nullptr) {
      before_function_.compute(panel, keys, block, all, allowed, before);
      call_function(panel, block);
    }
    if (dropout_.drops())
      dropout_.apply(panel, block, all, scores, dropout_.factor(), scores, nullptr);
  }

  /// Takes these on to the products <q, k>, times temperature / scale.
  void go_on(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block) const {
    if (rows_.args.given.grad_alibi_slopes != nullptr)
      add_terms(panel, block, &RowTerms::slope, [&](std::size_t, std::size_t j, std::int64_t row) {
        const std::int64_t key = block.begin + static_cast<std::int64_t>(j);
        return -std::fabs(static_cast<double>(on_.sequence.limits.offset) +
                          static_cast<double>(row - key));
      });
    if (on_.problem.softcap > 0) {
      Real* const tanh = rows_.buffer(&BackwardSlab::before);
      tanh_.compute(panel, from_row(tile.key, block.begin - tile.begin), block,
                    all_keys(block.keys), Allowed::kAll, tanh);
      multiply_by_cap_slope(tanh, block.keys * panel.pitch, panel.gradients);
    }
  }

 private:
  /// Calls the caller's derivative. A pair whose probability is 0 has no gradient all the same.
  void call_function(const GradPanel<Real>& panel, const KeyBlock& block) const {
    Real* const gradients = panel.gradients;
    before_function_.show(panel, block, rows_.buffer(&BackwardSlab::before),
                          [&](const heed_score_tile& tile) {
                            rows_.args.given.score_gradient(on_.args.score_user, &tile, gradients);
                          });
    const Real* const probs = panel.probs;
    for (std::size_t at = 0; at < block.keys * panel.pitch; ++at)
      if (probs[at] == 0) gradients[at] = 0;
  }

  /// Takes out pairs that a bias of -inf excludes: added to a score of +inf or NaN it leaves NaN.
  void exclude(const GradPanel<Real>& panel, const KeyBlock& block) const {
    Real* const probs = panel.probs;
    Real* const gradients = panel.gradients;
    const Real* const attended = scores_.attended(panel, block);
    for (std::size_t at = 0; at < block.keys * panel.pitch; ++at)
      if (attended[at] == kExcluded<Real>) probs[at] = gradients[at] = 0;
  }

  /// Takes out of scores the common distance of a row from 0.
  void shift(const GradPanel<Real>& panel, const KeyBlock& block) const {
    for (std::size_t i = 0; i < panel.rows; ++i)
      for (std::size_t j = 0; panel.shift[i] != 0 && j < block.keys; ++j)
        panel.probs[j * panel.pitch + i] -= panel.shift[i];
  }

  /// Adds gradient times number(i, j, row) of every pair to a term of its row, in order of keys.
  template <class Number>
  void add_terms(const GradPanel<Real>& panel, const KeyBlock& block, double RowTerms::*term,
                 Number&& number) const {
    const Real* const gradients = panel.gradients;
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      double sum = 0;
      for (std::size_t j = 0; j < block.keys; ++j) {
        const auto gradient = static_cast<double>(gradients[j * panel.pitch + i]);
        if (gradient != 0) sum += gradient * number(i, j, row);
      }
      rows_.terms(row, head).*term += sum;
    });
  }

  /// The arguments of the attention without the score function.
  static heed_attention_args without_function(heed_attention_args args) {
    args.score_function = nullptr;
    args.score_user = nullptr;
    return args;
  }

  const PackRows<Real>& rows_;
  const LaidBias<Real> bias_;
  const AttentionThread<Real>& on_ = rows_.on;
  const Parts parts_ = pairs_if(rows_.pairs);
  const heed_attention_args plain_args_ = without_function(on_.args);
  const Scores<Real> scores_{on_, HEED_WEIGHTS_PROBABILITIES, parts_};
  const Dropout<Real> dropout_{on_};
  const Scores<Real> tanh_{on_, ScoreSteps::of_tanh(on_.problem, on_.args), parts_};
  const Scores<Real> before_function_{
      {on_.plan, plain_args_, on_.sequence, on_.slab}, HEED_WEIGHTS_MASKED, parts_};
};

}  // namespace heed
