// What a block of keys adds to the gradients of queries, keys and values.
#pragma once

#include "engine/dense/backward/panel.hpp"
#include "engine/dense/backward/scores.hpp"

namespace heed {

template <class Real>
class Products {
 public:
  Products(const PackRows<Real>& rows, const Scores<Real>& scores)
      : rows_(rows), kernels_(rows.kernels()), products_(rows.products()), scores_(scores) {}

  /// A tile comes before its blocks.
  void pack(const KeyTile<Real>& tile) const;

  /// Adds what ScoreGradients left in the panel to its queries, and to keys and values together
  /// with other panels: those that the run holds come first. `excludes`: some pairs may not attend.
  void add(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block,
           bool excludes, const SplitSums<Real>& sums, PanelRun<Real>& run) const;
  /// Adds what the panels of a run have for keys and values.
  void add(const PanelRun<Real>& run, const SplitSums<Real>& sums) const;

 private:
  /// Whether a key holds no infinity and no NaN.
  enum class Finite : std::uint8_t { kUnknown, kYes, kNo };
  Finite* known() const {
    return reinterpret_cast<Finite*>(rows_.slab() + rows_.plan.slab.finite_keys);
  }
  bool finite(const KeyTile<Real>& tile, const KeyBlock& block) const;
  ValueView<Real> packed(const KeyTile<Real>& tile) const;
  void add_queries(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                   const KeyBlock& block) const;
  void add_columns(const PanelRun<Real>& run, Real* GradPanel<Real>::*left,
                   Real* GradPanel<Real>::*columns, std::int64_t features,
                   const KeySums<Real>& sums) const;
  void add_pairs(const PanelRun<Real>& run, Real* GradPanel<Real>::*left,
                 Real* GradPanel<Real>::*columns, std::int64_t features,
                 const KeySums<Real>& sums) const;
  void add_attended(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block,
                    const SplitSums<Real>& sums) const;

  const PackRows<Real>& rows_;
  const KernelTable<Real>& kernels_;
  const ProductKernels<Real>& products_;
  const Scores<Real>& scores_;
};

extern template class Products<float>;
extern template class Products<double>;

}  // namespace heed
