// Weights that the walk of online softmax leaves behind: the probabilities of one panel against all
// of its keys, kept until its row_sum is known, and then written as rows. Where a row_max has moved
// since a key block, that block is weighed again, so that weights of numbers that are multiplied as
// they are have the bits that recompute() gives them.
#pragma once

#include <cstddef>

#include "engine/dense/panel.hpp"
#include "engine/dense/plan.hpp"
#include "engine/dense/scores.hpp"

namespace heed {

template <class Real>
class KeptProbs {
 public:
  /// The slab is the thread's.
  KeptProbs(const heed_attention_plan& plan, const heed_attention_args& args,
            const Sequence& sequence, std::byte* slab)
      : plan_(plan),
        args_(args),
        sequence_(sequence),
        keeps_(plan.keeps_probs(sequence)),
        slab_(slab) {}

  /// Whether the sequence's probabilities are kept; else keep() and skip() do nothing.
  bool keeps() const { return keeps_; }

  /// Where the panel's probabilities of key k and those after it lie, [key][pitch]; where they are
  /// not kept, all blocks' at the same place.
  Real* at(const Panel<Real>& panel, std::int64_t k) const;

  /// The block's probabilities are there, for those keys that vectors need; the others are 0.
  void keep(const Panel<Real>& panel, const KeyBlock& block, const KeyRanges& needed) const;

  /// No row attends a key of the block.
  void skip(const Panel<Real>& panel, const KeyBlock& block) const;

  /// Writes the rows of weights of a panel that is complete, or those `wanted` alone; `step` is its
  /// block_keys(). True if it used the buffers of keys.
  bool write(const Panel<Real>& panel, std::int64_t step, const Scores<Real>& scores,
             const bool* wanted = nullptr) const;

 private:
  Real* row_max_of(const Panel<Real>& panel, std::int64_t k) const;
  Real* scratch() const;
  bool stays(const Panel<Real>& panel, std::int64_t k) const;
  const Real* complete_block(const Panel<Real>& panel, const KeyBlock& block,
                             const Scores<Real>& scores, bool& again) const;
  const Real* no_weight(const Panel<Real>& panel, const KeyBlock& block) const;
  void write_some(const Panel<Real>& panel, const Real* probs, const Real* sums, std::size_t keys,
                  std::byte* const* rows, const bool* wanted) const;

  const heed_attention_plan& plan_;
  const heed_attention_args& args_;
  const Sequence& sequence_;
  const bool keeps_;
  std::byte* const slab_;
};

extern template class KeptProbs<float>;
extern template class KeptProbs<double>;

}  // namespace heed
