// Attention over some of the keys at a time, merged by heed_merge, is attention over all of them.
//
// If each part's out o_k is within B of the exact one, and each lse within b, then its weight
// e^lse_k is off by a factor 1 + E at most, E = e^b - 1, and with O the largest |o_k|
//
//     |merged - exact| <= ((1 + E) B + 2 E O) / (1 - E)        |lse - exact| <= b
//
// before heed_merge's own roundings: those of float64, a few per part, and the last one. The call
// over all keys is within its own bound of the same exact numbers.
#include "tests/dense/kinds.hpp"
#include "tests/support/merge.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

constexpr Index kQueries = 12;

/// Small workspaces: there are many runs.
constexpr Choices kSmallTiles = {"serial", 1, 1, 1};

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

Problem drawn(const Types& types, std::uint32_t lse, std::uint64_t seed) {
  Sizes sizes = {kQueries, 200, 16, 12, 1, 2};
  sizes.types = types;
  Problem p = filled(sizes, seed);
  p.want_lse(lse);
  return p;
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
  q.want_lse(p.desc.lse.dtype);
  return q;
}

/// How far off all parts may be.
struct PartBounds {
  double out = 0;      ///< B
  double lse = 0;      ///< b
  double largest = 0;  ///< O

  void add(const Outputs& got, const Expected& want) {
    for (std::size_t i = 0; i < got.out.size(); ++i) {
      out = std::max(out, want.out[i].bound);
      largest = std::max(largest, std::fabs(got.out[i]) + want.out[i].bound);
    }
    for (const Element& e : want.lse) lse = std::max(lse, e.bound);
  }

  double of_merged() const {
    const double e = std::expm1(lse);
    return ((1 + e) * out + 2 * e * largest) / (1 - e);
  }
};

/// `bound`: how far off the merged numbers may be before they are rounded; `precision`: the type
/// that bounds are of.
void check_merged(const std::string& what, const Numbers& merged, const Numbers& all,
                  const std::vector<Element>& bounds_of_all, double bound,
                  std::uint32_t precision) {
  for (std::size_t i = 0; i < merged.size(); ++i) {
    const double last = format_of(merged.dtype).unit * (1 + std::fabs(all[i]));
    const double allowed = bound + bounds_of_all[i].bound + last;
    if (distance(merged[i], all[i], allowed) <= 1 && is_tight(allowed, all[i], precision)) continue;
    FAIL_CHECK(what << ", element " << i << ": " << std::setprecision(17) << merged[i] << " and "
                    << all[i] << ", " << allowed << " apart allowed");
    return;
  }
}

/// Splits the keys at `ends`, the last of which is the number of keys.
void check_split(Problem& whole, const std::vector<Index>& ends, const IsaContexts& contexts) {
  std::vector<Problem> parts;
  std::vector<Expected> wanted;
  for (std::size_t k = 0; k < ends.size(); ++k) {
    parts.push_back(part_of(whole, k == 0 ? 0 : ends[k - 1], ends[k], k == 0));
    wanted.push_back(parts.back().expected_all());
  }
  const Expected expected = whole.expected_all();
  for (std::size_t n = 0; n < contexts.size(); ++n) {
    const std::string isa = IsaContexts::name(n);
    const Expected& want = expected.on(isa);
    // Weights, and so the sums of them, may be rounded to bfloat16; two parts lack less than 2^-14.
    const bool rounds = &want == expected.pairs.get();
    const bool two_parts = &want == expected.parts.get() && whole.desc.key.dtype == HEED_DTYPE_F16;
    const std::uint32_t sums = two_parts ? std::uint32_t{HEED_DTYPE_F16} : real_dtype(whole.desc);
    const Outputs got = whole.run_all(contexts[n]);
    PartBounds bounds;
    Merge merge({1, 2, kQueries, 12}, parts.size(),
                {got.out.dtype, got.lse.dtype, got.out.dtype, got.lse.dtype});
    for (std::size_t k = 0; k < parts.size(); ++k) {
      bounds.add(parts[k].run_all(contexts[n]), wanted[k].on(isa));
      merge.outs[k].assign(parts[k].out);
      merge.lses[k].assign(*parts[k].lse);
    }
    const Merged merged = merge.run_all(contexts[n]);
    // A term's weight takes part in n sums, its argument is off by u |x| and |x| e^-|x| <= 1 / e,
    // and exp and the product round: all of it in the numerator and in the denominator.
    const double own = 0x1p-53 * (8 + 3 * static_cast<double>(parts.size()));
    check_merged(isa + ", out", merged.out, got.out, want.out,
                 bounds.of_merged() + own * bounds.largest, two_parts ? sums : got.out.dtype);
    // Every log-sum-exp here is below 100.
    check_merged(isa + ", lse", merged.lse, got.lse, want.lse, bounds.lse + own * 100,
                 rounds ? std::uint32_t{HEED_DTYPE_BF16} : sums);
  }
  SUCCEED();
}

std::vector<Index> singles() {
  std::vector<Index> ends;
  for (Index j = 1; j <= 200; ++j) ends.push_back(j);
  return ends;
}

const std::vector<std::vector<Index>>& splits() {
  static const std::vector<std::vector<Index>> all = {{100, 200},
                                                      {128, 200},
                                                      {1, 199, 200},
                                                      {50, 60, 190, 200},
                                                      {0, 200},  // an empty part, without keys
                                                      {0, 70, 70, 70, 200, 200}};
  return all;
}

const std::vector<Kind>& split_kinds() {
  static const std::vector<Kind> all = {
      {"f32", {}},
      {"f64", all_of(HEED_DTYPE_F64)},
      {"f16 to f32", {HEED_DTYPE_F16, HEED_DTYPE_F16, HEED_DTYPE_F16, HEED_DTYPE_F32}},
      {"bf16", all_of(HEED_DTYPE_BF16)}};
  return all;
}

}  // namespace

TEST_CASE("attention over parts of the keys, merged, is attention over all", "[split]") {
  const IsaContexts contexts(kSmallTiles);
  std::size_t index = 0;
  for (const Kind& kind : split_kinds())
    for (const Option& option : options())
      for (const std::vector<Index>& ends : splits()) {
        if (!keep(index++)) continue;
        const std::uint32_t lse = index % 2 == 0 ? HEED_DTYPE_F64 : HEED_DTYPE_DEFAULT;
        Problem whole = drawn(kind.types, lse, 90 + index);
        option.set(whole);
        INFO(kind.name << ", " << option.name << ", " << ends.size() << " parts, the first of "
                       << ends[0] << " keys");
        check_split(whole, ends, contexts);
      }
}

TEST_CASE("attention over one key at a time, merged", "[split]") {
  const IsaContexts contexts(kSmallTiles);
  for (const Option& option : options()) {
    if (small() && option.name != options()[4].name) continue;
    INFO(option.name);
    Problem whole = drawn({}, HEED_DTYPE_F64, 95);
    option.set(whole);
    check_split(whole, singles(), contexts);
  }
}
