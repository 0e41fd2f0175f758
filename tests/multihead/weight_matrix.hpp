// A matrix of a block and its bias: where they lie, and what heed and the oracle get of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "api/heed.h"
#include "tests/reference/multihead.hpp"
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
  WeightMatrix(Index matrices, Index in, Index out, const MatrixChoice& choice, std::uint32_t real)
      : tensor({matrices, 1, in, choice.before + out + choice.after},
               strides(matrices, in, out, choice), choice.misalign, dtype_of(choice.dtype, real)),
        prepared(choice.prepared),
        choice_(choice),
        out_(out),
        real_(real) {
    if (choice.bias)
      bias.emplace(Axes{1, 1, 1, out}, Axes{0, 0, 0, 1}, choice.misalign,
                   dtype_of(choice.bias_dtype, real));
  }

  Index in() const { return tensor.shape()[2]; }
  Index out() const { return out_; }
  double get(Index m, Index i, Index o) const { return tensor.get({m, 0, i, choice_.before + o}); }
  void set(Index m, Index i, Index o, double x) { tensor.set({m, 0, i, choice_.before + o}, x); }

  /// Calls function(matrix, in, out) for every element.
  template <class Function>
  void each(Function&& function) const {
    for (Index m = 0; m < tensor.shape()[0]; ++m)
      for (Index i = 0; i < in(); ++i)
        for (Index o = 0; o < out_; ++o) function(m, i, o);
  }

  /// What keeps a product of numbers around 1 around `amplitude`.
  void fill(Random& random, double amplitude) {
    const double scale = amplitude / std::sqrt(static_cast<double>(in()));
    each([&](Index m, Index i, Index o) { set(m, i, o, random.normal<double>() * scale); });
    if (bias) bias->fill([&] { return random.normal<double>() * amplitude / 2; });
  }

  void fill_identity() {
    each([&](Index m, Index i, Index o) { set(m, i, o, i == o ? 1 : 0); });
    if (bias) bias->fill([] { return 0; });
  }

  /// What heed gets: of a matrix that is given as it is, else NULL.
  const void* raw() const { return prepared ? nullptr : data(); }
  const void* raw_bias() const { return prepared || !bias ? nullptr : bias->data(); }
  heed_matrix_layout layout() const {
    heed_matrix_layout layout = HEED_MATRIX_LAYOUT_INIT;
    layout.dtype = choice_.dtype;
    if (is_default()) return layout;
    layout.stride_matrix = tensor.shape()[0] > 1 ? tensor.strides()[0] : 0;
    layout.stride_in = tensor.strides()[2];
    layout.stride_out = tensor.strides()[3];
    return layout;
  }

  /// Prepared by heed, or none.
  Weights prepare(const Context& context) const {
    if (!prepared) return nullptr;
    heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
    desc.arithmetic = real_;
    desc.matrices = tensor.shape()[0];
    desc.in = in();
    desc.out = out_;
    desc.layout = layout();
    desc.bias_dtype = choice_.bias_dtype;
    heed_weights* weights = nullptr;
    require_ok(
        heed_weights_create(context.get(), &desc, data(), bias ? bias->data() : nullptr, &weights));
    return Weights(weights);
  }

  /// What the oracle gets.
  GivenMatrix given() const {
    const Axes& s = tensor.strides();
    const Source matrix = {data(), tensor.dtype(), {s[0], s[1], s[2], s[3]}};
    const Source none = {nullptr, real_, {0, 0, 0, 1}};
    return {matrix, bias ? Source{bias->data(), bias->dtype(), {0, 0, 0, 1}} : none, out_};
  }

  Tensor tensor;  ///< [matrix, 1, in, out] with the columns of others
  std::optional<Tensor> bias;
  bool prepared;

 private:
  static Axes strides(Index matrices, Index in, Index out, const MatrixChoice& choice) {
    return strides_of(choice.arrangement, {matrices, 1, in, choice.before + out + choice.after});
  }
  bool is_default() const {
    return choice_.arrangement == Arrangement::kDefault && choice_.before + choice_.after == 0;
  }
  const void* data() const {
    return static_cast<const unsigned char*>(tensor.data()) +
           choice_.before * tensor.strides()[3] * format_of(tensor.dtype()).bytes;
  }

  MatrixChoice choice_;
  Index out_;
  std::uint32_t real_;
};

}  // namespace heed_test
