// heed_project: rows times a prepared matrix, beyond random ones (tests/operations/test_sweep.cpp).
#include "tests/support/checks.hpp"

using namespace heed_test;

namespace {

constexpr std::uint32_t kTypes[] = {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16,
                                    HEED_DTYPE_F16};

}  // namespace

TEST_CASE("tasks of many tiles of weights, both ways", "[project]") {
  if (small()) return;
  for (const std::uint32_t dtype : kTypes) {
    Projection p({1, 29, 300, 700}, dtype);
    check_problem(p);
  }
}

TEST_CASE("an infinity is not lost where it meets a subnormal number", "[project][precision]") {
  // 2^-129 counts as 0 to pairs, and 0 times infinity is NaN: float32 says infinity.
  Projection p({1, 40, 150, 70}, HEED_DTYPE_BF16);
  p.x.set({0, 0, 33, 140}, kInfinity);
  p.w.each([&](Index m, Index i, Index o) {
    if (i == 140) p.w.set(m, i, o, 0x1p-129);
  });
  check_problem(p);
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    p.run_all(plain_contexts()[n]);
    p.y.each([&](const Axes& at) {
      CHECK((at[2] == 33 ? p.y.get(at) == kInfinity : std::isfinite(p.y.get(at))));
    });
  }
}

TEST_CASE("the rows around a row change no bit of its projection", "[project][same]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16}) {
    Projection p({2, small() ? 70 : 300, 150, 140}, dtype);
    Projection one({1, 1, 150, 140}, dtype);
    one.x.fill([&](const Axes& at) { return p.x.get({1, 0, 33, at[3]}); });
    for (const char* const isa : isa_names()) {
      INFO(isa << ", " << name_of_dtype(dtype));
      const Numbers want = p.run_all(make_context(isa));
      const Numbers alone = one.run_all(make_context(isa));
      const auto first = static_cast<std::size_t>((p.desc.rows + 33) * 140);
      bool same = true;
      for (std::size_t o = 0; o < 140; ++o) same = same && same_element(alone, o, want, first + o);
      CHECK(same);
    }
  }
}
