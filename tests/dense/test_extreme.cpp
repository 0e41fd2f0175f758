// Scores and values far out, but finite.
#include "tests/dense/edges.hpp"
#include "tests/dense/gradients.hpp"
#include "tests/support/printed_scores.hpp"

using namespace heed_test;

namespace {

/// Problems of these scores, with few rows and many.
void check_scores(const std::vector<double>& scores, const std::vector<Index>& rows,
                  std::uint64_t seed) {
  for (const Index queries : rows) {
    Problem p = filled({queries, static_cast<Index>(scores.size()), 1, 20}, seed);
    set_scores(p, scores);
    check_problem(p);
  }
}

}  // namespace

TEST_CASE("the scores of a graph's nodes, from -288 to 211", "[extreme]") {
  for (const PrintedNode& node : printed_nodes()) {
    // The identity as values: the result is the weights.
    const auto n = static_cast<Index>(node.scores.size());
    Problem p({1, n, 1, n});
    set_scores(p, node.scores);
    p.value.fill([](const Axes& at) { return at[2] == at[3]; });
    const Expected want = p.expected_all();
    on_every_isa(p, [&](const Outputs& got, std::size_t isa) {
      INFO("largest score " << node.scores[0]);
      CHECK(check_outputs(p, IsaContexts::name(isa), got, want).worst() <= 1);
      double sum = 0;
      for (std::size_t j = 0; j < got.out.size(); ++j) {
        INFO("weight " << j << " is " << got.out[j] << ", printed " << node.weights[j]);
        CHECK(std::fabs(got.out[j] - node.weights[j]) <=
              printed_bound<float>(node, j) + want.out[j].bound);
        if (node.weights[j] < 0x1p-128) CHECK(got.out[j] == 0);
        sum += got.out[j];
      }
      CHECK(std::fabs(sum - 1) <= gamma_of(static_cast<double>(got.out.size()) + 3));
    });
  }
}

TEST_CASE("scores of +-1e4", "[extreme]") {
  for (const double amplitude : {10.0, 30.0, 100.0, 140.0})
    for (const Index rows : {1, 30, 100}) {
      Problem p({rows, 200, 4, 20});
      p.desc.scale = 1;
      Random random(static_cast<std::uint64_t>(amplitude) + static_cast<std::uint64_t>(rows));
      const auto far = [&] {
        return (random.integer(0, 1) == 0 ? amplitude : -amplitude) * random.unit();
      };
      p.query.fill(far);
      p.key.fill(far);
      p.value.fill([&] { return random.normal(); });
      INFO("amplitude " << amplitude);
      check_problem(p);
    }
}

TEST_CASE("scores that climb slowly, quickly, and in steps", "[extreme]") {
  for (const double slope : {0.02, 0.08, 0.5, 5.0, 200.0, -0.08, -5.0, -200.0}) {
    std::vector<double> scores(400);
    for (int j = 0; j < 400; ++j)
      scores[static_cast<std::size_t>(j)] = slope * (j - j % 40 + (j % 3) / 4.0);
    INFO("slope " << slope);
    check_scores(scores, {1, 30}, 3);
  }
}

TEST_CASE("scores that are equal", "[extreme]") {
  for (const double score : {0.0, 1.0, -1.0, 1e3, -1e3, 3e4, -3e4}) {
    INFO("score " << score);
    check_scores(std::vector<double>(300, score), {1, 5, 30}, 1);
  }
}

// Every number here is finite, so no key is masked and the weights are the same. Forward, by each
// strategy, and backward, where they follow from a log-sum-exp that cannot hold them.
TEST_CASE("scores that have no digits left are equal", "[extreme][backward]") {
  const double beyond = std::numeric_limits<double>::max();
  const auto check = [](std::uint32_t dtype, double far, bool function) {
    for (const Index rows : {1, 40}) {
      INFO("biases of " << far << ", " << name_of_dtype(dtype) << ", " << rows << " rows");
      Sizes sizes = {rows, 70, 8, 8};
      sizes.types = all_of(dtype);
      Problem p = filled(sizes, 4);
      p.add_bias({1, 1, rows, 70}, HEED_DTYPE_F64).fill([&] { return far; });
      if (function) p.function = score_function<Hide>();
      check_all(p);
      BackwardProblem back = all_gradients_of(p);
      // Sums of scores times gradients may overflow.
      if (std::fabs(far) > 1e30) back.gradients[kGradTemperature].reset();
      check_backward(back);
    }
  };
  for (const double far : {-1e9, 1e9, -1e19, -3.4e38, 3.4e38, -1e39, 1e39, -beyond, beyond})
    check(HEED_DTYPE_F32, far, false);
  for (const double far : {-1e19, 1e19, -beyond, beyond}) check(HEED_DTYPE_F64, far, false);
  for (const double far : {-beyond, beyond}) {
    check(HEED_DTYPE_F32, far, true);
    check(HEED_DTYPE_F64, far, true);
  }
}

TEST_CASE("one score far above all others takes all the weight", "[extreme]") {
  for (const double score : {1e6, 1e20, 1e30, 2e38})
    for (const Index rows : {1, 30})
      for (const Index place : {0, 20, 31, 32, 100, 140, 299}) {
        Problem p = filled({rows, 300, 1, 8}, static_cast<std::uint64_t>(place));
        p.desc.scale = 1;
        p.query.fill([] { return 1; });
        p.key.fill([&](const Axes& at) { return at[2] == place ? score : 1; });
        on_every_isa(p, [&](const Outputs& got) {
          INFO("score " << score << " at key " << place);
          bool equal = true;
          for (std::size_t i = 0; i < got.out.size(); ++i)
            equal = equal && got.out[i] == p.value.get({0, 0, place, static_cast<Index>(i % 8)});
          CHECK(equal);
        });
      }
}

TEST_CASE("values near the largest float32 and the smallest", "[extreme]") {
  // 25 values near FLT_MAX / 1e4, with weights of up to 2^8, stay below FLT_MAX.
  for (const double size : {3.4e34, 1e30, 1e-20, 1e-30, 1e-38, 1e-42})
    for (const Index rows : {1, 7, 80}) {
      Problem p = filled({rows, 25, 16, 24}, 5);
      Random random(6);
      p.value.fill([&] { return size * (2 * random.unit() - 1); });
      INFO("values of " << size);
      check_problem(p);
    }
}

TEST_CASE("huge queries of tiny keys, and the reverse", "[extreme]") {
  for (const float size : {1e15F, 1e30F, 1e37F, 1e-15F, 1e-30F, 1e-37F}) {
    Problem p({30, 100, 20, 8});
    Random random(9);
    p.query.fill([&] { return random.normal() * size; });
    p.key.fill([&] { return random.normal() / size; });
    p.value.fill([&] { return random.normal(); });
    INFO("queries of " << size);
    const Expected want = p.expected_all();
    const bool subnormal = size > 1e36F || size < 1e-36F;  // second parts of the tiny ones
    for (const char* const isa : isa_names()) {
      const Unspecified unspecified =
          subnormal && multiplies_parts(isa) ? Unspecified::kAllowed : Unspecified::kForbidden;
      CHECK(check_outputs(p, isa, p.run_all(isa), want, unspecified).worst() <= 1);
    }
  }
}
