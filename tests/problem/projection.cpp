#include "tests/problem/projection.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace heed_test {
namespace {

heed_project_desc described(const ProjectSizes& sizes, std::uint32_t dtype) {
  heed_project_desc d = HEED_PROJECT_DESC_INIT;
  d.batch = sizes.batch;
  d.rows = sizes.rows;
  d.x.dtype = d.y.dtype = dtype;
  return d;
}

}  // namespace

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
  const void* const of_bias = bias ? gone.bias->data() : nullptr;
  Weights weights = create<heed_weights>(context.get(), &desc, gone.tensor.data(), of_bias);
  gone.tensor.clear();
  if (bias) gone.bias->clear();
  return weights;
}

// ---- Products with rows ----

LaidOutProjection::LaidOutProjection(heed_project_desc& d, const WeightMatrix& w)
    : x(LaidOut(d.x, {d.batch, 1, d.rows, w.tensor.shape()[0] * w.in()}, w.real(), Use::kRead)
            .without(1)),
      y(LaidOut(d.y, {d.batch, 1, d.rows, w.out()}, w.real(), Use::kWritten).without(1)) {}

Projection::Projection(const ProjectSizes& s, std::uint32_t dtype)
    : Projection(described(s, dtype),
                 WeightMatrix(1, s.in, s.out, {dtype, 0, 0, 0, 0},
                              dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32)) {
  w.add_bias(dtype, 0);
  w.prepared = true;
  Random random(static_cast<std::uint64_t>(s.in * 1000 + s.out));
  w.fill(random, 1);
  x.fill([&] { return random.normal<double>(); });
}

Projection::Projection(const heed_project_desc& described, WeightMatrix matrix,
                       std::size_t misalign)
    : desc(described),
      w(std::move(matrix)),
      x(LaidOutProjection(desc, w).x.tensor(misalign)),
      y(LaidOutProjection(desc, w).y.tensor(misalign)) {}

std::vector<Element> Projection::expected(const Multiplied& as) const {
  return expect_project({x.source(), desc.batch, desc.rows, w.given(), w.tensor.shape()[0], w.in(),
                         w.real(), y.dtype(), as});
}

std::vector<Element> Projection::expected_on(const char* isa) const {
  const std::uint32_t matrix = w.tensor.dtype();
  if (multiplies_parts(isa)) return expected(in_parts(x.dtype(), matrix));
  return expected(multiplies_pairs(isa) ? in_pairs(x.dtype(), matrix) : Multiplied{});
}

Numbers Projection::run_all(const Context& context) {
  const Weights weights = w.prepare(context);
  y.clear();
  require_ok(heed_project(context.get(), &desc, weights.get(), x.data(), y.data()));
  if (!y.padding_intact()) throw std::runtime_error("a projection wrote outside of y");
  return y.numbers();
}

heed_weights_desc draw_weights_desc(Draw& draw) {
  heed_weights_desc d = HEED_WEIGHTS_DESC_INIT;
  const bool float64 = draw.one_in(4);
  d.arithmetic = float64 ? std::uint32_t{HEED_DTYPE_F64} : draw.choice(HEED_DTYPE_F32);
  d.matrices = draw.one_in(4) ? draw.integer(2, 4) : draw.choice(1);
  d.in = draw.one_in(6) ? draw.integer(120, 200) : draw.integer(1, 40);
  d.out = draw.one_in(6) ? draw.integer(120, 200) : draw.integer(1, 40);
  LaidOut laid(d.layout, d.matrices, d.in, d.out, real_dtype(d), Use::kRead);
  laid.draw(draw, draw.dtype(float64, true));
  d.bias_dtype = draw.one_in(2) ? d.layout.dtype : draw.dtype(float64, true);
  return d;
}

heed_project_desc draw_project_desc(Draw& draw, const WeightMatrix& w) {
  heed_project_desc d = HEED_PROJECT_DESC_INIT;
  d.batch = draw.integer(1, 3);
  d.rows = draw.one_in(6) ? draw.integer(31, 200) : draw.integer(1, 30);
  if (draw.one_in(20)) (draw.one_in(2) ? d.batch : d.rows) = 0;
  const bool float64 = w.real() == HEED_DTYPE_F64;
  LaidOutProjection laid(d, w);
  // Of one type they may be multiplied as bfloat16 is.
  const bool alike = draw.one_in(2);
  laid.x.draw(draw, alike ? w.layout().dtype : draw.dtype(float64, true));
  laid.y.draw(draw, draw.dtype(float64, true));
  return d;
}

Projection draw_projection(std::uint64_t seed) {
  Draw draw(seed);
  const heed_weights_desc of_w = draw_weights_desc(draw);
  WeightMatrix w(of_w, draw.index(4));
  w.draw(draw, of_w.bias_dtype, 1);
  w.prepared = true;
  const heed_project_desc desc = draw_project_desc(draw, w);
  Projection p(desc, std::move(w), draw.index(4));
  fill_normally(p.x, draw.bits());
  if (draw.one_in(5)) draw.plant(p.x);
  if (draw.one_in(8)) draw.plant(p.w.tensor);
  return p;
}

std::string line_of(const Projection& p) {
  return std::to_string(p.desc.batch) + "x" + std::to_string(p.desc.rows) + " from " +
         std::to_string(p.w.tensor.shape()[0]) + "x" + std::to_string(p.w.in()) + " to " +
         std::to_string(p.w.out()) + ", " + name_of_dtype(p.x.dtype()) + " to " +
         name_of_dtype(p.y.dtype());
}

}  // namespace heed_test
