// heed_merge: results over some keys put together to the result over all.
#include "tests/dense/kinds.hpp"
#include "tests/oracle/merge.hpp"
#include "tests/problem/random_merges.hpp"

using namespace heed_test;

namespace {

MergeExpected wanted(const Merge& m) {
  return expect_merge(m.desc, sources_of(m.outs), sources_of(m.lses));
}

void check_merge(Merge& m) {
  const MergeExpected want = wanted(m);
  on_every_isa(m, [&](const Merged& got) {
    check_elements("out", m.out.shape(), got.out, want.out);
    check_elements("lse", m.lse.shape(), got.lse, want.lse);
  });
}

constexpr std::uint32_t kDtypes[] = {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64,
                                     HEED_DTYPE_BF16, HEED_DTYPE_F16};
constexpr MergeTypes kFloat64 = {HEED_DTYPE_F64, HEED_DTYPE_F64, HEED_DTYPE_F64, HEED_DTYPE_F64};

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
    Merge m = RandomMerges(seed).draw();
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
      Merge m({2, 3, 5, 9}, 1, {dtype, lse, dtype, lse});
      m.fill(7, 50);
      on_every_isa(m, [&](const Merged& got) {
        check_same("out", got.out, m.outs[0].numbers());
        check_same("lse", got.lse, m.lses[0].numbers());
      });
    }
}

TEST_CASE("the parts of a merge may come in any order", "[merge]") {
  Merge m({2, 3, 5, 9}, 5, kFloat64);
  m.fill(9);
  const MergeExpected bounds = wanted(m);
  Merge reversed = m;
  std::reverse(reversed.outs.begin(), reversed.outs.end());
  std::reverse(reversed.lses.begin(), reversed.lses.end());
  on_every_isa(m, [&](const Merged& forth, std::size_t n) {
    const Merged back = reversed.run_all(plain_contexts()[n]);
    check_close("out", forth.out, bounds.out, back.out, bounds.out);
    check_close("lse", forth.lse, bounds.lse, back.lse, bounds.lse);
  });
}

TEST_CASE("parts of +inf share a row evenly, and the others are ignored", "[merge]") {
  for (const std::uint32_t dtype : kDtypes) {
    Merge m({1, 1, 16, 9}, 4, {dtype, 0, dtype, 0});
    m.fill(11);
    for (std::size_t k = 0; k < 4; ++k)
      m.lses[k].each([&](const Axes& at) {
        if ((at[2] >> k & 1) == 1) {
          m.lses[k].set(at, kInfinity);
        } else if (at[2] > 0) {  // beside some infinity
          m.outs[k].set({0, 0, at[2], 0}, kNaN);
        }
      });
    check_merge(m);
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
    Merge m({1, 1, 2, 9}, 2, {0, HEED_DTYPE_F64, 0, HEED_DTYPE_F64});
    m.fill(14);
    m.lses[0].fill([a = a] { return a; });
    m.lses[1].fill([b = b] { return b; });
    check_merge(m);
  }
}

TEST_CASE("parts that are merged as they come", "[merge]") {
  constexpr std::size_t kParts = 6;
  Merge all({1, 2, 5, 9}, kParts, kFloat64);
  all.fill(16);
  const MergeExpected bounds = wanted(all);
  for (const char* const isa : isa_names()) {
    const Context context = make_context(isa);
    const Merged at_once = all.run_all(context);
    Merge pair({1, 2, 5, 9}, 2, kFloat64);
    pair.outs[0] = Tensor(all.outs[0]);
    pair.lses[0] = Tensor(all.lses[0]);
    for (std::size_t k = 1; k < kParts; ++k) {
      pair.outs[1] = Tensor(all.outs[k]);
      pair.lses[1] = Tensor(all.lses[k]);
      require_ok(pair.call(context, pair.outs[0].data(), pair.lses[0].data()));
    }
    const Numbers out = pair.outs[0].numbers();
    const Numbers lse = pair.lses[0].numbers();
    // Each step is a merge of its own, off by a few units at most as the first one is.
    for (std::size_t i = 0; i < out.size(); ++i)
      CHECK(std::fabs(out[i] - at_once.out[i]) <= kParts * (bounds.out[i].bound + 0x1p-50));
    for (std::size_t i = 0; i < lse.size(); ++i)
      CHECK(std::fabs(lse[i] - at_once.lse[i]) <= kParts * (bounds.lse[i].bound + 0x1p-50));
  }
}
