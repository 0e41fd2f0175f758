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

/// Calls function(columns) for all features, cut into panels that are about equally wide.
template <class Function>
void each_columns(const PanelGeometry& panels, std::size_t features, Function&& function) {
  std::size_t vectors = (features + panels.lanes - 1) / panels.lanes;
  std::size_t left = (vectors + panels.max_vectors - 1) / panels.max_vectors;
  for (std::size_t x = 0; left > 0; --left) {
    const std::size_t some = (vectors + left - 1) / left;
    function(Columns{x, some, some * panels.lanes});
    x += some * panels.lanes;
    vectors -= some;
  }
}

/// Pairs of `rows` rows, in whole groups of `depth` of them.
inline std::size_t pair_lines(std::size_t rows, std::size_t depth) {
  return (rows + depth - 1) / depth * depth / 2;
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
