#include "engine/dense/kept_probs.hpp"

#include <algorithm>
#include <limits>

#include "engine/dense/key_block.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

template <class Real>
Real* KeptProbs<Real>::at(const Panel<Real>& panel, std::int64_t k) const {
  return reinterpret_cast<Real*>(slab_ + plan_.slab.scores) +
         static_cast<std::size_t>(k) * panel.pitch;
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
  std::fill_n(row_max_of(panel, block.begin), panel.pitch, std::numeric_limits<Real>::infinity());
}

/// sums[i] = what row i's probabilities of a block are to be divided by, which were relative to
/// row_max[i]. False if the block was skipped.
template <class Real>
bool KeptProbs<Real>::find_sums(const Panel<Real>& panel, const Real* row_max, Real* sums) const {
  constexpr Real kMostGrowth = std::numeric_limits<Real>::max_exponent - 1;
  const RowState<Real>& state = panel.state;
  if (row_max[0] == std::numeric_limits<Real>::infinity()) return false;
  if (std::equal(row_max, row_max + panel.pitch, state.row_max)) {
    std::copy_n(state.row_sum, panel.pitch, sums);
    return true;
  }
  alignas(kAlignment) Real growth[kMaxPanel];
  for (std::size_t i = 0; i < panel.pitch; ++i)
    growth[i] = std::min(state.row_max[i] - row_max[i], kMostGrowth);
  kernels_of<Real>(*plan_.context->kernels).numbers.exp2(growth, sums, panel.pitch);
  for (std::size_t i = 0; i < panel.pitch; ++i) {
    const bool lost = growth[i] == kMostGrowth;  // beside a row_max of infinity no weight is left
    sums[i] = lost ? std::numeric_limits<Real>::infinity() : sums[i] * state.row_sum[i];
  }
  return true;
}

template <class Real>
void KeptProbs<Real>::write(const Panel<Real>& panel, std::int64_t step) const {
  const KernelTable<Real>& kernels = kernels_of<Real>(*plan_.context->kernels);
  const Layout& layout = plan_.problem.weights;
  const std::int64_t end = plan_.problem.key_length;
  std::byte* rows[kMaxPanel];
  panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
    rows[i] = row_at(args_.weights, layout, sequence_.batch, head, row);
  });
  for (std::int64_t k = 0; k < end;) {
    // Blocks as prefill cut them; keys before and after them are blocks that were skipped.
    std::int64_t next = std::min(round_down(k, step) + step, end);
    if (k < panel.key_begin) next = std::min(next, panel.key_begin);
    if (k < panel.key_end) next = std::min(next, panel.key_end);
    alignas(kAlignment) Real sums[kMaxPanel] = {};
    const auto keys = static_cast<std::size_t>(next - k);
    Real* const probs = at(panel, k < panel.key_end ? k : 0);  // there is no room for all keys
    if (k < panel.key_begin || k >= panel.key_end || !find_sums(panel, row_max_of(panel, k), sums))
      std::fill_n(probs, keys * panel.pitch, Real{0});
    store_columns(kernels, probs, sums, keys, rows, panel.rows, panel.vectors, layout,
                  reinterpret_cast<Real*>(slab_ + plan_.slab.rows));
    for (std::size_t i = 0; i < panel.rows; ++i)
      rows[i] += (next - k) * layout.strides.feature * layout.bytes;
    k = next;
  }
}

template class KeptProbs<float>;
template class KeptProbs<double>;

}  // namespace heed
