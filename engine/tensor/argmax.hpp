// Hard attention: finds the key with the highest score, block by block.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/kernels/table.hpp"

namespace heed {

/// In place of a key: nothing was seen; a score was NaN.
inline constexpr std::int64_t kNoKey = -1;
inline constexpr std::int64_t kNotANumber = -2;

/// The best keys of a panel's rows so far.
template <class Real>
struct Argmax {
  Real* best;          ///< [pitch] the largest score so far
  std::int64_t* keys;  ///< [rows] its key

  void begin(std::size_t pitch, std::size_t rows) const {
    std::fill_n(best, pitch, -std::numeric_limits<Real>::infinity());
    std::fill_n(keys, rows, kNoKey);
  }

  /// Takes in the scores [count][pitch] of the keys from first_key on.
  void look(const KernelTable<Real>& kernels, const Real* scores, std::int64_t first_key,
            std::size_t count, std::size_t rows, std::size_t vectors) const {
    alignas(kAlignment) Real index[kMaxPanel];
    std::fill_n(index, kMaxPanel, Real{-1});
    kernels.panels.argmax(vectors, scores, count, best, index);
    for (std::size_t i = 0; i < rows; ++i)
      if (index[i] >= 0) keys[i] = first_key + static_cast<std::int64_t>(index[i]);
  }

  /// The key of row i, once all scores have been seen.
  std::int64_t chosen(std::size_t i) const { return std::isnan(best[i]) ? kNotANumber : keys[i]; }
};

}  // namespace heed
