// Forms at their edges: nothing to attend, one key, everything masked, one key head for all.
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

TEST_CASE("lengths of 0 beside others", "[edges]") {
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const std::uint32_t causal : {HEED_CAUSAL_NONE, HEED_CAUSAL_BOTTOM_RIGHT})
      for (const heed_weights_point point :
           {HEED_WEIGHTS_SCORES, HEED_WEIGHTS_MASKED, HEED_WEIGHTS_PROBABILITIES}) {
        if (!keep(index++)) continue;
        Sizes sizes = sizes_of(7, 140, kind.types);
        sizes.batch = 5;
        sizes.query_heads = 2;
        sizes.causal = causal;
        Problem p = filled(sizes, 42);
        p.key_lengths = {0, 140, 1, 0, 7};
        want_all(p, point);
        check_problem(p);
      }
}

TEST_CASE("packed sequences that are empty", "[edges]") {
  const std::vector<std::vector<std::int32_t>> queries = {
      {0, 0, 5, 5, 12}, {0, 7, 7, 7, 7}, {3, 3, 3, 3, 10}, {0, 0, 0, 0, 0}, {0, 5, 7, 9, 12}};
  const std::vector<std::vector<std::int32_t>> keys = {
      {0, 9, 9, 140, 140}, {0, 0, 0, 0, 0}, {0, 0, 140, 140, 150}, {2, 2, 12, 12, 12}};
  std::size_t index = 0;
  for (const auto& q : queries)
    for (const auto& k : keys)
      for (const Kind& kind : kinds()) {
        if (!keep(index++)) continue;
        Sizes sizes = sizes_of(7, 140, kind.types);
        sizes.batch = 4;
        sizes.query_heads = 2;
        sizes.queries = {q};
        sizes.keys = {k};
        if (index % 2 == 0) sizes.causal = HEED_CAUSAL_BOTTOM_RIGHT;
        Problem p = filled(sizes, 43);
        if (index % 3 == 0) p.sinks.numbers = {0.5, -0.5};
        check_all(p);
      }
}

// ---- Blocks ----

TEST_CASE("masked blocks and masked tiles, over several steps of keys", "[edges]") {
  Report report("masked blocks");
  std::size_t index = 0;
  for (const Index rows : {1, 4, 16, 50})
    for (const Index keys : {64, 128, 130, 256})
      for (const bool as_bias : {false, true}) {
        if (!keep(index++)) continue;
        Problem p = filled(sizes_of(60, 400, kinds()[index % kinds().size()].types), 44 + index);
        Tensor& tensor = as_bias ? p.add_bias(p.pairs()) : p.add_mask(p.pairs());
        tensor.each([&](const Axes& at) {
          // Every third block of rows starts late, every third ends early, some see nothing.
          const Index block = at[2] / rows + at[3] / keys;
          const bool attends = block % 3 != 0 && at[2] / rows % 7 != 6;
          tensor.set(at, as_bias ? (attends ? 0.5 : -kInfinity) : (attends ? 1 : 0));
        });
        want_all(p);
        INFO("blocks of " << rows << " x " << keys);
        check_problem(p, &report);
      }
}

TEST_CASE("masks that leave each row one key", "[edges]") {
  for (const Kind& kind : kinds())
    for (const Index queries : {1, 50}) {
      Problem p = filled(sizes_of(queries, 300, kind.types), 45);
      p.add_mask(p.pairs()).fill(
          [&](const Axes& at) { return at[3] == at[2] * 67 % 300 ? 255 : 0; });
      check_all(p);
      p.want_nothing_else();
      p.desc.hard = 1;
      check_problem(p);
    }
}

// ---- Windows and offsets ----

TEST_CASE("windows wider than the sequence are none", "[edges]") {
  for (const Index queries : {60, 1, 200}) {
    if (small() && queries != 60) break;
    Problem p = filled(sizes_of(queries, 200), 46);
    want_all(p);
    p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    const std::vector<Outputs> without = run_everywhere(p);
    p.desc.window = 1;
    for (const Index side : {Index{-1}, Index{200}, Index{1} << 41, INT64_MAX - 1, INT64_MAX}) {
      p.desc.window_left = side;
      p.desc.window_right = side == -1 ? 200 : -1;
      CHECK(check_same(p, without));
    }
  }
}

TEST_CASE("windows of one key", "[edges]") {
  for (const Kind& kind : kinds()) {
    Problem p = filled(sizes_of(140, 140, kind.types), 47);
    p.desc.window = 1;
    check_all(p);
  }
}

TEST_CASE("windows and offsets that leave the first or last rows nothing", "[edges]") {
  std::size_t index = 0;
  for (const Index offset : {-29, -13, -1, 0, 120, 130, 140, 149})
    for (const auto& [left, right] :
         std::vector<std::pair<Index, Index>>{{-1, 0}, {0, -1}, {3, 2}, {0, 0}, {40, 0}, {0, 40}}) {
      if (!keep(index++)) continue;
      Problem p = filled(sizes_of(30, 150, kinds()[index % kinds().size()].types), 48);
      set_window(p, left, right, offset);
      check_all(p);
      if (right != 0) continue;  // the same, but for the window's left
      p.desc.alignment = HEED_ALIGNMENT_DEFAULT;
      p.desc.alignment_offset = 0;
      p.desc.causal = HEED_CAUSAL_OFFSET;
      p.desc.causal_offset = offset;
      check_problem(p);
    }
}

// ---- One key, and many heads ----

TEST_CASE("one key", "[edges]") {
  for (const Kind& kind : kinds())
    for (const Index queries : {1, 30}) {
      Problem p = filled(sizes_of(queries, 1, kind.types), 49);
      check_all(p);
      p.desc.softcap = 2;
      p.desc.temperature = 0.3;
      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
      p.slopes.numbers = {0.5};
      p.sinks.numbers = {1};
      p.add_bias({1, 1, queries, 1}).fill([] { return -1.5; });
      check_problem(p);
      p.desc.causal = HEED_CAUSAL_TOP_LEFT;
      p.desc.alignment = 0;
      check_problem(p);
    }
}

TEST_CASE("71 query heads on one key head, with all that heads have of their own", "[edges]") {
  for (const Kind& kind : kinds())
    for (const Index queries : {1, 3}) {
      if (small() && (queries > 1 || kind.types.query != 0)) continue;
      Sizes sizes = sizes_of(queries, 140, kind.types);
      sizes.query_heads = 71;
      Problem p = filled(sizes, 50);
      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
      for (int h = 0; h < 71; ++h) {
        p.slopes.numbers.push_back(0.01 * h);
        p.sinks.numbers.push_back(0.1 * h - 3);
      }
      p.add_mask({1, 71, 1, 140}).fill([&](const Axes& at) {
        return (at[1] + at[3] / 20) % 4 == 0 ? 0 : 1;
      });
      p.add_bias({1, 71, queries, 1}).fill([&](const Axes& at) {
        return 0.125 * static_cast<double>(at[1] - 30);
      });
      check_all(p);
    }
}
