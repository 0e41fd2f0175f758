// Weight matrices: heed_weights_create and _describe, and heed_project with what was prepared.
#include "tests/fuzz/attention.hpp"
#include "tests/problem/projection.hpp"

using namespace heed_test;

namespace {

void project(Draw& draw, const heed_weights* prepared, const WeightMatrix& w) {
  static constexpr std::initializer_list<const char*> kFields = {"desc.", "x ", "y "};
  heed_project_desc desc = draw_project_desc(draw, w);
  const bool damaged = draw.one_in(4);
  if (damaged) draw.damage(desc);
  const Versioned<heed_project_desc> given(draw, desc);
  heed_project_desc known = given.known();
  const auto call = [&](const void* x, void* y) {
    return heed_project(fuzz_context().get(), given.get(), prepared, x, y);
  };
  if (!may_be_small(LaidOutProjection(known, w).all())) {
    const heed_status status = call(nullptr, nullptr);
    demand(status != HEED_STATUS_OK, "rows that have elements may not be NULL");
    return check_refused(status, kFields);
  }
  Projection p(known, w, draw.index(4));
  fill_normally(p.x, draw.bits());
  if (draw.one_in(8)) draw.plant(p.x);
  const heed_status status = call(p.x.data(), p.y.data());
  if (status != HEED_STATUS_OK) {
    if (!damaged && !given.odd()) check_accepted(status);
    check_refused(status, kFields);
    return check_untouched(p.y);
  }
  small(LaidOutProjection(known, w).all());  // which demands that elements of y lie apart
  check_equal("x W + b", p.y, p.expected());
}

void check_info(Draw& draw, const heed_weights* weights, const heed_weights_desc& d) {
  heed_weights_info info = HEED_WEIGHTS_INFO_INIT;
  require_ok(heed_weights_describe(weights, &info));
  demand(info.in == d.in * (d.matrices == 0 ? 1 : d.matrices) && info.out == d.out,
         "weights describe other sizes");
  Versioned<heed_weights_info> odd(draw, info);
  const heed_status status = heed_weights_describe(weights, odd.get());
  if (status != HEED_STATUS_OK) check_refused(status, {"info."});
}

void create(Draw& draw, heed_weights_desc desc, bool damaged) {
  if (damaged) draw.damage(desc);
  const Versioned<heed_weights_desc> given(draw, desc);
  heed_weights_desc d = given.known();
  const LaidOut laid(d.layout, d.matrices, d.in, d.out, real_dtype(d), Use::kRead);
  constexpr const void* kNone = nullptr;
  if (!may_be_small({laid}))
    return demand(!made<heed_weights>(true, {"desc.", "matrix "}, fuzz_context().get(), given.get(),
                                      kNone, kNone),
                  "a matrix may not be NULL");
  WeightMatrix w(d, draw.index(4));
  if (d.bias_dtype <= HEED_DTYPE_F16 && d.out <= 1 << 12)
    w.draw(draw, d.bias_dtype, 1);
  else
    fill_normally(w.tensor, draw.bits());
  const Weights weights = made<heed_weights>(
      damaged || given.odd(), {"desc."}, fuzz_context().get(), given.get(), w.raw(), w.raw_bias());
  if (!weights) return;
  check_info(draw, weights.get(), d);
  if (worth_running(draw, damaged)) project(draw, weights.get(), w);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_weights_desc valid = draw_weights_desc(first);
  each_variant(first, [&](Draw& draw, bool damaged) { create(draw, valid, damaged); });
  return 0;
}
