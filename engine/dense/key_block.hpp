// Key blocks, the keys between two decisions to rescale, and which of them are fused. They depend
// on the panel and the problem alone, so that bits do not depend on tiles, threads or the rest of
// the batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/dense/panel.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

/// A panel's row maxima start from the maximum over this many keys.
inline constexpr std::int64_t kProbeKeys = 32;

/// Fused keys come in whole groups of this many.
inline constexpr auto kFusedKeys = static_cast<std::int64_t>(PanelGeometry::row_padding);

/// Narrow panels (decoding) read a key block's values in place, once per few features: this many
/// floats stay in the L1 cache meanwhile.
inline constexpr std::int64_t kNarrowBlockFloats = 4096;
inline constexpr std::int64_t kNarrowestBlock = 16;

/// Keys in a block of this panel.
template <class Real>
std::int64_t block_keys(const Panel<Real>& panel, const ProductKernels<Real>& products,
                        std::int64_t value_features) {
  std::int64_t keys = products.key_block;
  if (panel.vectors > 1) return keys;
  const std::int64_t narrowest = std::max(kNarrowestBlock, std::int64_t{products.depth});
  // Halved, so that blocks end where tiles end, whatever the tile.
  while (keys > narrowest && keys * value_features > kNarrowBlockFloats) keys /= 2;
  return keys;
}

/// Which keys of a block become probabilities while their scores are in registers. The keys before
/// and after them are scored first.
struct FusedKeys {
  std::size_t begin, count;
};

/// Most keys are fused. The first keys of a panel, which is then `fresh`, are not: their maximum is
/// taken first, so that row maxima rarely move later. Nor are keys that only some rows attend, or a
/// rest of less than a group.
template <class Real>
FusedKeys fused_keys(const Panel<Real>& panel, const KeyBlock& block, bool fresh) {
  const auto keys = static_cast<std::int64_t>(block.keys);
  const std::int64_t whole_begin = std::max(panel.whole_begin - block.begin, std::int64_t{0});
  const std::int64_t whole_end = std::min(panel.whole_end - block.begin, keys);
  const std::int64_t first = round_up(std::max(whole_begin, fresh ? kProbeKeys : 0), kFusedKeys);
  const std::int64_t fused = round_down(whole_end - first, kFusedKeys);
  if (fused <= 0) return {block.keys, 0};
  const bool at_end = whole_end == keys;  // a rest of less than a group then comes first
  return {static_cast<std::size_t>(at_end ? keys - fused : first), static_cast<std::size_t>(fused)};
}

}  // namespace heed
