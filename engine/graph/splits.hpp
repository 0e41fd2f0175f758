// The results of a hub's splits, and how they are merged.
#pragma once

#include "engine/graph/softmax.hpp"
#include "engine/tensor/merge.hpp"

namespace heed {

/// The results of one split, in the workspace: sums are divided by row_sum.
template <class Real>
struct Split : SoftmaxState<Real> {
  Split(const GraphStep& step, std::int64_t index)
      : Split(step.plan.split, step.workspace + step.plan.space.splits +
                                   static_cast<std::size_t>(index) * step.plan.split.bytes) {}

  double* lse;  ///< [heads] relative to the hub's largest row_max

 private:
  Split(const SplitSlab& offsets, std::byte* begin)
      : SoftmaxState<Real>(offsets, begin), lse(at<double>(begin, offsets.lse)) {}
};

/// Copies how softmax ended, without the sums.
template <class Real>
void copy_softmax(const GraphProblem& problem, const SoftmaxState<Real>& from,
                  const SoftmaxState<Real>& to) {
  std::copy_n(from.row_max, problem.heads, to.row_max);
  std::copy_n(from.row_sum, problem.heads, to.row_sum);
  if (problem.hard) std::copy_n(from.chosen, problem.heads, to.chosen);
}

/// Goes over the edges of a hub's split.
template <class Real>
void attend_split(const GraphStep& step, const NodeRange& range, NodeSoftmax<Real>& softmax) {
  softmax.attend(range.first, range.begin, range.end, false);
  const GraphProblem& p = step.plan.problem;
  const SoftmaxState<Real>& from = softmax.state();
  const Split<Real> to(step, range.split);
  copy_softmax<Real>(p, from, to);
  if (p.hard) return;
  softmax.each_sum([&](auto sums, std::size_t features) {
    for (std::size_t h = 0; h < static_cast<std::size_t>(p.heads); ++h)
      multiply_values(from.*sums + h * features, inverse_of(from.row_sum[h]), features,
                      to.*sums + h * features);
  });
}

/// Merges the splits of a hub in order, and leaves `softmax` as if it had gone over all edges and
/// divided its sums.
template <class Real>
void merge_splits(const GraphStep& step, const Hub& hub, const NodeSoftmax<Real>& softmax) {
  const std::int64_t heads = step.plan.problem.heads;
  const SoftmaxState<Real>& to = softmax.state();
  const auto split = [&](auto k) {
    return Split<Real>(step, hub.first_split + static_cast<std::int64_t>(k));
  };
  softmax.forget();
  if (step.plan.problem.hard) {
    // The highest score of all splits; of equal ones the lowest edge's.
    softmax.clear_sums();
    for (std::int64_t k = 0; k < hub.splits; ++k)
      for (std::int64_t h = 0; h < heads; ++h) {
        const Real score = split(k).row_max[h];
        Real& best = to.row_max[h];
        if (score > best) to.chosen[h] = split(k).chosen[h];
        if (score > best || std::isnan(score)) best = score;
      }
    return;
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    // Log-sum-exps are taken relative to the largest row_max, which keeps digits, and lets scores
    // of +inf share the probability.
    Real& row_max = to.row_max[h];
    for (std::int64_t k = 0; k < hub.splits; ++k) row_max = std::max(row_max, split(k).row_max[h]);
    double sum = 0;
    for (std::int64_t k = 0; k < hub.splits; ++k) {
      const double ahead = static_cast<double>(split(k).row_max[h]) - double{row_max};
      double& lse = split(k).lse[h];
      lse = kLn2 * ahead + std::log(static_cast<double>(split(k).row_sum[h]));
      sum += std::exp(lse);
    }
    to.row_sum[h] = static_cast<Real>(sum);
    softmax.each_sum([&](auto sums, std::size_t size) {
      const auto features = static_cast<std::int64_t>(size);
      merge_results(
          static_cast<std::size_t>(hub.splits), features,
          [&](std::size_t k) { return split(k).lse[h]; },
          [&](std::size_t k, std::int64_t begin, std::int64_t count, double* values) {
            std::copy_n(split(k).*sums + h * features + begin, count, values);
          },
          [&](std::int64_t begin, std::int64_t count, const double* merged) {
            for (std::int64_t x = 0; x < count; ++x)
              (to.*sums)[h * features + begin + x] = static_cast<Real>(merged[x]);
          });
    });
  }
}

}  // namespace heed
