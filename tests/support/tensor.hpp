// A tensor [batch, heads, rows, features] in any layout, with canaries wherever it has no element.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "api/heed.h"
#include "tests/support/buffer.hpp"
#include "tests/support/canary.hpp"

namespace heed_test {

using Axes = std::array<std::int64_t, 4>;

/// How a tensor lies in memory.
enum class Arrangement {
  kDefault,           ///< all strides 0 in the descriptor: contiguous [B, H, L, D]
  kContiguous,        ///< the same, with the strides spelled out
  kRowsOutside,       ///< [B, L, H, D], as projections leave it
  kTransposed,        ///< [B, H, D, L]: the feature stride is L
  kBatchInside,       ///< [H, L, D, B]
  kPadded,            ///< [B, H, L, D] with gaps after every row, head and batch
  kRowsReversed,      ///< the last row first
  kFeaturesReversed,  ///< the last feature first
  kCount
};

inline const char* name_of(Arrangement arrangement) {
  constexpr const char* kNames[] = {"default",       "contiguous",       "rows-outside",
                                    "transposed",    "batch-inside",     "padded",
                                    "rows-reversed", "features-reversed"};
  return kNames[static_cast<int>(arrangement)];
}

/// Strides for axes nested in the given order, outermost first, `gap` elements after every axis.
inline Axes nested(const Axes& shape, const std::array<std::size_t, 4>& order, std::int64_t gap) {
  Axes strides{};
  std::int64_t step = 1;
  for (std::size_t i = 4; i-- > 0;) {
    strides[order[i]] = step;
    step = step * std::max(shape[order[i]], std::int64_t{1}) + gap;
  }
  return strides;
}

inline Axes strides_of(Arrangement arrangement, const Axes& shape) {
  Axes strides = nested(shape, {0, 1, 2, 3}, arrangement == Arrangement::kPadded ? 5 : 0);
  if (arrangement == Arrangement::kRowsOutside) strides = nested(shape, {0, 2, 1, 3}, 0);
  if (arrangement == Arrangement::kTransposed) strides = nested(shape, {0, 1, 3, 2}, 0);
  if (arrangement == Arrangement::kBatchInside) strides = nested(shape, {1, 2, 3, 0}, 0);
  if (arrangement == Arrangement::kRowsReversed) strides[2] = -strides[2];
  if (arrangement == Arrangement::kFeaturesReversed) strides[3] = -strides[3];
  return strides;
}

class Tensor {
 public:
  /// The element [0, 0, 0, 0] lies `misalign` floats off a multiple of 64 bytes, as long as no
  /// stride is negative.
  Tensor(const Axes& shape, const Axes& strides, std::size_t misalign = 0)
      : shape_(shape), strides_(strides), buffer_(extent(), misalign), used_(extent(), false) {
    each([&](const Axes& at) { used_[offset(at)] = true; });
  }

  float* data() { return buffer_.data() + origin(); }
  const float* data() const { return buffer_.data() + origin(); }
  float& at(const Axes& index) { return buffer_[offset(index)]; }
  float at(const Axes& index) const { return buffer_[offset(index)]; }
  const Axes& shape() const { return shape_; }

  heed_layout layout() const {
    return {HEED_DTYPE_F32, 0, strides_[0], strides_[1], strides_[2], strides_[3]};
  }

  /// Calls function(index) for every element, in the order [B, H, L, D].
  template <class Function>
  void each(Function&& function) const {
    Axes at{};
    for (at[0] = 0; at[0] < shape_[0]; ++at[0])
      for (at[1] = 0; at[1] < shape_[1]; ++at[1])
        for (at[2] = 0; at[2] < shape_[2]; ++at[2])
          for (at[3] = 0; at[3] < shape_[3]; ++at[3]) function(at);
  }

  /// Elements in the order [B, H, L, D], whatever the layout. Where strides of 0 let several
  /// share a place, the last one stays.
  template <class Function>
  void fill(Function&& function) {
    each([&](const Axes& index) { at(index) = function(); });
  }
  std::vector<float> elements() const {
    std::vector<float> all;
    each([&](const Axes& index) { all.push_back(at(index)); });
    return all;
  }

  /// Whether everything that is no element is untouched.
  bool padding_intact() const {
    if (!buffer_.intact()) return false;
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (!used_[i] && !is_canary(buffer_[i])) return false;
    return true;
  }

 private:
  bool empty() const { return shape_[0] * shape_[1] * shape_[2] * shape_[3] == 0; }

  std::size_t extent() const {
    if (empty()) return 0;
    std::int64_t size = 1;
    for (std::size_t axis = 0; axis < 4; ++axis)
      size += (shape_[axis] - 1) * (strides_[axis] < 0 ? -strides_[axis] : strides_[axis]);
    return static_cast<std::size_t>(size);
  }

  /// Where element [0, 0, 0, 0] lies in the buffer: after all that negative strides reach.
  std::size_t origin() const {
    std::int64_t before = 0;
    for (std::size_t axis = 0; axis < 4 && !empty(); ++axis)
      before -= strides_[axis] < 0 ? (shape_[axis] - 1) * strides_[axis] : 0;
    return static_cast<std::size_t>(before);
  }

  std::size_t offset(const Axes& at) const {
    std::int64_t offset = static_cast<std::int64_t>(origin());
    for (std::size_t axis = 0; axis < 4; ++axis) offset += at[axis] * strides_[axis];
    return static_cast<std::size_t>(offset);
  }

  Axes shape_;
  Axes strides_;
  Buffer buffer_;
  std::vector<bool> used_;
};

}  // namespace heed_test
