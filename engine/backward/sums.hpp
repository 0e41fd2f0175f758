// Sums over query rows for every key of a pack: of the gradients of its keys, and of its values.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

/// Features side by side in the lanes of a few vectors, as many as a panel has: features [first,
/// first + pitch), of which the last may not count.
struct Columns {
  std::size_t first, vectors, pitch;
};

/// Calls function(columns) for all features, cut into panels.
template <class Function>
void each_columns(const PanelGeometry& panels, std::size_t features, Function&& function) {
  const std::size_t most = std::size_t{panels.lanes} * panels.max_vectors;
  for (std::size_t x = 0; x < features; x += most) {
    const std::size_t vectors = (std::min(most, features - x) + panels.lanes - 1) / panels.lanes;
    function(Columns{x, vectors, vectors * panels.lanes});
  }
}

/// [columns][key][pitch]
template <class Real>
struct KeySums {
  Real* sums;
  std::size_t keys;

  Real* at(const Columns& columns, std::size_t key) const {
    return sums + columns.first * keys + key * columns.pitch;
  }
  /// Numbers of all of them; `padded` features.
  static Size numbers(Size padded, std::int64_t keys) { return padded * keys; }
};

}  // namespace heed
