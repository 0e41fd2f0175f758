// heed_merge: results over some keys put together to the result over all.
#include "tests/dense/kinds.hpp"
#include "tests/oracle/merge.hpp"
#include "tests/problem/drawing.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/merge.hpp"

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

/// Merges of every form: each choice is drawn on its own.
class RandomMerges : Drawing {
 public:
  explicit RandomMerges(std::uint64_t seed) : Drawing(seed) {}

  Merge draw() {
    Axes shape = {random_.integer(1, 3), random_.integer(1, 3), random_.integer(1, 8),
                  random_.integer(1, 40)};
    if (one_in(10)) shape[2] = random_.integer(9, 100);
    if (one_in(10)) shape[3] = random_.integer(250, 700);  // more than fit a strip
    if (one_in(20)) shape[static_cast<std::size_t>(random_.integer(0, 2))] = 0;
    const Index parts = one_in(10) ? random_.integer(8, 40) : random_.integer(1, 7);
    Merge m(shape, static_cast<std::size_t>(parts), draw_types(), draw_layouts());
    if (one_in(12)) repeat_axis(m);
    m.fill(random_.bits(), pick<double>({0, 1, 3, 3, 300, 1e5}));
    if (one_in(2)) empty_parts(m);
    if (one_in(4))
      for (Index n = random_.integer(1, 4); n > 0; --n)
        plant(one_in(2) ? any_of(m.outs) : any_of(m.lses));
    return m;
  }

 private:
  MergeTypes draw_types() {
    const auto any = [&] { return static_cast<std::uint32_t>(random_.integer(0, 4)); };
    const auto real = [&] {
      return pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64});
    };
    const MergeTypes drawn = {any(), real(), any(), real()};
    // Alike they may be merged in place.
    return one_in(2) ? drawn : MergeTypes{drawn.out, drawn.lse, drawn.out, drawn.lse};
  }

  MergeLayouts draw_layouts() {
    const Arrangement out = draw_arrangement(), lse = draw_arrangement();
    const auto misalign = static_cast<std::size_t>(random_.integer(0, 3));
    if (one_in(2)) return {out, lse, out, lse, misalign};
    return {draw_arrangement(), draw_arrangement(), out, lse, misalign};
  }

  void repeat_axis(Merge& m) {
    Axes strides = strides_of(Arrangement::kContiguous, m.out.shape());
    strides[static_cast<std::size_t>(random_.integer(0, 3))] = 0;
    if (strides == Axes{}) return;  // that would mean the default
    const std::uint32_t dtype = m.desc.part_out.dtype;
    for (Tensor& out : m.outs) out = Tensor(out.shape(), strides, 0, out.dtype());
    m.desc.part_out = m.outs[0].layout();
    m.desc.part_out.dtype = dtype;
  }

  /// Some rows of parts over no keys, which may hold anything.
  void empty_parts(Merge& m) {
    const auto percent = pick<Index>({10, 50, 90, 100});
    for (std::size_t k = 0; k < m.outs.size(); ++k)
      m.lses[k].each([&](const Axes& at) {
        if (random_.integer(0, 99) < percent) m.lses[k].set(at, -kInfinity);
      });
    const Axes& strides = m.outs[0].strides();
    if (std::find(strides.begin(), strides.end(), 0) != strides.end()) return;  // others' too
    for (std::size_t k = 0; k < m.outs.size(); ++k)
      m.outs[k].set_where(
          [&](const Axes& at) {
            return m.lses[k].get({at[0], at[1], at[2], 0}) == -kInfinity;
          },
          random_.integer(0, 1) == 0 ? kNaN : kInfinity);
  }

  Tensor& any_of(std::vector<Tensor>& tensors) {
    return tensors[static_cast<std::size_t>(
        random_.integer(0, static_cast<Index>(tensors.size()) - 1))];
  }
};

/// Whether a part lies as out and lse do.
bool lies_alike(const Merge& m) {
  const auto alike = [](const Tensor& a, const Tensor& b) {
    return a.strides() == b.strides() && a.dtype() == b.dtype();
  };
  return alike(m.outs[0], m.out) && alike(m.lses[0], m.lse);
}

}  // namespace

TEST_CASE("random merges: of every size, type and layout, of parts with and without keys",
          "[merge]") {
  Report report("merge");
  Contexts contexts;
  for (std::uint64_t seed = 1; seed <= count(1000); ++seed) {
    Merge m = RandomMerges(seed).draw();
    INFO("seed " << seed << ": " << line_of(m));
    Random random(seed ^ 0x5eed);
    const Choices choices = draw_choices(random);
    const MergeExpected want = wanted(m);
    on_every_isa(m, [&](const Merged& got, std::size_t n) {
      const auto allowed = Unspecified::kAllowed;
      report.add(n, std::max(check_elements("out", m.out.shape(), got.out, want.out, allowed),
                             check_elements("lse", m.lse.shape(), got.lse, want.lse, allowed)));
      const Context& other = contexts.get(IsaContexts::name(n), choices);
      const Merged again = m.run_all(other, seed % 2 == 0);
      check_same("out, with other threads", again.out, got.out);
      if (seed % 2 == 0) check_same("lse, with other threads", again.lse, got.lse);
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
