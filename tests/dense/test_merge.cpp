// heed_merge: results over some keys put together to the result over all.
#include "tests/problem/merge.hpp"
#include "tests/support/checks.hpp"

using namespace heed_test;

namespace {

constexpr std::uint32_t kDtypes[] = {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64,
                                     HEED_DTYPE_BF16, HEED_DTYPE_F16};

/// Whether a part lies as out and lse do.
bool lies_alike(const Merge& m) {
  const auto alike = [](const Tensor& a, const Tensor& b) {
    return a.strides() == b.strides() && a.dtype() == b.dtype();
  };
  return alike(m.outs[0], m.out) && alike(m.lses[0], m.lse);
}

}  // namespace

TEST_CASE("merges in place of a part, and without lse, have the same bits", "[merge][same]") {
  for (std::uint64_t seed = 1; seed <= count(500); ++seed) {
    Merge m = draw_merge(seed);
    INFO("seed " << seed << ": " << line_of(m));
    on_every_isa(m, [&](const Outputs& got, std::size_t n) {
      check_same("out, without lse", m.run_all(plain_contexts()[n], false).out, got.out);
      if (!lies_alike(m)) return;
      Merge into = m;
      const std::size_t target = seed % m.outs.size();
      require_ok(
          into.call(plain_contexts()[n], into.outs[target].data(), into.lses[target].data()));
      check_same("out, in place of a part", into.outs[target].numbers(), got.out);
      check_same("lse, in place of a part", into.lses[target].numbers(), got.lse);
      CHECK(into.outs[target].padding_intact());
      const std::size_t next = (target + 1) % m.outs.size();
      if (next != target)
        check_same("another part", into.outs[next].numbers(), m.outs[next].numbers());
    });
  }
}

TEST_CASE("one part is copied", "[merge]") {
  for (const std::uint32_t dtype : kDtypes)
    for (const std::uint32_t lse : {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64}) {
      Merge m({2, 3, 5, 9}, 1, {dtype}, {lse});
      m.fill(7, 50);
      on_every_isa(m, [&](const Outputs& got) {
        check_same("out", got.out, m.outs[0].numbers());
        check_same("lse", got.lse, m.lses[0].numbers());
      });
    }
}
