// Attention over some of the keys at a time, merged by heed_merge, is attention over all of them:
// the oracle of attention and that of merging, which heed is held against, say so to the last
// digits.
#include "tests/dense/kinds.hpp"
#include "tests/oracle/merge.hpp"
#include "tests/support/merge.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

constexpr Index kQueries = 12;
constexpr Index kKeys = 200;

struct Option {
  const char* name;
  void (*set)(Problem&);
};

/// Options with positions give the offset outright, so that parts can move it.
const std::vector<Option>& options() {
  static const std::vector<Option> all = {
      {"plain", [](Problem&) {}},
      {"softcap and temperature",
       [](Problem& p) {
         p.desc.softcap = 3;
         p.desc.temperature = 0.5;
       }},
      {"causal",
       [](Problem& p) {
         p.desc.causal = HEED_CAUSAL_OFFSET;
         p.desc.causal_offset = 60;
       }},
      {"window and slopes",
       [](Problem& p) {
         set_window(p, 70, 30, 90);
         p.slopes.numbers = {0.03, 0.1};
       }},
      {"mask and bias",
       [](Problem& p) {
         // Row 5 attends nothing, row 6 one key alone.
         p.add_mask(p.pairs()).fill([](const Axes& x) {
           return x[2] == 6 ? x[3] == 141 : x[2] != 5 && (x[2] + x[3] / 20) % 3 != 0;
         });
         Random random(9);
         p.add_bias(p.pairs()).fill([&] { return random.normal(); });
       }},
      {"sinks", [](Problem& p) {
         p.sinks.numbers = {1, 5};
       }}};
  return all;
}

/// The keys [begin, end) of a problem. Its sinks count once: in the first part.
Problem part_of(const Problem& p, Index begin, Index end, bool first) {
  Sizes sizes = sizes_of(p);
  sizes.key_length = end - begin;
  if (sizes.causal != 0) sizes.causal_offset -= begin;
  Problem q(sizes);
  const auto cut = [&](const Tensor& from, std::size_t axis, Tensor& to) {
    to.fill([&](Axes x) {
      x[axis] += begin;
      return from.get(x);
    });
  };
  q.query.assign(p.query);
  cut(p.key, 2, q.key);
  cut(p.value, 2, q.value);
  q.score_as(p);
  if (p.desc.alignment != 0) q.desc.alignment_offset -= begin;
  if (p.mask) cut(*p.mask, 3, q.add_mask(q.pairs()));
  if (p.bias) cut(*p.bias, 3, q.add_bias(q.pairs()));
  if (first) q.sinks = p.sinks;
  q.want_lse(HEED_DTYPE_F64);
  return q;
}

void assign(Tensor& to, const std::vector<Element>& from) {
  std::size_t n = 0;
  to.fill([&] { return from[n++].value; });
}

void check_near(const char* what, const std::vector<Element>& a, const std::vector<Element>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool near = std::fabs(a[i].value - b[i].value) <= 1e-13 * (1 + std::fabs(b[i].value));
    if (near || a[i].value == b[i].value) continue;
    FAIL_CHECK(what << " " << i << " is " << std::setprecision(17) << a[i].value << ", not "
                    << b[i].value);
  }
}

/// Splits the keys at `ends`, the last of which is the number of keys.
void check_split(Problem& whole, const std::vector<Index>& ends) {
  constexpr std::uint32_t f64 = HEED_DTYPE_F64;
  Merge merge({1, 2, kQueries, 12}, ends.size(), {f64, f64, f64, f64});
  for (std::size_t k = 0; k < ends.size(); ++k) {
    const Expected part = part_of(whole, k == 0 ? 0 : ends[k - 1], ends[k], k == 0).expected_all();
    assign(merge.outs[k], part.out);
    assign(merge.lses[k], part.lse);
  }
  const MergeExpected merged =
      expect_merge(merge.desc, sources_of(merge.outs), sources_of(merge.lses));
  const Expected all = whole.expected_all();
  check_near("out", merged.out, all.out);
  check_near("lse", merged.lse, all.lse);
}

std::vector<Index> singles() {
  std::vector<Index> ends;
  for (Index j = 1; j <= kKeys; ++j) ends.push_back(j);
  return ends;
}

}  // namespace

TEST_CASE("attention over parts of the keys, merged, is attention over all", "[split][oracle]") {
  // Some parts are empty, without keys; some are one key each.
  const std::vector<std::vector<Index>> splits = {
      {100, 200}, {1, 199, 200}, {0, 200}, {0, 70, 70, 70, 200, 200}, singles()};
  for (const Option& option : options())
    for (const std::vector<Index>& ends : splits) {
      Sizes sizes = {kQueries, kKeys, 16, 12, 1, 2};
      sizes.types = all_of(HEED_DTYPE_F64);
      Problem whole = filled(sizes, 90 + ends.size());
      whole.want_lse(HEED_DTYPE_F64);
      option.set(whole);
      INFO(option.name << ", " << ends.size() << " parts, the first of " << ends[0] << " keys");
      check_split(whole, ends);
    }
}
