// Probabilities and the gradients of scores, back through all options.
#pragma once

#include "engine/dense/backward/panel.hpp"
#include "engine/dense/scores.hpp"

namespace heed {

template <class Real>
class ScoreGradients {
 public:
  explicit ScoreGradients(const PackRows<Real>& rows);
  ScoreGradients(const ScoreGradients&) = delete;
  ScoreGradients& operator=(const ScoreGradients&) = delete;

  /// The scores of attention itself.
  const Scores<Real>& scores() const { return scores_; }

  /// Leaves the probabilities of a block of keys in panel.probs, and in panel.gradients, times
  /// temperature, the gradients of scores with their biases; 0 where a pair does not attend.
  void compute_biased(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                      const KeyBlock& block, Allowed allowed) const;

  /// Takes these on to the products <q, k>, times temperature / scale.
  void go_on(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block) const;

 private:
  void call_function(const GradPanel<Real>& panel, const KeyBlock& block) const;
  void exclude(const GradPanel<Real>& panel, const KeyBlock& block) const;
  void shift(const GradPanel<Real>& panel, const KeyBlock& block) const;
  template <class Number>
  void add_terms(const GradPanel<Real>& panel, const KeyBlock& block, double RowTerms::*term,
                 Number&& number) const;

  const PackRows<Real>& rows_;
  const KernelTable<Real>& kernels_;
  const ProductKernels<Real>& products_;
  const heed_attention_args plain_args_;  ///< without the score function
  const Scores<Real> scores_;
  const Scores<Real> tanh_;
  const Scores<Real> before_function_;
};

extern template class ScoreGradients<float>;
extern template class ScoreGradients<double>;

}  // namespace heed
