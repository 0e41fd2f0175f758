// A matrix of a block and its bias: where they lie, and what heed and the oracle get of them.
#pragma once

#include <cstdint>
#include <optional>

#include "api/heed.h"
#include "tests/oracle/multihead.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

/// How a matrix is given. kTransposed is [out, in]; `before` and `after` are columns of wider rows,
/// as of a packed W_qkv, that belong to others and hold canaries.
struct MatrixChoice {
  Arrangement arrangement = Arrangement::kDefault;
  std::uint32_t dtype = HEED_DTYPE_DEFAULT;
  std::uint32_t bias_dtype = HEED_DTYPE_DEFAULT;
  Index before = 0;
  Index after = 0;
  std::size_t misalign = 0;
  bool bias = true;
  bool prepared = false;
};

class WeightMatrix {
 public:
  /// `real` is the arithmetic's type.
  WeightMatrix(Index matrices, Index in, Index out, const MatrixChoice& choice, std::uint32_t real);

  Index in() const { return tensor.shape()[2]; }
  Index out() const { return out_; }
  double get(Index m, Index i, Index o) const;
  void set(Index m, Index i, Index o, double x);

  /// Calls function(matrix, in, out) for every element.
  template <class Function>
  void each(Function&& function) const {
    for (Index m = 0; m < tensor.shape()[0]; ++m)
      for (Index i = 0; i < in(); ++i)
        for (Index o = 0; o < out_; ++o) function(m, i, o);
  }

  /// What keeps a product of numbers around 1 around `amplitude`.
  void fill(Random& random, double amplitude);

  void fill_identity();

  /// What heed gets: of a matrix that is given as it is, else NULL.
  const void* raw() const { return prepared ? nullptr : data(); }
  const void* raw_bias() const { return prepared || !bias ? nullptr : bias->data(); }
  heed_matrix_layout layout() const;

  /// Prepared by heed from numbers that are gone afterwards, or none.
  Weights prepare(const Context& context) const;

  /// What the oracle gets.
  GivenMatrix given() const;

  Tensor tensor;  ///< [matrix, 1, in, out] with the columns of others
  std::optional<Tensor> bias;
  bool prepared;

 private:
  static Axes strides(Index matrices, Index in, Index out, const MatrixChoice& choice);
  bool is_default() const;
  const void* data() const;

  MatrixChoice choice_;
  Index out_;
  std::uint32_t real_;
};

}  // namespace heed_test
