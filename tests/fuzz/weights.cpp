// Weight matrices: heed_weights_create and _describe, and heed_project with what was prepared.
#include <algorithm>

#include "tests/fuzz/check.hpp"
#include "tests/fuzz/plan.hpp"
#include "tests/oracle/project.hpp"
#include "tests/problem/extent.hpp"

using namespace heed_test;

namespace {

heed_weights_desc draw_weights(Draw& draw) {
  heed_weights_desc d = HEED_WEIGHTS_DESC_INIT;
  const bool float64 = draw.one_in(3);
  d.arithmetic = float64 ? HEED_DTYPE_F64 : draw.choice(HEED_DTYPE_F32);
  d.matrices = draw.integer(0, 3);
  d.in = draw.one_in(8) ? draw.integer(100, 200) : draw.size(1);
  d.out = draw.size(1);
  d.layout = draw.matrix_layout(d.matrices, d.in, d.out, draw.dtype(float64, true));
  d.bias_dtype = draw.dtype(float64, true);
  return d;
}

/// Rows times what was prepared.
class Projection {
 public:
  Projection(const heed_weights* prepared, const heed_weights_desc& w, const GivenMatrix& given)
      : prepared_(prepared),
        matrices_(std::max<std::int64_t>(w.matrices, 1)),
        in_(w.in),
        given_(given),
        real_(w.arithmetic == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32) {}

  void check(Draw& draw) {
    heed_project_desc d = HEED_PROJECT_DESC_INIT;
    d.batch = draw.integer(0, 3);
    d.rows = draw.size(0);
    const bool float64 = real_ == HEED_DTYPE_F64;
    d.x = draw.layout(x_shape(d), Use::kRead, draw.dtype(float64, true));
    d.y = draw.layout(y_shape(d), Use::kWritten, draw.dtype(float64, true));
    d.x.stride_head = d.y.stride_head = 0;
    const bool damaged = draw.one_in(4);
    if (damaged) draw.damage(d);
    const Versioned<heed_project_desc> given(draw, d);
    project(draw, given.get(), given.known(), damaged || given.odd());
  }

 private:
  Axes x_shape(const heed_project_desc& d) const { return {d.batch, 1, d.rows, matrices_ * in_}; }
  Axes y_shape(const heed_project_desc& d) const { return {d.batch, 1, d.rows, given_.out}; }

  void project(Draw& draw, const heed_project_desc* given, const heed_project_desc& d,
               bool damaged) {
    const Extent x_extent(x_shape(d), d.x, real_, false);
    const Extent y_extent(y_shape(d), d.y, real_, false);
    const auto call = [&](const void* x, void* y) {
      return heed_project(fuzz_context().get(), given, prepared_, x, y);
    };
    if (!x_extent.possible() || !y_extent.possible() || !x_extent.small() || !y_extent.small()) {
      const heed_status status = call(nullptr, nullptr);
      demand(status != HEED_STATUS_OK, "rows that have elements may not be NULL");
      return check_refused(status, {"desc.", "x ", "y "});
    }
    Random random(draw.bits());
    Tensor x = x_extent.tensor(1);
    x.fill([&] { return random.normal(); });
    if (draw.one_in(8)) draw.plant({&x});
    Tensor y = y_extent.tensor(2);
    const heed_status status = call(x.data(), y.data());
    if (status != HEED_STATUS_OK) {
      if (!damaged) check_accepted(status);
      if (damaged) check_refused(status, {"desc.", "x ", "y "});
      return check_untouched(y);
    }
    demand(x_extent.addressable() && y_extent.addressable() && y_extent.apart(),
           "a projection that cannot be is accepted");
    check_equal(
        "x W + b", y,
        expect_project({x.source(), d.batch, d.rows, given_, matrices_, in_, real_, y.dtype()}));
  }

  const heed_weights* prepared_;
  std::int64_t matrices_, in_;
  GivenMatrix given_;
  std::uint32_t real_;
};

void check_info(Draw& draw, const heed_weights* weights, const heed_weights_desc& d) {
  heed_weights_info info = HEED_WEIGHTS_INFO_INIT;
  require_ok(heed_weights_describe(weights, &info));
  demand(info.in == d.in * (d.matrices == 0 ? 1 : d.matrices) && info.out == d.out,
         "weights describe other sizes");
  Versioned<heed_weights_info> odd(draw, info);
  const heed_status status = heed_weights_describe(weights, odd.get());
  if (status != HEED_STATUS_OK) check_refused(status, {"info."});
}

/// Sizes that may be accepted and are worth allocating: then the matrix is exactly there.
void prepare(Draw& draw, const heed_weights_desc* given, const heed_weights_desc& d,
             const Extent& extent, bool damaged) {
  const std::uint32_t real = d.arithmetic == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  Random random(draw.bits());
  Tensor matrix = extent.tensor(static_cast<std::size_t>(draw.integer(0, 3)));
  matrix.fill([&] { return random.normal(); });
  std::optional<Tensor> bias;
  const bool known = d.bias_dtype <= HEED_DTYPE_F16 && d.out <= 1 << 12;
  if (known && draw.one_in(2)) {
    bias.emplace(Axes{1, 1, 1, d.out}, Axes{0, 0, 0, 1}, 1, dtype_of(d.bias_dtype, real));
    bias->fill([&] { return random.normal(); });
  }
  heed_weights* made = nullptr;
  const heed_status status = heed_weights_create(fuzz_context().get(), given, matrix.data(),
                                                 bias ? bias->data() : nullptr, &made);
  const Weights weights(made);
  if (!planned(status, made, damaged, {"desc."})) return;
  demand(extent.addressable(), "a matrix that no address can reach is accepted");
  check_info(draw, made, d);
  if (!worth_running(draw, damaged)) return;
  const GivenMatrix w = {matrix.source(), bias ? bias->source() : Source{}, d.out};
  Projection(made, d, w).check(draw);
}

void create(Draw& draw, heed_weights_desc desc, bool damaged) {
  if (damaged) draw.damage(desc);
  const Versioned<heed_weights_desc> given(draw, desc);
  const heed_weights_desc d = given.known();
  const std::uint32_t real = d.arithmetic == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  const Extent extent(d.matrices, d.in, d.out, d.layout, real);
  if (extent.possible() && extent.small())
    return prepare(draw, given.get(), d, extent, damaged || given.odd());
  heed_weights* made = nullptr;
  const heed_status status =
      heed_weights_create(fuzz_context().get(), given.get(), nullptr, nullptr, &made);
  demand(status != HEED_STATUS_OK && made == nullptr, "a matrix may not be NULL");
  check_refused(status, {"desc.", "matrix "});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_weights_desc valid = draw_weights(first);
  each_variant(first, [&](Draw& draw, bool damaged) { create(draw, valid, damaged); });
  return 0;
}
