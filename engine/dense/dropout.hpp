// Dropout of the weights of a panel: after softmax, whose sums do not know of it.
#pragma once

#include <algorithm>

#include "engine/dense/panel.hpp"

namespace heed {

template <class Real>
class Dropout {
 public:
  explicit Dropout(const AttentionThread<Real>& on)
      : on_(on), mask_(on.problem.dropout, on.args.dropout_seed, on.args.dropout_offset) {
    if (on.args.dropout_origin != nullptr) std::copy_n(on.args.dropout_origin, 4, origin_);
  }

  bool drops() const { return mask_.threshold > 0; }

  /// Backward multiplies with it the probabilities that stay, and their gradients.
  Real factor() const { return static_cast<Real>(1 / on_.problem.kept()); }

  /// to[j][i] = from[j][i] * factor for the block's key j and the panel's row i, 0 where that pair
  /// is dropped. Adds the dropped ones to row_sum, [rows], unless that is nullptr.
  void apply(const Panel<Real>& panel, const KeyBlock& block, const KeyRanges& needed,
             const Real* from, Real factor, Real* to, Real* row_sum) const {
    std::uint32_t rows[kMaxPanel] = {};
    std::uint32_t heads[kMaxPanel] = {};
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      rows[i] = static_cast<std::uint32_t>(origin_[2] + row);
      heads[i] = static_cast<std::uint32_t>(origin_[1] + head);
    });
    const DroppedPairs pairs = {{mask_.key[0], mask_.key[1]},
                                mask_.threshold,
                                static_cast<std::uint32_t>(origin_[0] + on_.sequence.batch),
                                rows,
                                heads,
                                static_cast<std::uint64_t>(origin_[3] + block.begin)};
    alignas(kAlignment) Real dropped[kMaxPanel] = {};
    on_.kernels.panels.drop(panel.vectors, pairs, needed, from, factor, to,
                            row_sum == nullptr ? nullptr : dropped);
    for (std::size_t i = 0; row_sum != nullptr && i < panel.rows; ++i) row_sum[i] += dropped[i];
  }

 private:
  const AttentionThread<Real> on_;
  const DropoutMask mask_;
  std::int64_t origin_[4] = {};  ///< the batch, head, row and key of the first
};

}  // namespace heed
