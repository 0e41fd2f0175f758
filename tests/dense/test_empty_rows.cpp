// Rows that attend nothing, however that comes about.
#include "tests/dense/edges.hpp"

using namespace heed_test;

namespace {

/// Something after which no row attends anything.
struct Void {
  const char* name;
  void (*prepare)(Problem&);
};

const std::vector<Void>& voids() {
  static const std::vector<Void> all = {
      {"mask", [](Problem& p) { p.add_mask(p.pairs()).fill([] { return 0; }); }},
      {"one mask for all",
       [](Problem& p) {
         p.add_mask({1, 1, 1, 1}).fill([] { return 0; });
       }},
      {"bias", [](Problem& p) { p.add_bias(p.pairs()).fill([] { return -kInfinity; }); }},
      {"one bias for all",
       [](Problem& p) {
         p.add_bias({1, 1, 1, 1}, HEED_DTYPE_F16).fill([] { return -kInfinity; });
       }},
      {"causal",
       [](Problem& p) {
         p.desc.causal = HEED_CAUSAL_OFFSET;
         p.desc.causal_offset = -p.desc.query_length;
       }},
      {"window before the keys", [](Problem& p) { set_window(p, -1, 5, -1000); }},
      {"window after the keys", [](Problem& p) { set_window(p, 5, -1, 1000); }},
      {"lengths",
       [](Problem& p) {
         p.key_lengths = {0, 0};
       }},
      {"mask and window that exclude each other", [](Problem& p) {
         set_window(p, 400, 100, 0);
         p.add_mask({1, 1, 1, p.desc.key_length}).fill([&](const Axes& at) { return at[3] > 130; });
       }}};
  return all;
}

/// 21 rows and 150 keys of NaN, none of which may be seen.
Problem blind(const Void& nothing, const Types& types) {
  Sizes sizes = sizes_of(21, 150, types);
  sizes.batch = 2;
  sizes.query_heads = 2;
  Problem p(sizes);
  for (Tensor* const tensor : {&p.query, &p.key, &p.value}) tensor->fill([] { return kNaN; });
  nothing.prepare(p);
  return p;
}

void check_nothing(Problem& p) {
  for (const heed_weights_point point : {HEED_WEIGHTS_PROBABILITIES, HEED_WEIGHTS_MASKED}) {
    want_all(p, point);
    on_every_isa(p, [&](const Outputs& got) {
      CHECK(all_are(got.out, 0));
      CHECK(all_are(got.column_sums, 0));
      CHECK(all_are(got.weights, point == HEED_WEIGHTS_MASKED ? -kInfinity : 0));
      if (p.lse) CHECK(all_are(got.lse, -kInfinity));
    });
  }
}

}  // namespace

TEST_CASE("rows that attend nothing: exact zeros and a log-sum-exp of -inf", "[edges]") {
  std::size_t index = 0;
  for (const Void& nothing : voids())
    for (const Kind& kind : kinds())
      for (const std::uint32_t hard : {0U, 1U}) {
        if (!keep(index++)) continue;
        INFO(nothing.name << ", " << kind.name);
        Problem p = blind(nothing, kind.types);
        p.desc.hard = hard;
        check_nothing(p);
      }
}

TEST_CASE("rows that attend nothing, however scores are made", "[edges]") {
  std::size_t index = 0;
  for (const Void& nothing : voids()) {
    if (!keep(index++)) continue;
    INFO(nothing.name);
    Problem p = blind(nothing, {});
    p.desc.softcap = 5;
    p.desc.temperature = kInfinity;
    p.function = score_function<Shift>();
    p.slopes.numbers = {1, 2};
    if (p.desc.causal == HEED_CAUSAL_NONE && p.desc.alignment == 0)
      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    check_nothing(p);
  }
}

TEST_CASE("a sink is all that an empty row has", "[edges]") {
  std::size_t index = 0;
  for (const Void& nothing : voids())
    for (const double sink : {0.0, -3.25, 80.0, -1e4, 1e30, kInfinity, -kInfinity}) {
      if (!keep(index++)) continue;
      INFO(nothing.name << ", sink " << sink);
      Problem p = blind(nothing, {});
      p.sinks.numbers = {sink, 1};
      want_all(p);
      on_every_isa(p, [&](const Outputs& got) {
        CHECK(all_are(got.out, 0));
        CHECK(all_are(got.weights, 0));
        CHECK(all_are(got.column_sums, 0));
        // Times log2(e), rounded, and back, rounded: the sum beside it is 1, its logarithm 0.
        CHECK(distance(got.lse[0], sink, 2.01 * 0x1p-24 * std::fabs(sink)) <= 1);
        CHECK(distance(got.lse[21], 1, 2.01 * 0x1p-24) <= 1);
      });
    }
}
