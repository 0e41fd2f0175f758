// Infinities and NaN: where they must arrive, and where they must not.
#include "tests/support/attention.hpp"

using namespace heed_test;

namespace {

constexpr float kInf = __builtin_huge_valf();
const float kNotANumber = float_of(0x7fc00001U);

struct Place {
  std::int64_t row;
  std::int64_t feature;
};

Sizes causal_sizes(std::int64_t query_length, std::int64_t key_length) {
  Sizes sizes = {query_length, key_length, 20, 24};
  sizes.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  return sizes;
}

/// Whether row i of a result has the same bits in both.
bool same_row(const std::vector<float>& a, const std::vector<float>& b, std::int64_t i,
              std::int64_t width) {
  const auto at = static_cast<std::ptrdiff_t>(i * width);
  return std::equal(a.begin() + at, a.begin() + at + width, b.begin() + at,
                    [](float x, float y) { return bits_of(x) == bits_of(y); });
}

/// Puts `special` at one place of a key or value, and checks that the rows that may not attend
/// it keep the bits that they have with a finite number there, while the others follow the oracle.
void check_hidden(Problem& problem, Tensor& tensor, const Place& place, float special) {
  std::vector<std::vector<float>> before;
  for (const char* const isa : isa_names()) before.push_back(problem.run(isa));
  float& element = tensor.at({0, 0, place.row, place.feature});
  const float finite = element;
  element = special;
  const std::vector<Element> want = problem.expected();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const char* const isa = isa_names()[i];
    INFO(isa << ": " << special << " at key " << place.row << " feature " << place.feature << "; "
             << line_of(problem.desc));
    const std::vector<float> got = problem.run(isa);
    CHECK(check_result(problem.desc, isa, got, want) <= 1);
    for (std::int64_t row = 0; row < problem.desc.query_length; ++row)
      if (attended(problem.desc, row) <= place.row)
        CHECK(same_row(got, before[i], row, problem.desc.value_features));
  }
  element = finite;
}

/// Rows that see none, some and all of the places.
const std::vector<std::pair<std::int64_t, std::int64_t>> kCausalLengths = {
    {1, 5}, {9, 9}, {30, 30}, {100, 40}, {80, 300}, {197, 197}};

Problem filled(const Sizes& sizes, std::uint64_t seed, float amplitude = 1) {
  Problem problem(sizes);
  problem.fill(seed, amplitude);
  return problem;
}

}  // namespace

TEST_CASE("a special number in a value reaches the rows that attend it alone", "[special]") {
  std::size_t index = 0;
  for (const auto& [query_length, key_length] : kCausalLengths) {
    Problem problem = filled(causal_sizes(query_length, key_length), 3);
    for (const float special : {kNotANumber, kInf, -kInf})
      for (const std::int64_t row : {std::int64_t{0}, key_length / 2, key_length - 1})
        if (keep(index++)) check_hidden(problem, problem.value, {row, (row + 3) % 24}, special);
  }
}

TEST_CASE("a special number in a key reaches the rows that attend it alone", "[special]") {
  std::size_t index = 0;
  for (const auto& [query_length, key_length] : kCausalLengths) {
    Problem problem = filled(causal_sizes(query_length, key_length), 4);
    for (const float special : {kNotANumber, kInf, -kInf})
      for (const std::int64_t row : {std::int64_t{0}, key_length / 2, key_length - 1})
        if (keep(index++)) check_hidden(problem, problem.key, {row, (row + 3) % 20}, special);
  }
}

TEST_CASE("special numbers at keys that nobody attends reach nobody", "[special]") {
  // Top left, more keys than rows: the last keys are hidden from all.
  for (const std::int64_t rows : {1, 20, 70}) {
    Sizes sizes = {rows, rows + 20, 20, 24};
    sizes.causal = HEED_CAUSAL_TOP_LEFT;
    Problem problem = filled(sizes, 5);
    for (const char* const isa : isa_names()) {
      INFO(isa << ": " << line_of(problem.desc));
      problem.fill(5);
      const std::vector<float> before = problem.run(isa);
      for (std::int64_t j = rows; j < rows + 20; ++j) {
        for (std::int64_t x = 0; x < 20; ++x) problem.key.at({0, 0, j, x}) = kNotANumber;
        for (std::int64_t x = 0; x < 24; ++x) problem.value.at({0, 0, j, x}) = kInf;
      }
      CHECK(same_bits(problem.run(isa), before));
    }
  }
}

TEST_CASE("rows that attend nothing stay 0 beside NaN and infinity", "[special]") {
  Sizes sizes = {30, 9, 16, 16};
  sizes.causal = HEED_CAUSAL_OFFSET;
  for (const std::int64_t offset : {-5, -29, -30}) {
    sizes.causal_offset = offset;
    Problem problem(sizes);
    problem.query.fill([] { return kNotANumber; });
    problem.key.fill([] { return kInf; });
    problem.value.fill([] { return kNotANumber; });
    check_problem(problem);
  }
}

TEST_CASE("many special values at once", "[special]") {
  Sizes sizes = causal_sizes(60, 90);
  sizes.query_heads = 4;
  sizes.key_heads = 2;
  Problem problem = filled(sizes, 6);
  Random random(7);
  problem.value.each([&](const Axes& at) {
    const std::int64_t kind = random.integer(0, 99);
    if (at[2] < 45) return;
    if (kind < 3) problem.value.at(at) = kind == 0 ? kNotANumber : kind == 1 ? kInf : -kInf;
  });
  check_problem(problem);
}

