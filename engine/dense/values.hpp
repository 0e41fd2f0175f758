// The values of one key head, and probabilities times values.
#pragma once

#include "engine/dense/panel.hpp"
#include "engine/dense/plan.hpp"

namespace heed {

template <class Real>
class Values {
 public:
  /// The slab is the thread's. Where there are `parts`, pairs of bfloat16 are multiplied.
  Values(const heed_attention_plan& plan, const heed_attention_args& args, const Sequence& sequence,
         std::int64_t key_head, std::byte* slab, Parts parts = {});

  /// The values of keys [begin, end), where they lie, or widened.
  RowsView<Real> rows(std::int64_t begin, std::int64_t end) const;

  /// Whether kernels cannot read them where they lie: pairs, and rows that end within a group.
  bool packed_always() const {
    return products_.depth != 1 || features_ % PanelGeometry::row_padding != 0;
  }

  /// The same for the kernels: where they lie, or copied next to each other. (Rows at a stride of a
  /// power of two share cache sets.)
  ValueView<Real> in_place(const RowsView<Real>& rows) const;
  ValueView<Real> packed(const RowsView<Real>& rows, std::int64_t keys) const;

  /// The same without the keys before j, which no group of pairs may span.
  ValueView<Real> from_key(ValueView<Real> values, std::int64_t j) const {
    values.data += j / std::int64_t{products_.depth} * values.key_stride;
    return values;
  }

  /// accumulators += probabilities times values, for those of the block's keys that vectors need;
  /// `values` begins with the block.
  void accumulate(const Panel<Real>& panel, const RowState<Real>& state,
                  const ValueView<Real>& values, const KeyBlock& block, const KeyRanges& needed,
                  const Real* probs) const;

  /// The same for a block with masked pairs and values that are infinite or NaN. Such values are
  /// taken out, and added by hand to the rows that attend them, where attended[j][i] is not -inf. A
  /// probability of 0 does not protect a row, since 0 * NaN is NaN.
  void accumulate_isolated(const Panel<Real>& panel, const RowState<Real>& state,
                           const RowsView<Real>& values, const KeyBlock& block,
                           const KeyRanges& needed, const Real* probs, const Real* attended) const;

  /// to[x] = feature x of key j's value.
  void read(std::int64_t j, Real* to) const;

 private:
  const heed_attention_plan& plan_;
  const StoredTensor values_;
  const Sequence& sequence_;
  const KernelTable<Real>& kernels_;
  const ProductKernels<Real>& products_;
  std::int64_t key_head_;
  std::size_t features_;
  std::byte* slab_;
};

extern template class Values<float>;
extern template class Values<double>;

}  // namespace heed
