// Weights that the walk of online softmax leaves behind: the probabilities of one panel against all
// of its keys, kept until its row_sum is known, and then written as rows. Where a row_max has moved
// since a key block, that block is weighed again, so that weights of floats that are multiplied as
// they are have the bits that recompute() gives them.
#pragma once

#include <algorithm>
#include <limits>

#include "engine/dense/scores.hpp"

namespace heed {

template <class Real>
class KeptProbs {
 public:
  explicit KeptProbs(const AttentionThread<Real>& on)
      : on_(on), keeps_(on.plan.keeps_probs(on.sequence)) {}

  /// Whether the sequence's probabilities are kept; else keep() and skip() do nothing.
  bool keeps() const { return keeps_; }

  /// Where the panel's probabilities of key k and the keys after it lie, [key][pitch]; where they
  /// are not kept, all blocks' at the same place.
  Real* at(const Panel<Real>& panel, std::int64_t k) const {
    if (!keeps_) return scratch();
    return scratch() + static_cast<std::size_t>(on_.plan.largest_block + k) * panel.pitch;
  }

  /// The block's probabilities are there, for the keys that vectors need; the others are 0.
  void keep(const Panel<Real>& panel, const KeyBlock& block, const KeyRanges& needed) const {
    if (!keeps_) return;
    Real* const probs = at(panel, block.begin);
    const std::size_t lanes = panel.pitch / panel.vectors;
    for (std::size_t w = 0; w < panel.vectors; ++w) {
      Real* const vector = probs + w * lanes;
      for (std::size_t j = 0; j < needed.begin[w]; ++j)
        std::fill_n(vector + j * panel.pitch, lanes, Real{0});
      for (std::size_t j = needed.end[w]; j < block.keys; ++j)
        std::fill_n(vector + j * panel.pitch, lanes, Real{0});
    }
    std::copy_n(panel.state.row_max, panel.pitch, row_max_of(panel, block.begin));
  }

  /// No row attends a key of the block.
  void skip(const Panel<Real>& panel, const KeyBlock& block) const {
    if (!keeps_) return;
    std::fill_n(row_max_of(panel, block.begin), panel.pitch, std::numeric_limits<Real>::infinity());
  }

  /// Writes the rows of weights of a panel that is complete, or the `wanted` ones alone; `step` is
  /// its block_keys(). True if it used the buffers of keys.
  bool write(const Panel<Real>& panel, std::int64_t step, const Scores<Real>& scores,
             const bool* wanted = nullptr) const {
    const Layout& layout = on_.problem.weights;
    std::byte* rows[kMaxPanel];
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      rows[i] = row_at(on_.args.weights, layout, on_.sequence.batch, head, row);
    });
    // Blocks as prefill cuts them, several together where nothing comes between. Keys before and
    // after its own are 0, and past the end of the sequence also where a row is NaN.
    bool again = false;
    const bool in_place = layout.type == kTypeOf<Real> && wanted == nullptr;
    const std::int64_t ends[] = {panel.key_begin, panel.key_end, on_.sequence.key_length,
                                 on_.problem.key_length};
    std::int64_t k = 0;
    for (const std::int64_t end : ends) {
      const bool own = end == panel.key_end && k >= panel.key_begin;
      alignas(kAlignment) Real sums[kMaxPanel] = {};
      if (k < on_.sequence.key_length) std::copy_n(panel.state.row_sum, panel.pitch, sums);
      while (k < end) {
        std::int64_t next = std::min(round_down(k, step) + step, end);
        if (in_place && own && stays(panel, k))
          while (next < end && stays(panel, next)) next = std::min(next + step, end);
        const KeyBlock block = {k, static_cast<std::size_t>(next - k)};
        const Real* const probs =
            own ? complete_block(panel, block, scores, again) : no_weight(panel, block);
        store_columns(on_.kernels, probs, sums, block.keys, rows, panel.rows, panel.vectors, layout,
                      on_.buffer(&Slab::rows), on_.plan.past_caches, wanted);
        for (std::size_t i = 0; i < panel.rows; ++i)
          rows[i] += (next - k) * layout.strides.feature * layout.bytes;
        k = next;
      }
    }
    return again;
  }

 private:
  /// The row_max of the block with key k. No two blocks of a panel are closer than kNarrowestBlock,
  /// except the first, where a window may begin anywhere.
  Real* row_max_of(const Panel<Real>& panel, std::int64_t k) const {
    return on_.buffer(&Slab::block_max) +
           static_cast<std::size_t>(k / kNarrowestBlock) * panel.pitch;
  }

  /// Room for a block by itself.
  Real* scratch() const { return on_.buffer(&Slab::scores); }

  /// Whether the block was weighed relative to the final row_max, so that its probabilities may
  /// stay.
  bool stays(const Panel<Real>& panel, std::int64_t k) const {
    const Real* const row_max = row_max_of(panel, k);
    return std::equal(row_max, row_max + panel.pitch, panel.state.row_max);
  }

  /// The probabilities of a block, relative to the final row_max; sets `again` if they are weighed
  /// again, beside the others, because kernels write whole groups of keys.
  const Real* complete_block(const Panel<Real>& panel, const KeyBlock& block,
                             const Scores<Real>& scores, bool& again) const {
    const Real* const row_max = row_max_of(panel, block.begin);
    if (row_max[0] == std::numeric_limits<Real>::infinity()) return no_weight(panel, block);
    if (stays(panel, block.begin)) return at(panel, block.begin);
    again = true;
    const std::int64_t key_head = panel.pack->head / on_.problem.group();
    scores.weigh_again(panel, key_head, block, scores.allowed(panel, block), scratch());
    return scratch();
  }

  const Real* no_weight(const Panel<Real>& panel, const KeyBlock& block) const {
    std::fill_n(scratch(), block.keys * panel.pitch, Real{0});
    return scratch();
  }

  const AttentionThread<Real> on_;
  const bool keeps_;
};

}  // namespace heed
