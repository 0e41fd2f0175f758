// exponentials: what softmax does once row maxima are final.
#include "tests/kernels/softmax.hpp"

using namespace heed_test;

namespace {

/// Scores from 8 above a row's row_max, as lazy row maxima allow, to far below it; -inf is a
/// masked key.
template <class Real>
Step<Real> draw(const Case& c, Random& random) {
  Step<Real> step(c, true);
  step.row_max.fill([&] { return 20 * random.normal<Real>(); });
  step.sum.fill([&] { return static_cast<Real>(10 * random.unit()); });
  for (std::size_t i = 0; i < step.scores.size(); ++i) {
    const std::int64_t kind = random.integer(0, 9);
    const Real below = kind == 0 ? kInf<Real> : kind == 1 ? 3000 : 30;
    step.scores[i] = step.row_max[i % c.pitch] + 8 - below * static_cast<Real>(1 - random.unit());
  }
  return step;
}

}  // namespace

TEMPLATE_TEST_CASE("exponentials turn scores into weights and sum them in order", "[exponentials]",
                   float, double) {
  for_each_case<TestType>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    Step<TestType> step = draw<TestType>(c, random);
    const Step<TestType> before = step;
    step.exponentials(kernels);
    CHECK(all(c.pitch, [&](std::size_t r) {  // one by one, apart from what was there
      TestType sum = 0;
      for (std::size_t j = 0; j < c.keys; ++j) sum += step.scores[j * c.pitch + r];
      return same_number(before.sum[r] + sum, step.sum[r]);
    }));
    CHECK(same_bits(before.row_max, step.row_max));
    CHECK(step.intact());
    return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      const std::size_t at = j * c.pitch + r;
      return Weight<TestType>(before.scores[at], before.row_max[r]).ratio(step.scores[at]);
    });
  });
}

// Scores of +inf included, which make the row_max the largest finite number.
TEMPLATE_TEST_CASE("exponentials give the bits that softmax gives", "[exponentials]", float,
                   double) {
  for_each_case<TestType>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    Step<TestType> softmax(c, true);
    softmax.scores = draw<TestType>(c, random).scores;
    for (std::size_t i = 0; i < softmax.scores.size(); ++i)
      if (i % c.pitch % 3 == 1 && random.integer(0, 2) == 0) softmax.scores[i] = kInf<TestType>;
    Step<TestType> step = softmax;
    softmax.softmax(kernels);
    for (std::size_t r = 0; r < c.pitch; ++r) step.row_max[r] = softmax.row_max[r];
    step.exponentials(kernels);
    CHECK(same_bits(step.scores, softmax.scores));
    CHECK(same_bits(step.sum, softmax.sum));
  });
}

TEMPLATE_TEST_CASE("exponentials of infinities and NaN", "[exponentials]", float, double) {
  constexpr TestType inf = kInf<TestType>;
  constexpr TestType max = kMax<TestType>;
  const TestType nan = not_a_number<TestType>();
  const struct {
    TestType row_max, score, weight;
  } rows[] = {{max, inf, 1},   {max, max, 1},   {max, 0, 0},   {max, -inf, 0},  {3, -inf, 0},
              {3, nan, nan},   {max, nan, nan}, {nan, 3, nan}, {-max, -inf, 0},  // nothing attended
              {-max, -max, 1}, {3, 3, 1},       {3, 5, 4}};
  for_each_case<TestType>(panels(0, 2), [&](const auto& kernels, const Case& c, Random&) {
    for (std::size_t first = 0; first < 12; ++first) {  // so that each comes to lie in each lane
      INFO("first row " << first);
      Step<TestType> step(c, true);
      for (std::size_t r = 0; r < c.pitch; ++r) {
        step.row_max[r] = rows[(first + r) % 12].row_max;
        step.sum[r] = 1;
        step.scores[r] = rows[(first + r) % 12].score;
        step.scores[c.pitch + r] = -inf;
      }
      step.exponentials(kernels);
      CHECK((step.intact() && all(c.pitch, [&](std::size_t r) {
               const auto& row = rows[(first + r) % 12];
               return same_number(step.scores[r], row.weight) &&
                      same_number(step.sum[r], std::isnan(row.row_max) ? nan : 1 + row.weight);
             })));
    }
  });
}
