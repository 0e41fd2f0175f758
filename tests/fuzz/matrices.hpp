// Matrices and their biases, given as they are or prepared, as blocks and graphs take them.
#pragma once

#include <optional>

#include "tests/fuzz/check.hpp"
#include "tests/oracle/multihead.hpp"
#include "tests/problem/extent.hpp"

namespace heed_test {

/// A matrix that heed has accepted the layout of.
class FuzzMatrix {
 public:
  /// `matrices` 0: one. `real` is the arithmetic's type.
  FuzzMatrix(std::int64_t matrices, std::int64_t in, std::int64_t out,
             const heed_matrix_layout& layout, std::uint32_t real, std::uint32_t bias_dtype);

  /// Demands that it can be addressed; whether it is worth allocating.
  bool small() const;

  void make(Draw& draw);
  /// Prepares what was made, which must succeed.
  void prepare();

  const void* matrix() const { return matrix_ ? matrix_->data() : nullptr; }
  const void* bias() const { return bias_ ? bias_->data() : nullptr; }
  /// What goes into the arguments: one of the first and the last is NULL. `plain`: the last.
  void give(const void*& w, const void*& b, const heed_weights*& p, bool plain = false) const {
    p = plain ? nullptr : prepared();
    w = p == nullptr ? matrix() : nullptr;
    b = p == nullptr ? bias() : nullptr;
  }
  const heed_weights* prepared() const { return prepared_.get(); }

  /// What the oracle gets.
  GivenMatrix given() const;

 private:
  heed_weights_desc desc_ = HEED_WEIGHTS_DESC_INIT;
  Extent extent_;
  std::uint32_t real_;
  std::optional<Tensor> matrix_, bias_;
  Weights prepared_;
};

}  // namespace heed_test
