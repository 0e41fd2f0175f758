// The results of a hub's splits, and how they are merged.
#pragma once

#include "engine/graph/softmax.hpp"
#include "engine/tensor/merge.hpp"

namespace heed {

/// The results of one split, in the workspace: sums are divided by row_sum.
template <class Real>
struct Split : PartialResults<Real> {
  Split(const GraphStep& step, std::int64_t index)
      : Split(step.plan.split, step.workspace + step.plan.space.splits +
                                   static_cast<std::size_t>(index) * step.plan.split.bytes) {}

  /// Stores the state of a node's softmax, and its sums.
  void store(const GraphProblem& problem, const NodeSoftmax<Real>& softmax) const {
    store_softmax(problem, softmax);
    if (problem.hard) return;
    const auto heads = static_cast<std::size_t>(problem.heads);
    const auto divide = [&](const Real* from, std::size_t count, Real* to) {
      for (std::size_t h = 0; h < heads; ++h)
        multiply_values(from + h * (count / heads), inverse_of(softmax.row_sum()[h]), count / heads,
                        to + h * (count / heads));
    };
    divide(softmax.sums().values(), softmax.sums().value_size(), this->sums);
    divide(softmax.sums().edge_data(), softmax.sums().edge_size(), edge_sums);
  }

  /// The state alone, from which weights are computed later.
  void store_softmax(const GraphProblem& problem, const NodeSoftmax<Real>& softmax) const {
    std::copy_n(softmax.row_max(), problem.heads, this->row_max);
    std::copy_n(softmax.row_sum(), problem.heads, this->row_sum);
    if (problem.hard) std::copy_n(softmax.chosen(), problem.heads, chosen);
  }
  void load_softmax(const GraphProblem& problem, const NodeSoftmax<Real>& softmax) const {
    softmax.forget();
    std::copy_n(this->row_max, problem.heads, softmax.row_max());
    std::copy_n(this->row_sum, problem.heads, softmax.row_sum());
    if (problem.hard) std::copy_n(chosen, problem.heads, softmax.chosen());
  }

  double* lse;  ///< [heads] relative to the hub's largest row_max
  std::int64_t* chosen;
  Real* edge_sums;

 private:
  Split(const SplitSlab& offsets, std::byte* begin)
      : PartialResults<Real>(),
        lse(at<double>(begin, offsets.lse)),
        chosen(at<std::int64_t>(begin, offsets.chosen)),
        edge_sums(at<Real>(begin, offsets.edge_sums)) {
    this->row_max = at<Real>(begin, offsets.row_max);
    this->row_sum = at<Real>(begin, offsets.row_sum);
    this->sums = at<Real>(begin, offsets.sums);
  }
};

/// Merges the splits of a hub in order, and leaves `softmax` as if it had gone over all edges and
/// divided its sums.
template <class Real>
void merge_splits(const GraphStep& step, const Hub& hub, const NodeSoftmax<Real>& softmax) {
  const std::int64_t heads = step.plan.problem.heads;
  const EdgeSums<Real>& sums = softmax.sums();
  const auto split = [&](auto k) {
    return Split<Real>(step, hub.first_split + static_cast<std::int64_t>(k));
  };
  softmax.forget();
  if (step.plan.problem.hard) {
    // The highest score of all splits; of equal ones the lowest edge's.
    sums.clear();
    for (std::int64_t k = 0; k < hub.splits; ++k)
      for (std::int64_t h = 0; h < heads; ++h) {
        const Real score = split(k).row_max[h];
        Real& best = softmax.row_max()[h];
        if (score > best) softmax.chosen()[h] = split(k).chosen[h];
        if (score > best || std::isnan(score)) best = score;
      }
    return;
  }
  const auto merge = [&](std::int64_t h, Real* Split<Real>::*from, std::size_t size, Real* to) {
    const std::int64_t features = static_cast<std::int64_t>(size) / heads;
    merge_results(
        static_cast<std::size_t>(hub.splits), features,
        [&](std::size_t k) { return split(k).lse[h]; },
        [&](std::size_t k, std::int64_t begin, std::int64_t count, double* numbers) {
          std::copy_n(split(k).*from + h * features + begin, count, numbers);
        },
        [&](std::int64_t begin, std::int64_t count, const double* merged) {
          for (std::int64_t x = 0; x < count; ++x)
            to[h * features + begin + x] = static_cast<Real>(merged[x]);
        });
  };
  for (std::int64_t h = 0; h < heads; ++h) {
    // Log-sum-exps are taken relative to the largest row_max, which keeps digits, and lets scores
    // of +inf share the probability.
    Real& row_max = softmax.row_max()[h];
    for (std::int64_t k = 0; k < hub.splits; ++k) row_max = std::max(row_max, split(k).row_max[h]);
    double sum = 0;
    for (std::int64_t k = 0; k < hub.splits; ++k) {
      const double ahead = static_cast<double>(split(k).row_max[h]) - double{row_max};
      double& lse = split(k).lse[h];
      lse = kLn2 * ahead + std::log(static_cast<double>(split(k).row_sum[h]));
      sum += std::exp(lse);
    }
    softmax.row_sum()[h] = static_cast<Real>(sum);
    merge(h, &Split<Real>::sums, sums.value_size(), sums.values());
    if (sums.edge_size() > 0) merge(h, &Split<Real>::edge_sums, sums.edge_size(), sums.edge_data());
  }
}

}  // namespace heed
