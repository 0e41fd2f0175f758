// Scores and values far out, but finite.
#include "tests/support/attention.hpp"
#include "tests/support/printed_scores.hpp"

using namespace heed_test;

namespace {

/// Scores given outright, through one feature and scale 1, and the identity as values, so that
/// the result is the weights.
Problem weights_of(const std::vector<double>& scores) {
  const auto n = static_cast<std::int64_t>(scores.size());
  Sizes sizes = {1, n, 1, n};
  sizes.scale = 1;
  Problem problem(sizes);
  problem.query.fill([] { return 1.0F; });
  problem.key.each([&](const Axes& at) {
    problem.key.at(at) = static_cast<float>(scores[static_cast<std::size_t>(at[2])]);
  });
  problem.value.each([&](const Axes& at) { problem.value.at(at) = at[2] == at[3] ? 1.0F : 0.0F; });
  return problem;
}

void check_scores(const std::vector<float>& scores, std::int64_t rows, std::uint64_t seed) {
  const auto n = static_cast<std::int64_t>(scores.size());
  Sizes sizes = {rows, n, 1, 20};
  sizes.scale = 1;
  Problem problem(sizes);
  problem.fill(seed);
  problem.query.fill([] { return 1.0F; });
  problem.key.each(
      [&](const Axes& at) { problem.key.at(at) = scores[static_cast<std::size_t>(at[2])]; });
  check_problem(problem);
}

}  // namespace

TEST_CASE("the scores of a graph's nodes, from -288 to 211", "[extreme]") {
  for (const PrintedNode& node : printed_nodes()) {
    Problem problem = weights_of(node.scores);
    const std::vector<Element> want = problem.expected();
    for (const char* const isa : isa_names()) {
      INFO(isa << ", largest score " << node.scores[0]);
      const std::vector<float> got = problem.run(isa);
      CHECK(check_result(problem.desc, isa, got, want) <= 1);
      double sum = 0;
      for (std::size_t j = 0; j < got.size(); ++j) {
        INFO("weight " << j << " is " << got[j] << ", printed " << node.weights[j]);
        CHECK(std::fabs(got[j] - node.weights[j]) <= printed_bound<float>(node, j) + want[j].bound);
        if (node.weights[j] < 0x1p-128) CHECK(got[j] == 0);
        sum += static_cast<double>(got[j]);
      }
      CHECK(std::fabs(sum - 1) <= gamma_of(static_cast<double>(got.size()) + 3));
    }
  }
}

TEST_CASE("scores of +-1e4", "[extreme]") {
  for (const float amplitude : {10.0F, 30.0F, 100.0F, 140.0F}) {
    for (const std::int64_t rows : {1, 30, 100}) {
      Problem problem({rows, 200, 4, 20});
      problem.desc.scale = 1;
      Random random(static_cast<std::uint64_t>(amplitude) + static_cast<std::uint64_t>(rows));
      const auto sign = [&] { return random.integer(0, 1) == 0 ? amplitude : -amplitude; };
      problem.query.fill([&] { return sign() * static_cast<float>(random.unit()); });
      problem.key.fill([&] { return sign() * static_cast<float>(random.unit()); });
      problem.value.fill([&] { return random.normal(); });
      INFO("amplitude " << amplitude);
      check_problem(problem);
    }
  }
}

TEST_CASE("scores that climb slowly, quickly, and in steps", "[extreme]") {
  for (const double slope : {0.02, 0.08, 0.5, 5.0, 200.0, -0.08, -5.0, -200.0}) {
    std::vector<float> scores;
    for (int j = 0; j < 400; ++j)
      scores.push_back(static_cast<float>(slope * (j / 40 * 40 + (j % 3) / 4.0)));
    INFO("slope " << slope);
    for (const std::int64_t rows : {1, 30}) check_scores(scores, rows, 3);
  }
}

TEST_CASE("scores that are equal", "[extreme]") {
  for (const float score : {0.0F, 1.0F, -1.0F, 1e3F, -1e3F, 3e4F, -3e4F})
    for (const std::int64_t rows : {1, 5, 30}) {
      INFO("score " << score);
      check_scores(std::vector<float>(300, score), rows, 1);
    }
}

TEST_CASE("one score far above all others takes all the weight", "[extreme]") {
  for (const float score : {1e6F, 1e20F, 1e30F, 2e38F})
    for (const std::int64_t rows : {1, 30})
      for (const std::size_t place : {0U, 20U, 31U, 32U, 100U, 140U, 299U}) {
        std::vector<float> scores(300, 1.0F);
        scores[place] = score;
        Sizes sizes = {rows, 300, 1, 8};
        sizes.scale = 1;
        Problem problem(sizes);
        problem.fill(place);
        problem.query.fill([] { return 1.0F; });
        problem.key.each(
            [&](const Axes& at) { problem.key.at(at) = scores[static_cast<std::size_t>(at[2])]; });
        for (const char* const isa : isa_names()) {
          INFO(isa << ": score " << score << " at key " << place << " of 300, " << rows << " rows");
          const std::vector<float> got = problem.run(isa);
          bool equal = true;
          for (std::size_t i = 0; i < got.size(); ++i)
            equal = equal && got[i] == problem.value.at({0, 0, static_cast<std::int64_t>(place),
                                                         static_cast<std::int64_t>(i % 8)});
          CHECK(equal);
        }
      }
}

TEST_CASE("values near the largest float32 and the smallest", "[extreme]") {
  // 25 values near FLT_MAX / 1e4, with weights of up to 2^8, stay below FLT_MAX.
  for (const float size : {3.4e34F, 1e30F, 1e-20F, 1e-30F, 1e-38F, 1e-42F}) {
    for (const std::int64_t rows : {1, 7, 80}) {
      Problem problem({rows, 25, 16, 24});
      problem.fill(5);
      Random random(6);
      problem.value.fill([&] { return size * static_cast<float>(2 * random.unit() - 1); });
      INFO("values of " << size);
      check_problem(problem);
    }
  }
}

TEST_CASE("huge queries of tiny keys, and the reverse", "[extreme]") {
  for (const float size : {1e15F, 1e30F, 1e37F, 1e-15F, 1e-30F, 1e-37F}) {
    Problem problem({30, 100, 20, 8});
    Random random(9);
    problem.query.fill([&] { return random.normal() * size; });
    problem.key.fill([&] { return random.normal() / size; });
    problem.value.fill([&] { return random.normal(); });
    INFO("queries of " << size);
    check_problem(problem);
  }
}
