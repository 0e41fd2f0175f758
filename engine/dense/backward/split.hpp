// Some query rows of a pack against its keys: the gradients of their queries, and what they add to
// those of keys and values.
#pragma once

#include "engine/dense/backward/panel.hpp"
#include "engine/dense/backward/products.hpp"
#include "engine/dense/backward/reader.hpp"
#include "engine/dense/backward/scores.hpp"
#include "engine/tensor/loops.hpp"

namespace heed {

/// Writes a gradient of a row, `values`, or adds it to what is there, which passes through a
/// buffer.
template <class Real>
class Split {
 public:
  /// `pack` of one sequence. The slab is the thread's: that of the attention, then its own. With
  /// `pairs`, those of bfloat16 are multiplied, see backward.cpp.
  Split(const heed_attention_backward_plan& plan, const BackwardArgs& args,
        const Sequence& sequence, std::int64_t pack, std::byte* slab, RowTerms* terms, bool pairs);

  /// Of this sequence.
  std::int64_t splits() const { return ceil_div(cut_.panels(), panels_); }

  /// Writes what the rows of a split have for themselves, and adds the rest to the sums.
  void add(std::int64_t split, const SplitSums<Real>& sums) const;

 private:
  std::int64_t end_of_split(std::int64_t panel) const;
  std::int64_t end_of_block(std::int64_t first) const;
  GradPanel<Real> panel(std::int64_t p, std::int64_t first) const;
  void add_block(std::int64_t first, std::int64_t end, const SplitSums<Real>& sums) const;
  void attend(std::int64_t first, std::int64_t begin, std::int64_t end, const KeyTile<Real>& tile,
              const SplitSums<Real>& sums) const;
  void attend(const GradPanel<Real>& panel, std::int64_t begin, std::int64_t end,
              const KeyTile<Real>& tile, const SplitSums<Real>& sums, PanelRun<Real>& run) const;
  void write_bias(const GradPanel<Real>& panel, const KeyBlock& block) const;
  void finish(const GradPanel<Real>& panel) const;

  const PackRows<Real> rows_;
  const Problem& problem_;
  const KernelTable<Real>& kernels_;
  const ScoreGradients<Real> gradients_;
  const Products<Real> products_;
  const Reader<Real> reader_;
  const PanelCut cut_;         ///< of the pack
  const std::int64_t panels_;  ///< of a split
  const bool writes_bias_;
};

extern template class Split<float>;
extern template class Split<double>;

}  // namespace heed
