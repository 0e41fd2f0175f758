// Infinities and NaN: where they must arrive, and where they must not.
#include "tests/dense/edges.hpp"

using namespace heed_test;

namespace {

/// Checks the problem with `special` at one place of a tensor, which keeps its number.
void check_with(Problem& p, Tensor& tensor, const Axes& place, double special) {
  const double before = tensor.get(place);
  tensor.set(place, special);
  check_problem(p);
  tensor.set(place, before);
}

/// Scores of `special` at some keys, and mild ones at the rest: +-3e38 overflows.
template <class Places>
void check_keys(Index keys, double special, Places&& places) {
  Problem p = filled({20, keys, 1, 8}, 10);
  p.desc.scale = 1;
  p.query.fill([] { return 5; });
  p.key.set_where([&](const Axes& at) { return places(at[2]); }, special);
  check_problem(p);
}

}  // namespace

TEST_CASE("special numbers at keys that nobody attends reach nobody", "[special]") {
  // Top left, more keys than rows: the last keys are hidden from all.
  for (const Index rows : {1, 20, 70}) {
    Problem p = filled({rows, rows + 20, 20, 24}, 5);
    p.desc.causal = HEED_CAUSAL_TOP_LEFT;
    const std::vector<Outputs> before = run_everywhere(p);
    p.key.set_where([&](const Axes& at) { return at[2] >= rows; }, kNaN);
    p.value.set_where([&](const Axes& at) { return at[2] >= rows; }, kInfinity);
    CHECK(check_same(p, before));
  }
}

TEST_CASE("rows that attend nothing stay 0 beside NaN and infinity", "[special]") {
  for (const Index offset : {-5, -29, -30}) {
    Problem p({30, 9, 16, 16});
    p.desc.causal = HEED_CAUSAL_OFFSET;
    p.desc.causal_offset = offset;
    p.query.fill([] { return kNaN; });
    p.key.fill([] { return kInfinity; });
    p.value.fill([] { return kNaN; });
    check_problem(p);
  }
}

TEST_CASE("many special values at once", "[special]") {
  Sizes sizes = {60, 90, 20, 24};
  sizes.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  sizes.query_heads = 4;
  sizes.key_heads = 2;
  Problem p = filled(sizes, 6);
  Random random(7);
  p.value.each([&](const Axes& at) {
    const Index kind = random.integer(0, 99);
    if (at[2] < 45) return;
    if (kind < 3) p.value.set(at, kind == 0 ? kNaN : kind == 1 ? kInfinity : -kInfinity);
  });
  check_problem(p);
}

TEST_CASE("NaN in a query makes that row NaN and no other", "[special]") {
  // Scores that stay, that outgrow references slowly, and far past what float32 can weigh.
  for (const double slope : {0.0, 0.1, 2.0, 50.0})
    for (const Index rows : {1, 10, 60}) {
      Problem p = filled({rows, 150, 4, 24}, 8);
      p.query.set_where([](const Axes& at) { return at[3] == 0; }, 1);
      for (Index j = 0; j < 150; ++j) p.key.set({0, 0, j, 0}, slope * static_cast<double>(j));
      for (Index row = 0; row < rows; row += small() ? 31 : 7) {
        INFO("slope " << slope << ", NaN in row " << row);
        check_with(p, p.query, {0, 0, row, 3}, kNaN);
      }
    }
}

TEST_CASE("NaN in a query does not hide how another row's scores climb", "[special]") {
  for (const Index rows : {12, 24, 48})
    for (Index climber = 0; climber < rows; climber += 3) {
      if (!keep(static_cast<std::size_t>(climber / 3))) continue;
      Problem p = filled({rows, 150, 2, 8}, 15);
      p.query.each([&](const Axes& at) {
        if (at[3] == 0) p.query.set(at, at[2] == climber ? 1 : 0);
        if (at[3] == 1 && at[2] != climber) p.query.set(at, kNaN);
      });
      for (Index j = 0; j < 150; ++j) p.key.set({0, 0, j, 0}, 20 * static_cast<double>(j));
      INFO("row " << climber << " climbs, all others are NaN");
      check_problem(p);
    }
}

TEST_CASE("an infinite key, with rows that it makes +inf, -inf and none", "[special]") {
  // 1 to 30 rows: with each, other lanes of a panel hold no row.
  for (const double special : {kInfinity, -kInfinity})
    for (Index rows = 1; rows <= 30; ++rows) {
      Problem p = filled({rows, 150, 1, 8}, 14);
      for (const Index place : {0, 40, 90, 149}) {
        if (!keep(static_cast<std::size_t>(rows + place))) continue;
        INFO("key " << place << " is " << special);
        check_with(p, p.key, {0, 0, place, 0}, special);
      }
    }
}

TEST_CASE("NaN at every key in turn makes every row NaN", "[special]") {
  Problem p = filled({5, 70, 8, 9}, 9);
  for (Index j = 0; j < 70; ++j) {
    if (!keep(static_cast<std::size_t>(j))) continue;
    INFO("key " << j);
    check_with(p, p.key, {0, 0, j, j % 8}, kNaN);
  }
}

TEST_CASE("scores of +inf share the weight evenly", "[special]") {
  // Infinite keys, and finite ones whose scores overflow; some in the first step of keys,
  // some later, one or many.
  for (const double huge : {kInfinity, 3e38})
    for (const std::vector<Index>& places :
         std::vector<std::vector<Index>>{{0}, {299}, {3, 4, 150}, {140, 290}, {70, 75, 80}}) {
      INFO("key " << huge << " at " << places[0] << " and " << places.size() - 1 << " more");
      check_keys(300, huge, [&](Index j) {
        return std::find(places.begin(), places.end(), j) != places.end();
      });
    }
}

TEST_CASE("scores of -inf get weight 0", "[special]") {
  for (const double huge : {-kInfinity, -3e38})
    for (const Index first : {0, 1, 60, 299}) {
      INFO("keys of " << huge << " from " << first);
      check_keys(300, huge, [&](Index j) { return j >= first; });
    }
}

TEST_CASE("infinite scores of both signs", "[special]") {
  Sizes sizes = {20, 200, 1, 8};
  sizes.scale = 1;
  Problem p = filled(sizes, 12);
  for (Index j = 0; j < 200; j += 7) p.key.set({0, 0, j, 0}, j % 2 == 0 ? kInfinity : -kInfinity);
  check_problem(p);
}

TEST_CASE("an infinite query selects by the sign of the keys", "[special]") {
  Sizes sizes = {6, 50, 1, 8};
  sizes.scale = 1;
  Problem p = filled(sizes, 13);
  p.query.set({0, 0, 2, 0}, kInfinity);
  p.query.set({0, 0, 3, 0}, -kInfinity);
  check_problem(p);
}
