// The keys between two accumulations: how many they are, and which of them become weights how. It
// depends on the panel and the problem alone, so that bits do not depend on tiles, threads or the
// rest of the batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/dense/panel.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

/// A panel's references start from the maximum over this many keys.
inline constexpr std::int64_t kProbeKeys = 32;

/// Scores become weights in registers in whole groups.
inline constexpr auto kGroup = static_cast<std::int64_t>(kRowPadding);

/// Narrow panels (decoding) read values in place, one step of keys at a time, once per group of
/// features: this many floats of a step's values stay in the L1 cache meanwhile.
inline constexpr std::int64_t kNarrowStepFloats = 4096;
inline constexpr std::int64_t kNarrowestStep = 16;

/// Keys of a step, given those of a wide panel's.
template <class Real>
std::int64_t key_step(const Panel<Real>& panel, std::int64_t step, std::int64_t value_features) {
  if (panel.vectors > 1) return step;
  // Halved, so that steps end where tiles end, whatever the tile.
  while (step > kNarrowestStep && step * value_features > kNarrowStepFloats) step /= 2;
  return step;
}

/// A step's keys in order: the first are scored and then become weights, the next become weights
/// while their scores are in registers, the rest is as the first.
struct Split {
  std::size_t first, fused;
};

/// Most scores become weights while they are in registers. The first keys of a panel, which is then
/// `fresh`, do not: their maximum is taken first, so that references rarely move later. Nor do keys
/// that only some rows attend, or the few that are no whole group.
template <class Real>
Split split(const Panel<Real>& panel, std::int64_t k, std::size_t keys, bool fresh) {
  const auto step = static_cast<std::int64_t>(keys);
  const std::int64_t whole_begin = std::max(panel.whole_begin - k, std::int64_t{0});
  const std::int64_t whole_end = std::min(panel.whole_end - k, step);
  const std::int64_t first = round_up(std::max(whole_begin, fresh ? kProbeKeys : 0), kGroup);
  const std::int64_t fused = round_down(whole_end - first, kGroup);
  if (fused <= 0) return {keys, 0};
  const bool at_end = whole_end == step;  // what is no whole group is then among the first
  return {static_cast<std::size_t>(at_end ? step - fused : first), static_cast<std::size_t>(fused)};
}

}  // namespace heed
