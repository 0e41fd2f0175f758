// The results of a hub's pieces, and how they are merged.
#pragma once

#include "engine/graph/softmax.hpp"

namespace heed {

/// The results of one piece, in the workspace.
template <class Real>
class Piece {
 public:
  Piece(const GraphStep& step, std::int64_t index);

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

  const PieceSlab& offsets_;
  const GraphProblem& problem_;
  std::byte* begin_;
};

/// Merges the pieces of a hub in order, and leaves `softmax` as if it had gone over all edges and
/// divided its sums.
template <class Real>
void merge_pieces(const GraphStep& step, const Hub& hub, const NodeSoftmax<Real>& softmax);

extern template class Piece<float>;
extern template class Piece<double>;
extern template void merge_pieces(const GraphStep&, const Hub&, const NodeSoftmax<float>&);
extern template void merge_pieces(const GraphStep&, const Hub&, const NodeSoftmax<double>&);

}  // namespace heed
