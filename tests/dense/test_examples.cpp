// Worked examples with known answers.
#include "tests/support/attention.hpp"

using namespace heed_test;

namespace {

/// A problem of one head, given as rows.
Problem of_rows(const Sizes& sizes, const std::vector<float>& query, const std::vector<float>& key,
                const std::vector<float>& value) {
  Problem problem(sizes);
  const auto copy = [](const std::vector<float>& from, Tensor& to) {
    std::size_t i = 0;
    to.fill([&] { return from.at(i++); });
  };
  copy(query, problem.query);
  copy(key, problem.key);
  copy(value, problem.value);
  return problem;
}

/// Compares with answers printed to `digit`, half of which they may be off.
void check_answers(Problem& problem, const std::vector<double>& answers, double digit) {
  const std::vector<Element> want = problem.expected();
  for (const heed::KernelTable* const isa : usable_isas()) {
    const std::vector<float> got = problem.run(isa->isa);
    CHECK(check_result(problem.desc, isa->isa, got, want) <= 1);
    REQUIRE(got.size() == answers.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO(isa->isa << ": element " << i << " is " << got[i] << ", expected " << answers[i]);
      CHECK(std::fabs(got[i] - answers[i]) <= want[i].bound + digit / 2);
    }
  }
}

/// A sentence of six words, asked for its last word's key.
Problem sentence(double scale, bool weights) {
  Sizes sizes = {1, 6, 3, weights ? 6 : 1};
  sizes.scale = scale;
  std::vector<float> values = {0, -0.2F, 0.3F, 0.4F, 0, 0.1F};
  if (weights) {
    values.assign(36, 0);
    for (std::size_t j = 0; j < 6; ++j) values[7 * j] = 1;
  }
  return of_rows(sizes, {0, 2, 1}, {0, 0, 0, 2, 0, 1, 1, -1, -2, 2, 3, 1, -2, 0, 0, 0, 2, 1},
                 values);
}

}  // namespace

TEST_CASE("the sentence, scale 1", "[examples]") {
  Problem output = sentence(1, false);
  // The values themselves, such as 0.1, are rounded to float32: off by kUnit of 0.4 at most.
  check_answers(output, {0.362428076}, 1e-9 + kUnit);
  Problem weights = sentence(1, true);
  check_answers(
      weights,
      {8.00138959e-4, 2.17500319e-3, 1.46550562e-5, 0.877458913, 8.00138959e-4, 0.118751151}, 1e-9);
}

TEST_CASE("the sentence, scale 1/sqrt(3), which is the default", "[examples]") {
  for (const double scale : {1 / std::sqrt(3.0), 0.0}) {
    Problem output = sentence(scale, false);
    check_answers(output, {0.307789757}, 1e-9 + kUnit);
  }
}

TEST_CASE("the sentence, scale to zero: the mean of the values", "[examples]") {
  Problem output = sentence(1e-30, false);
  check_answers(output, {0.1}, 1e-9 + kUnit);
}

TEST_CASE("three inputs with integer weights, scale 1", "[examples]") {
  Sizes sizes = {3, 3, 3, 3};
  sizes.scale = 1;
  // Projections of (1,0,1,0), (0,2,0,2), (1,1,1,1).
  Problem problem = of_rows(sizes, {1, 0, 2, 2, 2, 2, 2, 1, 3}, {0, 1, 1, 4, 4, 0, 2, 3, 1},
                            {1, 2, 3, 2, 8, 0, 2, 6, 3});
  check_answers(problem,
                {1.93662106, 6.68310531, 1.59506841, 1.99999397, 7.9639916, 0.05397641, 1.99970461,
                 7.75989225, 0.35838929},
                1e-8);
}

TEST_CASE("four words, scores over sqrt(3)", "[examples]") {
  Sizes sizes = {4, 4, 3, 3};
  // Queries and keys whose scores are (0,0,0,2), for the third word (0,0,0,4).
  Problem problem =
      of_rows(sizes, {2, 0, 0, 2, 0, 0, 4, 0, 0, 2, 0, 0}, {0, 1, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0},
              {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0});
  const std::vector<double> row = {1.67601226, 1.67601226, 0.64797548};
  std::vector<double> answers;
  for (int i = 0; i < 4; ++i) answers.insert(answers.end(), row.begin(), row.end());
  answers[6] = answers[7] = 1.84695899;
  answers[8] = 0.30608202;
  check_answers(problem, answers, 1e-8);
}
