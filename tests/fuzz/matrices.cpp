#include "tests/fuzz/matrices.hpp"

#include <cmath>

namespace heed_test {

FuzzMatrix::FuzzMatrix(std::int64_t matrices, std::int64_t in, std::int64_t out,
                       const heed_matrix_layout& layout, std::uint32_t real,
                       std::uint32_t bias_dtype)
    : extent_(matrices, in, out, layout, real), real_(real) {
  desc_.arithmetic = real;
  desc_.matrices = matrices;
  desc_.in = in;
  desc_.out = out;
  desc_.layout = layout;
  desc_.bias_dtype = bias_dtype;
}

bool FuzzMatrix::small() const { return check_extent(extent_) && desc_.out <= 1 << 12; }

void FuzzMatrix::make(Draw& draw) {
  Random random(draw.bits());
  matrix_ = extent_.tensor(static_cast<std::size_t>(draw.integer(0, 2)));
  const double size = 1 / std::sqrt(static_cast<double>(desc_.in));
  matrix_->fill([&] { return random.normal<double>() * size; });
  if (draw.one_in(16)) draw.plant({&*matrix_});
  if (!draw.one_in(2)) return;
  bias_.emplace(Axes{1, 1, 1, desc_.out}, Axes{0, 0, 0, 1}, 1, dtype_of(desc_.bias_dtype, real_));
  bias_->fill([&] { return random.normal(); });
}

void FuzzMatrix::prepare() {
  heed_weights* made = nullptr;
  require_ok(heed_weights_create(fuzz_context().get(), &desc_, matrix(), bias(), &made));
  prepared_.reset(made);
}

GivenMatrix FuzzMatrix::given() const {
  return {matrix_->source(), bias_ ? bias_->source() : Source{}, desc_.out};
}

}  // namespace heed_test
