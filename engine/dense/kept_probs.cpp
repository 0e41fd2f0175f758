#include "engine/dense/kept_probs.hpp"

#include <algorithm>
#include <limits>

#include "engine/dense/key_block.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

template <class Real>
Real* KeptProbs<Real>::at(const Panel<Real>& panel, std::int64_t k) const {
  if (!keeps_) return scratch();
  return scratch() + static_cast<std::size_t>(plan_.largest_block + k) * panel.pitch;
}

/// Room for a block by itself.
template <class Real>
Real* KeptProbs<Real>::scratch() const {
  return reinterpret_cast<Real*>(slab_ + plan_.slab.scores);
}

/// Of the block with key k. No two blocks of a panel are closer than kNarrowestBlock, but for the
/// first, where a window may begin anywhere.
template <class Real>
Real* KeptProbs<Real>::row_max_of(const Panel<Real>& panel, std::int64_t k) const {
  return reinterpret_cast<Real*>(slab_ + plan_.slab.block_max) +
         static_cast<std::size_t>(k / kNarrowestBlock) * panel.pitch;
}

template <class Real>
void KeptProbs<Real>::keep(const Panel<Real>& panel, const KeyBlock& block,
                           const KeyRanges& needed) const {
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

template <class Real>
void KeptProbs<Real>::skip(const Panel<Real>& panel, const KeyBlock& block) const {
  if (!keeps_) return;
  std::fill_n(row_max_of(panel, block.begin), panel.pitch, std::numeric_limits<Real>::infinity());
}

/// Whether the block was weighed relative to the final row_max, so that its probabilities may stay.
template <class Real>
bool KeptProbs<Real>::stays(const Panel<Real>& panel, std::int64_t k) const {
  const Real* const row_max = row_max_of(panel, k);
  return std::equal(row_max, row_max + panel.pitch, panel.state.row_max);
}

/// The probabilities of a block, relative to the final row_max; sets `again` if they are weighed
/// again, beside the others, because kernels write whole groups of keys.
template <class Real>
const Real* KeptProbs<Real>::complete_block(const Panel<Real>& panel, const KeyBlock& block,
                                            const Scores<Real>& scores, bool& again) const {
  const Real* const row_max = row_max_of(panel, block.begin);
  if (row_max[0] == std::numeric_limits<Real>::infinity()) return no_weight(panel, block);
  if (stays(panel, block.begin)) return at(panel, block.begin);
  again = true;
  const std::int64_t key_head = panel.pack->head / plan_.problem.group();
  scores.weigh_again(panel, key_head, block, scores.allowed(panel, block), scratch());
  return scratch();
}

template <class Real>
const Real* KeptProbs<Real>::no_weight(const Panel<Real>& panel, const KeyBlock& block) const {
  std::fill_n(scratch(), block.keys * panel.pitch, Real{0});
  return scratch();
}

template <class Real>
void KeptProbs<Real>::write_some(const Panel<Real>& panel, const Real* probs, const Real* sums,
                                 std::size_t keys, std::byte* const* rows,
                                 const bool* wanted) const {
  const KernelTable<Real>& kernels = kernels_of<Real>(*plan_.context->kernels);
  const Layout& layout = plan_.problem.weights;
  Real* const row = reinterpret_cast<Real*>(slab_ + plan_.slab.rows);
  kernels.panels.normalise(panel.vectors, probs, sums, keys, scratch());
  for (std::size_t i = 0; i < panel.rows; ++i) {
    if (!wanted[i]) continue;
    for (std::size_t j = 0; j < keys; ++j) row[j] = scratch()[j * panel.pitch + i];
    kernels.numbers.write(layout.type, row, keys, rows[i], layout.strides.feature);
  }
}

template <class Real>
bool KeptProbs<Real>::write(const Panel<Real>& panel, std::int64_t step, const Scores<Real>& scores,
                            const bool* wanted) const {
  const KernelTable<Real>& kernels = kernels_of<Real>(*plan_.context->kernels);
  const Layout& layout = plan_.problem.weights;
  std::byte* rows[kMaxPanel];
  panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
    rows[i] = row_at(args_.weights, layout, sequence_.batch, head, row);
  });
  // Blocks as prefill cuts them, several together where nothing comes between. Keys before and
  // after its own are 0, and past the end of the sequence also where a row is NaN.
  bool again = false;
  const bool in_place = layout.type == kTypeOf<Real> && wanted == nullptr;
  const std::int64_t ends[] = {panel.key_begin, panel.key_end, sequence_.key_length,
                               plan_.problem.key_length};
  std::int64_t k = 0;
  for (const std::int64_t end : ends) {
    const bool own = end == panel.key_end && k >= panel.key_begin;
    alignas(kAlignment) Real sums[kMaxPanel] = {};
    if (k < sequence_.key_length) std::copy_n(panel.state.row_sum, panel.pitch, sums);
    while (k < end) {
      std::int64_t next = std::min(round_down(k, step) + step, end);
      if (in_place && own && stays(panel, k))
        while (next < end && stays(panel, next)) next = std::min(next + step, end);
      const KeyBlock block = {k, static_cast<std::size_t>(next - k)};
      const Real* const probs =
          own ? complete_block(panel, block, scores, again) : no_weight(panel, block);
      if (wanted != nullptr)
        write_some(panel, probs, sums, block.keys, rows, wanted);
      else
        store_columns(kernels, probs, sums, block.keys, rows, panel.rows, panel.vectors, layout,
                      reinterpret_cast<Real*>(slab_ + plan_.slab.rows), plan_.past_caches);
      for (std::size_t i = 0; i < panel.rows; ++i)
        rows[i] += (next - k) * layout.strides.feature * layout.bytes;
      k = next;
    }
  }
  return again;
}

template class KeptProbs<float>;
template class KeptProbs<double>;

}  // namespace heed
