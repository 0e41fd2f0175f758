// heed_merge: results over some keys put together to the result over all.
#include "tests/dense/kinds.hpp"
#include "tests/problem/merge.hpp"

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
    on_every_isa(m, [&](const Merged& got, std::size_t n) {
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
      on_every_isa(m, [&](const Merged& got) {
        check_same("out", got.out, m.outs[0].numbers());
        check_same("lse", got.lse, m.lses[0].numbers());
      });
    }
}

TEST_CASE("parts of +inf share a row evenly, and the others are ignored", "[merge]") {
  for (const std::uint32_t dtype : kDtypes) {
    Merge m({1, 1, 16, 9}, 4, {dtype});
    m.fill(11);
    for (std::size_t k = 0; k < 4; ++k)
      m.lses[k].each([&](const Axes& at) {
        if ((at[2] >> k & 1) == 1) {
          m.lses[k].set(at, kInfinity);
        } else if (at[2] > 0) {  // beside some infinity
          m.outs[k].set({0, 0, at[2], 0}, kNaN);
        }
      });
    check_problem(m);
  }
}

TEST_CASE("log-sum-exps far apart and far out", "[merge]") {
  for (const auto& [a, b] : std::vector<std::pair<double, double>>{{0, -700},
                                                                   {0, -1000},
                                                                   {1e4, 1e4},
                                                                   {-1e4, -1e4 - 1},
                                                                   {3e38, 3e38},
                                                                   {-3e38, 3e38},
                                                                   {1e308, -1e308},
                                                                   {1e308, 1e308}}) {
    Merge m({1, 1, 2, 9}, 2, {}, {HEED_DTYPE_F64});
    m.fill(14);
    m.lses[0].fill([a = a] { return a; });
    m.lses[1].fill([b = b] { return b; });
    check_problem(m);
  }
}
