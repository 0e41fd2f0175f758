// heed_merge: results over some keys put together to the result over all.
#include "tests/dense/kinds.hpp"
#include "tests/oracle/merge.hpp"
#include "tests/support/merge.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

MergeExpected wanted(const Merge& m) {
  return expect_merge(m.desc, sources_of(m.outs), sources_of(m.lses));
}

void check_merge(Merge& m, Report* report = nullptr) {
  const MergeExpected want = wanted(m);
  on_every_isa(m, [&](const Merged& got, std::size_t n) {
    const double out = check_elements("out", m.out.shape(), got.out, want.out);
    const double lse = check_elements("lse", m.lse.shape(), got.lse, want.lse);
    if (report != nullptr) report->add(n, std::max(out, lse));
  });
}

constexpr std::uint32_t kDtypes[] = {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64,
                                     HEED_DTYPE_BF16, HEED_DTYPE_F16};
constexpr MergeTypes kFloat64 = {HEED_DTYPE_F64, HEED_DTYPE_F64, HEED_DTYPE_F64, HEED_DTYPE_F64};
constexpr std::uint32_t kLseDtypes[] = {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64};

}  // namespace

TEST_CASE("merging is a mean weighted with e^lse", "[merge]") {
  Report report("merge");
  std::size_t index = 0;
  for (const std::size_t parts : {1U, 2U, 3U, 7U, 40U})
    for (const double spread : {0.0, 3.0, 300.0, 1e5})
      for (const std::uint32_t dtype : kDtypes) {
        if (!keep(index++)) continue;
        Merge m({2, 3, 5, 9}, parts, {dtype, kLseDtypes[index % 3], dtype, kLseDtypes[index % 2]});
        m.fill(index, spread);
        check_merge(m, &report);
      }
}

TEST_CASE("merging from any types to any types", "[merge]") {
  std::size_t index = 0;
  for (const std::uint32_t part_out : kDtypes)
    for (const std::uint32_t out : kDtypes)
      for (const std::uint32_t part_lse : kLseDtypes)
        for (const std::uint32_t lse : kLseDtypes) {
          if (!keep(index++)) continue;
          Merge m({1, 2, 3, 9}, 3, {part_out, part_lse, out, lse});
          m.fill(index);
          check_merge(m);
        }
}

TEST_CASE("merging parts that lie anywhere", "[merge]") {
  const auto count_of = static_cast<int>(Arrangement::kCount);
  std::size_t index = 0;
  for (int n = 0; n < count_of; ++n)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_F16})
      for (const std::size_t misalign : {0U, 1U, 3U}) {
        if (!keep(index++)) continue;
        const auto arrangement = [&](int shift) {
          return static_cast<Arrangement>((n + shift) % count_of);
        };
        Merge m({2, 3, 4, 20}, 2, {dtype, 0, dtype, 0},
                {arrangement(0), arrangement(1), arrangement(2), arrangement(3), misalign});
        m.fill(index);
        check_merge(m);
      }
}

TEST_CASE("merging sizes from nothing to more than fits a strip", "[merge]") {
  for (const Axes& shape : std::vector<Axes>{{0, 2, 3, 4},
                                             {2, 0, 3, 4},
                                             {2, 2, 0, 4},
                                             {1, 1, 1, 1},
                                             {1, 1, 2, 600},
                                             {1, 3, 100, 3}}) {
    Merge m(shape, 3);
    m.fill(5);
    check_merge(m);
  }
}

TEST_CASE("a part that repeats along an axis", "[merge]") {
  Merge m({2, 3, 5, 9}, 2);
  const Axes strides = {0, 0, 9, 1};
  for (Tensor& out : m.outs) out = Tensor({2, 3, 5, 9}, strides);
  m.desc.part_out = m.outs[0].layout();
  m.fill(6);
  check_merge(m);
}

TEST_CASE("one part is copied", "[merge]") {
  for (const std::uint32_t dtype : kDtypes)
    for (const std::uint32_t lse : kLseDtypes) {
      Merge m({2, 3, 5, 9}, 1, {dtype, lse, dtype, lse});
      m.fill(7, 50);
      on_every_isa(m, [&](const Merged& got) {
        check_same("out", got.out, m.outs[0].numbers());
        check_same("lse", got.lse, m.lses[0].numbers());
      });
    }
}

