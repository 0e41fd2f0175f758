// What a block of keys adds to the gradients of queries, keys and values.
#pragma once

#include "engine/backward/panel.hpp"
#include "engine/backward/scores.hpp"

namespace heed {

template <class Real>
class Products {
 public:
  Products(const PackRows<Real>& rows, const Scores<Real>& scores)
      : rows_(rows), kernels_(rows.kernels()), scores_(scores) {}

  /// Adds what ScoreGradients left in the slab. `excludes`: some pairs may not attend.
  void add(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block,
           bool excludes, const SplitSums<Real>& sums) const;

 private:
  bool all_finite(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                  const KeyBlock& block) const;
  void add_all(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block,
               const SplitSums<Real>& sums) const;
  void add_columns(const GradPanel<Real>& panel, const Real* left, const Real* columns,
                   std::int64_t features, const KeyBlock& block, const KeySums<Real>& sums) const;
  void add_attended(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block,
                    const SplitSums<Real>& sums) const;

  const PackRows<Real>& rows_;
  const KernelTable<Real>& kernels_;
  const Scores<Real>& scores_;
};

extern template class Products<float>;
extern template class Products<double>;

}  // namespace heed