TEST_CASE("NaN in a query makes that row NaN and no other", "[special]") {
  // Scores that stay, that outgrow references slowly, and far past what float32 can weigh.
  for (const float slope : {0.0F, 0.1F, 2.0F, 50.0F})
    for (const std::int64_t rows : {1, 10, 60}) {
      Problem problem = filled({rows, 150, 4, 24}, 8);
      problem.query.each([&](const Axes& at) {
        if (at[3] == 0) problem.query.at(at) = 1;
      });
      problem.key.each([&](const Axes& at) {
        if (at[3] == 0) problem.key.at(at) = slope * static_cast<float>(at[2]);
      });
      for (std::int64_t row = 0; row < rows; row += small() ? 31 : 7) {
        INFO("slope " << slope << ", NaN in row " << row);
        const float before = problem.query.at({0, 0, row, 3});
        problem.query.at({0, 0, row, 3}) = kNotANumber;
        check_problem(problem);
        problem.query.at({0, 0, row, 3}) = before;
      }
    }
}

TEST_CASE("NaN in a query does not hide how another row's scores climb", "[special]") {
  for (const std::int64_t rows : {12, 24, 48}) {
    for (std::int64_t climber = 0; climber < rows; climber += 3) {
      if (!keep(static_cast<std::size_t>(climber / 3))) continue;
      Problem problem = filled({rows, 150, 2, 8}, 15);
      problem.query.each([&](const Axes& at) {
        if (at[3] == 0) problem.query.at(at) = at[2] == climber ? 1.0F : 0.0F;
        if (at[3] == 1 && at[2] != climber) problem.query.at(at) = kNotANumber;
      });
      problem.key.each([&](const Axes& at) {
        if (at[3] == 0) problem.key.at(at) = 20 * static_cast<float>(at[2]);
      });
      INFO("row " << climber << " climbs, all others are NaN");
      check_problem(problem);
    }
  }
}

TEST_CASE("an infinite key, with rows that it makes +inf, -inf and none", "[special]") {
  // 1 to 30 rows: with each, other lanes of a panel hold no row.
  for (const float special : {kInf, -kInf})
    for (std::int64_t rows = 1; rows <= 30; ++rows) {
      Problem problem = filled({rows, 150, 1, 8}, 14);
      for (const std::int64_t place : {0, 40, 90, 149}) {
        if (!keep(static_cast<std::size_t>(rows + place))) continue;
        INFO("key " << place << " is " << special);
        const float before = problem.key.at({0, 0, place, 0});
        problem.key.at({0, 0, place, 0}) = special;
        check_problem(problem);
        problem.key.at({0, 0, place, 0}) = before;
      }
    }
}

TEST_CASE("NaN at every key in turn makes every row NaN", "[special]") {
  for (std::int64_t j = 0; j < 70; ++j) {
    if (!keep(static_cast<std::size_t>(j))) continue;
    INFO("key " << j);
    Problem with_nan = filled({5, 70, 8, 9}, 9);
    with_nan.key.at({0, 0, j, j % 8}) = kNotANumber;
    check_problem(with_nan);
  }
}

TEST_CASE("scores of +inf share the weight evenly", "[special]") {
  // Infinite keys, and finite ones whose scores overflow; some in the first step of keys,
  // some later, one or many.
  for (const float huge : {kInf, 3e38F})
    for (const std::vector<std::int64_t>& places : std::vector<std::vector<std::int64_t>>{
             {0}, {299}, {3, 4, 150}, {140, 290}, {70, 75, 80}}) {
      Sizes sizes = {20, 300, 1, 8};
      sizes.scale = 1;
      Problem problem = filled(sizes, 10);
      problem.query.fill([] { return 5.0F; });
      for (const std::int64_t j : places) problem.key.at({0, 0, j, 0}) = huge;
      INFO("key " << huge << " at " << places[0] << " and " << places.size() - 1 << " more");
      check_problem(problem);
    }
}

TEST_CASE("scores of -inf get weight 0", "[special]") {
  for (const float huge : {-kInf, -3e38F})
    for (const std::int64_t first : {0, 1, 60, 299}) {
      Sizes sizes = {20, 300, 1, 8};
      sizes.scale = 1;
      Problem problem = filled(sizes, 11);
      problem.query.fill([] { return 5.0F; });
      for (std::int64_t j = first; j < 300; ++j) problem.key.at({0, 0, j, 0}) = huge;
      INFO("keys of " << huge << " from " << first);
      check_problem(problem);
    }
}

TEST_CASE("infinite scores of both signs", "[special]") {
  Sizes sizes = {20, 200, 1, 8};
  sizes.scale = 1;
  Problem problem = filled(sizes, 12);
  for (std::int64_t j = 0; j < 200; j += 7)
    problem.key.at({0, 0, j, 0}) = j % 2 == 0 ? kInf : -kInf;
  check_problem(problem);
}

TEST_CASE("an infinite query selects by the sign of the keys", "[special]") {
  Sizes sizes = {6, 50, 1, 8};
  sizes.scale = 1;
  Problem problem = filled(sizes, 13);
  problem.query.at({0, 0, 2, 0}) = kInf;
  problem.query.at({0, 0, 3, 0}) = -kInf;
  check_problem(problem);
}
