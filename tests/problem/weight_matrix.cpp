#include "tests/problem/weight_matrix.hpp"

#include <cmath>

namespace heed_test {
WeightMatrix::WeightMatrix(Index matrices, Index in, Index out, const heed_matrix_layout& layout,
                           std::uint32_t real, std::size_t misalign)
    : matrices_(matrices),
      layout_(layout),
      real_(real),
      tensor(LaidOut(layout_, matrices, in, out, real, Use::kRead).tensor(misalign)) {}

void WeightMatrix::draw(Draw& draw, std::uint32_t bias_dtype, double amplitude) {
  bias_dtype_ = bias_dtype;
  if (!draw.one_in(3)) add_bias(bias_dtype, draw.index(4));
  Random random = draw.numbers();
  fill(random, amplitude);
}

void WeightMatrix::add_bias(std::uint32_t dtype, std::size_t misalign) {
  bias_dtype_ = dtype;
  bias.emplace(Axes{1, 1, 1, out()}, Axes{0, 0, 0, 1}, misalign, dtype_of(dtype, real_));
}

void WeightMatrix::fill(Random& random, double amplitude) {
  const double scale = amplitude / std::sqrt(static_cast<double>(in()));
  tensor.fill([&] { return random.normal<double>() * scale; });
  if (bias) bias->fill([&] { return random.normal<double>() * amplitude / 2; });
}

void WeightMatrix::fill_identity() {
  tensor.fill([](const Axes& at) { return at[2] == at[3] ? 1 : 0; });
  if (bias) bias->fill([] { return 0; });
}

Weights WeightMatrix::prepare(const Context& context) const {
  if (!prepared) return nullptr;
  WeightMatrix gone = *this;  // what it is prepared from
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.arithmetic = real_;
  desc.matrices = matrices_;
  desc.in = in();
  desc.out = out();
  desc.layout = layout_;
  desc.bias_dtype = bias_dtype_;
  heed_weights* weights = nullptr;
  require_ok(heed_weights_create(context.get(), &desc, gone.tensor.data(),
                                 bias ? gone.bias->data() : nullptr, &weights));
  gone.tensor.clear();
  if (bias) gone.bias->clear();
  return Weights(weights);
}

}  // namespace heed_test
