#include "engine/dense/backward/scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/tensor/loops.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

heed_attention_args without_function(heed_attention_args args) {
  args.score_function = nullptr;
  args.score_user = nullptr;
  return args;
}

}  // namespace

template <class Real>
ScoreGradients<Real>::ScoreGradients(const PackRows<Real>& rows)
    : rows_(rows),
      kernels_(rows.kernels()),
      products_(rows.products()),
      plain_args_(without_function(rows.args.attention)),
      scores_(rows.plan.attention, rows.args.attention, rows.sequence, HEED_WEIGHTS_PROBABILITIES,
              rows.attention_slab, pairs_if(rows.pairs)),
      tanh_(rows.plan.attention, rows.args.attention, rows.sequence,
            ScoreSteps::of_tanh(rows.problem(), rows.args.attention), rows.attention_slab,
            pairs_if(rows.pairs)),
      before_function_(rows.plan.attention, plain_args_, rows.sequence, HEED_WEIGHTS_MASKED,
                       rows.attention_slab, pairs_if(rows.pairs)) {}

/// Adds what number(r, j, gradient) says of every pair to a term of its row, in order of keys.
template <class Real>
template <class Number>
void ScoreGradients<Real>::add_terms(const GradPanel<Real>& panel, const KeyBlock& block,
                                     double RowTerms::*term, Number&& number) const {
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

/// The caller's derivative. A pair whose probability is 0 has no gradient, whatever that is.
template <class Real>
void ScoreGradients<Real>::call_function(const GradPanel<Real>& panel,
                                         const KeyBlock& block) const {
  std::int64_t query_rows[kMaxPanel];
  std::int64_t query_heads[kMaxPanel];
  Real* const gradients = panel.gradients;
  const heed_score_tile tile = before_function_.tile_of(
      panel, block, rows_.buffer(rows_.plan.slab.before), query_rows, query_heads);
  rows_.args.given.score_gradient(rows_.args.attention.score_user, &tile, gradients);
  const Real* const probs = panel.probs;
  for (std::size_t at = 0; at < block.keys * panel.pitch; ++at)
    if (probs[at] == 0) gradients[at] = 0;
}

/// Takes out what a bias of -inf excludes: added to a score of +inf or NaN it leaves NaN.
template <class Real>
void ScoreGradients<Real>::exclude(const GradPanel<Real>& panel, const KeyBlock& block) const {
  Real* const probs = panel.probs;
  Real* const gradients = panel.gradients;
  const Real* const attended = scores_.attended(panel, block);
  for (std::size_t at = 0; at < block.keys * panel.pitch; ++at)
    if (attended[at] == -std::numeric_limits<Real>::infinity()) probs[at] = gradients[at] = 0;
}

/// Takes out of scores what rows have in common, far from 0.
template <class Real>
void ScoreGradients<Real>::shift(const GradPanel<Real>& panel, const KeyBlock& block) const {
  for (std::size_t i = 0; i < panel.rows; ++i)
    for (std::size_t j = 0; panel.shift[i] != 0 && j < block.keys; ++j)
      panel.probs[j * panel.pitch + i] -= panel.shift[i];
}

template <class Real>
void ScoreGradients<Real>::compute_biased(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                                          const KeyBlock& block, Allowed allowed) const {
  Real* const scores = panel.probs;
  Real* const gradients = panel.gradients;
  Real* const before = rows_.buffer(rows_.plan.slab.before);
  const std::size_t count = block.keys * panel.pitch;
  const RowsView<Real> keys = from_row(tile.key, block.begin - tile.begin);
  const KeyRanges all = all_keys(block.keys);
  scores_.compute(panel, keys, block, all, allowed, scores);
  products_.scores(panel.vectors, from_row(tile.value, block.begin - tile.begin), all,
                   panel.grad_out, static_cast<std::size_t>(rows_.problem().value_features),
                   gradients);
  const bool warms = rows_.args.given.grad_temperature != nullptr && rows_.all_terms != nullptr;
  if (warms) std::copy_n(scores, count, before);
  shift(panel, block);
  kernels_.panels.softmax_gradient(panel.vectors, scores, block.keys, panel.lse_whole,
                                   panel.lse_rest, panel.delta, gradients);
  if (rows_.args.attention.bias != nullptr && !kernels_.numbers.all_finite(gradients, count))
    exclude(panel, block);
  if (warms)
    add_terms(panel, block, &RowTerms::temperature,
              [&](std::size_t i, std::size_t j, std::int64_t) {
                return static_cast<double>(before[j * panel.pitch + i]) * kLn2;
              });
  if (rows_.args.attention.score_function != nullptr) {
    before_function_.compute(panel, keys, block, all, allowed, before);
    call_function(panel, block);
  }
}

template <class Real>
void ScoreGradients<Real>::go_on(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                                 const KeyBlock& block) const {
  if (rows_.args.given.grad_alibi_slopes != nullptr)
    add_terms(panel, block, &RowTerms::slope, [&](std::size_t, std::size_t j, std::int64_t row) {
      const std::int64_t key = block.begin + static_cast<std::int64_t>(j);
      return -std::fabs(static_cast<double>(rows_.sequence.limits.offset) +
                        static_cast<double>(row - key));
    });
  if (rows_.problem().softcap > 0) {
    Real* const tanh = rows_.buffer(rows_.plan.slab.before);
    tanh_.compute(panel, from_row(tile.key, block.begin - tile.begin), block, all_keys(block.keys),
                  Allowed::kAll, tanh);
    multiply_by_cap_slope(tanh, block.keys * panel.pitch, panel.gradients);
  }
}

template class ScoreGradients<float>;
template class ScoreGradients<double>;

}  // namespace heed
