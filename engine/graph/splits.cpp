#include "engine/graph/splits.hpp"

#include <cmath>

#include "engine/tensor/merge.hpp"

namespace heed {
namespace {

/// The splits of one hub, and the workspace that merging needs.
template <class Real>
class Splits {
 public:
  Splits(const GraphStep& step, const Hub& hub)
      : step_(step), problem_(step.plan.problem), hub_(hub) {}

  /// The highest score of all splits; of equal ones the lowest edge's.
  void choose(const NodeSoftmax<Real>& softmax) const {
    softmax.forget();
    softmax.sums().clear();
    for (std::int64_t k = 0; k < hub_.splits; ++k) {
      const Split<Real> split = this->split(k);
      for (std::int64_t h = 0; h < problem_.heads; ++h) {
        const Real score = split.row_max()[h];
        Real& best = softmax.row_max()[h];
        if (score > best) softmax.chosen()[h] = split.chosen()[h];
        if (score > best || std::isnan(score)) best = score;
      }
    }
  }

  /// The softmax over all splits. Their log-sum-exps are taken relative to the largest row_max,
  /// which keeps digits, and lets scores of +inf share the probability.
  void merge_softmax(const NodeSoftmax<Real>& softmax) const {
    softmax.forget();
    for (std::int64_t h = 0; h < problem_.heads; ++h) {
      Real& row_max = softmax.row_max()[h];
      for (std::int64_t k = 0; k < hub_.splits; ++k)
        row_max = std::max(row_max, split(k).row_max()[h]);
      double sum = 0;
      for (std::int64_t k = 0; k < hub_.splits; ++k) {
        const double ahead = static_cast<double>(split(k).row_max()[h]) - double{row_max};
        double& lse = split(k).lse()[h];
        lse = kLn2 * ahead + std::log(static_cast<double>(split(k).row_sum()[h]));
        sum += std::exp(lse);
      }
      softmax.row_sum()[h] = static_cast<Real>(sum);
    }
  }

  /// Merges rows [heads][features], which `from` finds in each split, by their log-sum-exps.
  template <class From>
  void merge_rows(From&& from, std::int64_t features, Real* to) const {
    auto* const pointers = at<const void*>(step_.workspace, step_.plan.space.split_rows);
    const void** const outs = pointers + hub_.first_split;
    const void** const lses = outs + step_.plan.graph->splits;
    for (std::int64_t k = 0; k < hub_.splits; ++k) {
      outs[k] = from(split(k));
      lses[k] = split(k).lse();
    }
    const Layout rows = {kTypeOf<Real>, sizeof(Real), {0, features, 0, 1}};
    const Layout numbers = {ElementType::kF64, sizeof(double), {0, 1, 0, 0}};
    const Merge merge = {static_cast<std::size_t>(hub_.splits), outs, lses, to, nullptr};
    for (std::int64_t h = 0; h < problem_.heads; ++h)
      merge_row(step_.plan.context->kernels->f64, {rows, numbers, rows, numbers}, merge, features,
                {0, h, 0});
  }

 private:
  Split<Real> split(std::int64_t k) const { return Split<Real>(step_, hub_.first_split + k); }

  const GraphStep& step_;
  const GraphProblem& problem_;
  const Hub& hub_;
};

}  // namespace

template <class Real>
Split<Real>::Split(const GraphStep& step, std::int64_t index)
    : offsets_(step.plan.split),
      problem_(step.plan.problem),
      begin_(step.workspace + step.plan.space.splits +
             static_cast<std::size_t>(index) * step.plan.split.bytes) {}

template <class Real>
void Split<Real>::store(const NodeSoftmax<Real>& softmax) const {
  store_softmax(softmax);
  if (problem_.hard) return;
  const auto heads = static_cast<std::size_t>(problem_.heads);
  const auto divide = [&](const Real* from, std::size_t count, Real* to) {
    const std::size_t each = count / heads;
    for (std::size_t h = 0; h < heads; ++h) {
      const Real factor = softmax.row_sum()[h] == 0 ? Real{0} : 1 / softmax.row_sum()[h];
      for (std::size_t x = h * each; x < (h + 1) * each; ++x) to[x] = from[x] * factor;
    }
  };
  divide(softmax.sums().values(), softmax.sums().value_size(), values());
  divide(softmax.sums().edge_data(), softmax.sums().edge_size(), edge_data());
}

template <class Real>
void Split<Real>::store_softmax(const NodeSoftmax<Real>& softmax) const {
  std::copy_n(softmax.row_max(), problem_.heads, row_max());
  std::copy_n(softmax.row_sum(), problem_.heads, row_sum());
  if (problem_.hard) std::copy_n(softmax.chosen(), problem_.heads, chosen());
}

template <class Real>
void Split<Real>::load_softmax(const NodeSoftmax<Real>& softmax) const {
  softmax.forget();
  std::copy_n(row_max(), problem_.heads, softmax.row_max());
  std::copy_n(row_sum(), problem_.heads, softmax.row_sum());
  if (problem_.hard) std::copy_n(chosen(), problem_.heads, softmax.chosen());
}

template <class Real>
void merge_splits(const GraphStep& step, const Hub& hub, const NodeSoftmax<Real>& softmax) {
  const Splits<Real> splits(step, hub);
  if (step.plan.problem.hard) return splits.choose(softmax);
  const auto heads = step.plan.problem.heads;
  const EdgeSums<Real>& sums = softmax.sums();
  splits.merge_softmax(softmax);
  splits.merge_rows([](const Split<Real>& split) { return split.values(); },
                    static_cast<std::int64_t>(sums.value_size()) / heads, sums.values());
  if (sums.edge_size() > 0)
    splits.merge_rows([](const Split<Real>& split) { return split.edge_data(); },
                      static_cast<std::int64_t>(sums.edge_size()) / heads, sums.edge_data());
}

template class Split<float>;
template class Split<double>;
template void merge_splits(const GraphStep&, const Hub&, const NodeSoftmax<float>&);
template void merge_splits(const GraphStep&, const Hub&, const NodeSoftmax<double>&);

}  // namespace heed
