// The results of a hub's splits, and how they are merged.
#pragma once

#include "engine/graph/softmax.hpp"

namespace heed {

/// The results of one split, in the workspace.
template <class Real>
class Split {
 public:
  Split(const GraphStep& step, std::int64_t index);

  Real* row_max() const { return room<Real>(offsets_.row_max); }
  Real* row_sum() const { return room<Real>(offsets_.row_sum); }
  double* lse() const { return room<double>(offsets_.lse); }
  std::int64_t* chosen() const { return room<std::int64_t>(offsets_.chosen); }
  Real* values() const { return room<Real>(offsets_.sums); }
  Real* edge_data() const { return room<Real>(offsets_.edge_sums); }

  /// Stores the state of a node's softmax, and its sums divided by row_sum.
  void store(const NodeSoftmax<Real>& softmax) const;

  /// The state alone, from which weights are computed later.
  void store_softmax(const NodeSoftmax<Real>& softmax) const;
  void load_softmax(const NodeSoftmax<Real>& softmax) const;

 private:
  template <class T>
  T* room(std::size_t offset) const {
    return at<T>(begin_, offset);
  }

  const SplitSlab& offsets_;
  const GraphProblem& problem_;
  std::byte* begin_;
};

/// Merges the splits of a hub in order, and leaves `softmax` as if it had gone over all edges and
/// divided its sums.
template <class Real>
void merge_splits(const GraphStep& step, const Hub& hub, const NodeSoftmax<Real>& softmax);

extern template class Split<float>;
extern template class Split<double>;
extern template void merge_splits(const GraphStep&, const Hub&, const NodeSoftmax<float>&);
extern template void merge_splits(const GraphStep&, const Hub&, const NodeSoftmax<double>&);

}  // namespace heed