TEST_CASE("out is the same without the log-sum-exp", "[merge]") {
  Merge m({2, 3, 5, 9}, 3);
  m.fill(8);
  for (const char* const isa : isa_names()) {
    const Context context = make_context(isa);
    const Numbers with = m.run_all(context).out;
    const Merged without = m.run_all(context, false);
    check_same(isa, with, without.out);
    for (std::size_t i = 0; i < without.lse.size(); ++i) CHECK_FALSE(without.lse.written(i));
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

// ---- Empty parts, infinities and NaN ----

TEST_CASE("empty parts are not read", "[merge]") {
  for (const std::uint32_t dtype : kDtypes) {
    Merge m({1, 2, 8, 9}, 3, {dtype, 0, dtype, 0});
    m.fill(10);
    // Row i: part k is empty if bit k of i is set; in row 7 all are.
    for (std::size_t k = 0; k < 3; ++k)
      m.lses[k].each([&](const Axes& at) {
        if ((at[2] >> k & 1) == 0) return;
        m.lses[k].set(at, -kInfinity);
        for (Index x = 0; x < 9; ++x)
          m.outs[k].set({at[0], at[1], at[2], x}, x % 2 == 0 ? kNaN : kInfinity);
      });
    check_merge(m);
    on_every_isa(m, [&](const Merged& got) {
      for (std::size_t i = 63; i < 72; ++i) CHECK(got.out.bits[i] == 0);  // row 7
      CHECK(got.lse[7] == -kInfinity);
    });
  }
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

TEST_CASE("NaN in a log-sum-exp makes its row NaN", "[merge]") {
  Merge m({1, 1, 6, 9}, 3);
  for (std::size_t k = 0; k < 3; ++k) {
    m.fill(12);
    m.lses[k].set({0, 0, 1, 0}, kNaN);
    m.lses[k].set({0, 0, 3, 0}, kNaN);
    m.lses[(k + 1) % 3].set({0, 0, 3, 0}, kInfinity);
    m.lses[k].set({0, 0, 4, 0}, kNaN);
    for (const std::size_t other : {(k + 1) % 3, (k + 2) % 3})
      m.lses[other].set({0, 0, 4, 0}, -kInfinity);
    check_merge(m);
    on_every_isa(m, [&](const Merged& got) {
      for (std::size_t i = 0; i < 6; ++i)
        CHECK(std::isnan(got.lse[i]) == (i == 1 || i == 3 || i == 4));
    });
  }
}

TEST_CASE("what is not finite in a part reaches its feature", "[merge]") {
  Merge m({1, 1, 4, 9}, 3);
  m.fill(13);
  m.outs[0].set({0, 0, 0, 2}, kNaN);
  m.outs[1].set({0, 0, 1, 3}, kInfinity);
  m.outs[1].set({0, 0, 2, 4}, kInfinity);
  m.outs[2].set({0, 0, 2, 4}, -kInfinity);
  check_merge(m);
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

// ---- In place, in threads ----

TEST_CASE("a merge into one of its parts is the merge elsewhere", "[merge]") {
  std::size_t index = 0;
  for (const std::uint32_t dtype : kDtypes)
    for (std::size_t target = 0; target < 3; ++target) {
      if (!keep(index++)) continue;
      const MergeTypes types = {dtype, HEED_DTYPE_F64, dtype, HEED_DTYPE_F64};
      const MergeLayouts layouts = {Arrangement::kTransposed, Arrangement::kPadded,
                                    Arrangement::kTransposed, Arrangement::kPadded};
      Merge m({2, 3, 5, 300}, 3, types, layouts);
      for (const char* const isa : isa_names()) {
        INFO(isa << ": " << line_of(m) << " into part " << target);
        m.fill(15);
        const Context context = make_context(isa);
        const Merged elsewhere = m.run_all(context);
        const Tensor other_out = m.outs[(target + 1) % 3];
        require_ok(m.call(context, m.outs[target].data(), m.lses[target].data()));
        check_same("out", m.outs[target].numbers(), elsewhere.out);
        check_same("lse", m.lses[target].numbers(), elsewhere.lse);
        check_same("another part", m.outs[(target + 1) % 3].numbers(), other_out.numbers());
        CHECK(m.outs[target].padding_intact());
      }
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

TEST_CASE("threads do not change the bits of a merge", "[merge][threads]") {
  for (const Axes& shape : std::vector<Axes>{{2, 3, 700, 40}, {1, 1, 3, 100000}, {1, 1, 1, 1}}) {
    if (small() && shape[3] > 40) continue;
    Merge m(shape, 2);
    m.fill(17);
    on_every_isa(m, [&](const Merged& alone, std::size_t n) {
      for (std::size_t i = 0; i < heed_executor_count(); ++i)
        for (const std::uint32_t threads : {1U, 3U}) {
          const char* const executor = heed_executor_name(i);
          const Merged got = m.run_all(make_context(IsaContexts::name(n), {executor, threads}));
          check_same(executor, got.out, alone.out);
          check_same(executor, got.lse, alone.lse);
        }
    });
  }
}
