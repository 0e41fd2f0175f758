#include "tests/problem/weight_matrix.hpp"

#include <cmath>

namespace heed_test {

WeightMatrix::WeightMatrix(Index matrices, Index in, Index out, const MatrixChoice& choice,
                           std::uint32_t real)
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

double WeightMatrix::get(Index m, Index i, Index o) const {
  return tensor.get({m, 0, i, choice_.before + o});
}

void WeightMatrix::set(Index m, Index i, Index o, double x) {
  tensor.set({m, 0, i, choice_.before + o}, x);
}

void WeightMatrix::fill(Random& random, double amplitude) {
  const double scale = amplitude / std::sqrt(static_cast<double>(in()));
  each([&](Index m, Index i, Index o) { set(m, i, o, random.normal<double>() * scale); });
  if (bias) bias->fill([&] { return random.normal<double>() * amplitude / 2; });
}

void WeightMatrix::fill_identity() {
  each([&](Index m, Index i, Index o) { set(m, i, o, i == o ? 1 : 0); });
  if (bias) bias->fill([] { return 0; });
}

heed_matrix_layout WeightMatrix::layout() const {
  heed_matrix_layout layout = HEED_MATRIX_LAYOUT_INIT;
  layout.dtype = choice_.dtype;
  if (is_default()) return layout;
  layout.reserved = strides_said(tensor.strides());
  layout.stride_matrix = tensor.shape()[0] > 1 ? tensor.strides()[0] : 0;
  layout.stride_in = tensor.strides()[2];
  layout.stride_out = tensor.strides()[3];
  return layout;
}

Weights WeightMatrix::prepare(const Context& context) const {
  if (!prepared) return nullptr;
  WeightMatrix gone = *this;  // what it is prepared from
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.arithmetic = real_;
  desc.matrices = tensor.shape()[0];
  desc.in = in();
  desc.out = out_;
  desc.layout = layout();
  desc.bias_dtype = choice_.bias_dtype;
  heed_weights* weights = nullptr;
  require_ok(heed_weights_create(context.get(), &desc, gone.data(),
                                 bias ? gone.bias->data() : nullptr, &weights));
  gone.tensor.clear();
  if (bias) gone.bias->clear();
  return Weights(weights);
}

GivenMatrix WeightMatrix::given() const {
  Source matrix = tensor.source();
  matrix.data = data();
  return {matrix, bias ? bias->source() : Source{}, out_};
}

Axes WeightMatrix::strides(Index matrices, Index in, Index out, const MatrixChoice& choice) {
  return strides_of(choice.arrangement, {matrices, 1, in, choice.before + out + choice.after});
}

bool WeightMatrix::is_default() const {
  return choice_.arrangement == Arrangement::kDefault && choice_.before + choice_.after == 0;
}

const void* WeightMatrix::data() const {
  return static_cast<const unsigned char*>(tensor.data()) +
         choice_.before * tensor.strides()[3] * format_of(tensor.dtype()).bytes;
}

}  // namespace heed_test
