// A layout in a descriptor together with the shape of what it lays out: every tensor of a problem
// is arranged or drawn here, and gets just the memory that its layout reaches.
//
// How much that is, is computed in 128 bits, where nothing of a caller's numbers can overflow, and
// apart from everything that heed and the oracle compute.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "api/heed.h"
#include "tests/problem/draw.hpp"
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

/// How a tensor that is added to a problem lies.
struct Form {
  std::uint32_t dtype = HEED_DTYPE_DEFAULT;
  Arrangement arrangement = Arrangement::kDefault;
  std::size_t misalign = 0;
};

/// Valid as long as the descriptor stays where it is. A dtype of 0 means `real`.
class LaidOut {
 public:
  /// [batch, head, row, feature]; packed tensors have no batch, and lie [row, head, feature] by
  /// default.
  LaidOut(heed_layout& layout, const Axes& shape, std::uint32_t real, Use use, bool packed = false);
  /// Over pairs [batch, head, row, key], each axis of the size that `sizes` says: a mask's or
  /// bias's own, or for a bias's gradient those of the bias.
  LaidOut(heed_score_layout& layout, const heed_score_layout& sizes, const Axes& pairs,
          std::uint32_t real, Use use);
  /// [matrix, 1, in, out].
  LaidOut(heed_matrix_layout& layout, const Axes& shape, std::uint32_t real, Use use);
  /// `matrices` 0: one.
  LaidOut(heed_matrix_layout& layout, std::int64_t matrices, std::int64_t in, std::int64_t out,
          std::uint32_t real, Use use);
  /// Contiguous numbers without a layout, and of a type that `dtype` says, if anything does.
  LaidOut(std::int64_t count, std::uint32_t* dtype, std::uint32_t real, Use use);

  /// Of a tensor that has no such axis: its stride stays 0.
  LaidOut without(std::size_t axis) const;
  /// Of keys or values, which may be of 8 bits.
  LaidOut stored() const;

  /// Says how the tensor lies.
  void arrange(Arrangement arrangement, std::uint32_t dtype);
  void draw(Draw& draw, std::uint32_t dtype);

  Extent extent() const;
  /// Just the memory that the layout reaches.
  Tensor tensor(std::size_t misalign) const { return extent().tensor(misalign); }
  const Axes& shape() const { return shape_; }
  bool written() const { return use_ == Use::kWritten; }
  bool is_stored() const { return stored_; }
  /// As the descriptor says it, 0 where it says none.
  std::uint32_t dtype() const { return dtype_ == nullptr ? 0 : *dtype_; }

 private:
  LaidOut(const Axes& shape, std::uint32_t* dtype, std::uint32_t* reserved, std::uint32_t real,
          Use use, const std::array<std::int64_t*, 4>& strides);
  void set(const Axes& strides, std::uint32_t reserved, std::uint32_t dtype);

  Axes shape_;
  std::uint32_t* dtype_;
  std::uint32_t* reserved_;
  std::array<std::int64_t*, 4> strides_;  ///< NULL: 0
  std::int64_t* unused_ = nullptr;        ///< stride_batch, which says that other strides are given
  std::uint32_t real_;
  Use use_;
  bool packed_ = false;
  bool stored_ = false;
};

/// Lays a tensor out anew: the same numbers, rounded to its type.
void lay(Tensor& tensor, LaidOut laid, const Form& form);

/// All layouts of a descriptor of gradients; none of a gradient that the problem does not have.
template <std::size_t count>
struct LaidOutGradients {
  LaidOut out, lse;
  std::array<std::optional<LaidOut>, count> of = {};

  std::vector<LaidOut> all() const {
    std::vector<LaidOut> all = {out, lse};
    for (const auto& gradient : of)
      if (gradient) all.push_back(*gradient);
    return all;
  }
};

}  // namespace heed_test
