// A layout in a descriptor together with the shape of what it lays out: every tensor of a problem
// is arranged or drawn here, and gets just the memory that its layout reaches.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "api/heed.h"
#include "tests/problem/draw.hpp"
#include "tests/problem/extent.hpp"

namespace heed_test {

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
