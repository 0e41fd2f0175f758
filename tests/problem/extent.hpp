// How much memory a layout reaches, as tests see it: in 128 bits, where nothing of a
// caller's numbers can overflow, and apart from everything that heed and the oracle compute.
#pragma once

#include <array>
#include <cstdint>

#include "api/heed.h"
#include "tests/support/tensor.hpp"

namespace heed_test {

__extension__ typedef __int128 Wide128;

class Extent {
 public:
  /// A dtype of 0 means `default_dtype`; packed tensors are [1, head, row, feature], and contiguous
  /// ones of them [row, head, feature].
  Extent(const Axes& shape, const heed_layout& layout, std::uint32_t default_dtype, bool packed);

  /// Whether heed may accept such sizes and such a type at all. All else is for those alone.
  bool possible() const;
  bool empty() const;
  /// How many elements there are, wherever they lie.
  Wide128 elements() const;
  /// From the first to the last byte, both included.
  Wide128 bytes() const;
  /// Whether addresses reach so far. Nothing larger may be accepted.
  bool addressable() const { return bytes() <= INT64_MAX; }
  /// Whether it is worth allocating here.
  bool small() const { return bytes() <= kMostBytes && elements() <= kMostElements; }
  /// Whether no two elements share a place; small ones only.
  bool apart() const;

  /// Exactly that memory, canaries in it.
  Tensor tensor(std::size_t misalign) const;
  std::uint32_t dtype() const { return dtype_; }

 private:
  static constexpr std::int64_t kMostBytes = 1 << 16;
  static constexpr std::int64_t kMostElements = 1 << 13;

  void lay_side_by_side(const std::array<std::size_t, 4>& order);
  Axes narrow() const;

  Axes shape_;
  std::array<Wide128, 4> strides_;
  std::uint32_t dtype_;
};

}  // namespace heed_test
