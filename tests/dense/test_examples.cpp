// The worked examples that heed grew from, with their known answers.
#include "tests/dense/kinds.hpp"
#include "tests/oracle/rounding.hpp"

using namespace heed_test;

namespace {

using Answers = std::vector<double>;

// ---- Comparing with answers ----

/// Compares out, or the weights at some point on the way, with answers; those printed to `digit`
/// are off by half of it at most.
void check_answers(Problem& problem, const Answers& answers, double digit,
                   heed_weights_point point = HEED_WEIGHTS_NONE) {
  problem.want_nothing_else();
  if (point != HEED_WEIGHTS_NONE) problem.want_weights(point);
  const Expected expected = problem.expected_all();
  on_every_isa(problem, [&](const Outputs& outputs, std::size_t n) {
    check_outputs(problem, IsaContexts::name(n), outputs, expected);
    const Numbers& got = problem.weights ? outputs.weights : outputs.out;
    const std::vector<Element>& want = problem.weights ? expected.weights : expected.out;
    REQUIRE(got.size() == answers.size());
    REQUIRE(want.size() == answers.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      INFO("element " << i << " is " << got[i] << ", expected " << answers[i]);
      CHECK(std::fabs(got[i] - answers[i]) <= want[i].bound + digit / 2);
    }
  });
}

// ---- The examples ----

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

/// Every row, asked as a vector query, gives the bits that it has among the others.
void check_vector_queries(Problem& problem) {
  const heed_attention_desc& d = problem.desc;
  on_every_isa(problem, [&](const Outputs& rows, std::size_t n) {
    for (std::int64_t i = 0; i < d.query_length; ++i) {
      Problem vector({1, d.key_length, d.features, d.value_features});
      vector.query.fill([&](const Axes& at) { return problem.query.get({0, 0, i, at[3]}); });
      vector.key.assign(problem.key);
      vector.value.assign(problem.value);
      vector.desc.scale = d.scale;
      const auto row = rows.out.bits.begin() + i * d.value_features;
      const Numbers want = {rows.out.dtype, {row, row + d.value_features}};
      INFO("row " << i);
      CHECK(same_bits(vector.run_all(IsaContexts::name(n)).out, want));
    }
  });
}

/// rows [N, F] times weights [F, W], all small integers: exact.
std::vector<float> project(const std::vector<float>& rows, const std::vector<float>& weights,
                           std::size_t features) {
  const std::size_t width = weights.size() / features;
  std::vector<float> projected(rows.size() / features * width, 0);
  for (std::size_t i = 0; i < projected.size(); ++i)
    for (std::size_t f = 0; f < features; ++f)
      projected[i] += rows[i / width * features + f] * weights[f * width + i % width];
  return projected;
}

/// The sentence: one vector for each of its six words.
const std::vector<float> kSentence = {0, 0, 0, 2, 0, 1, 1, -1, -2, 2, 3, 1, -2, 0, 0, 0, 2, 1};

const std::vector<float> kValues = {0, -0.2F, 0.3F, 0.4F, 0, 0.1F};

/// "The sleepy child reads a book": what "book" finds, asked as a vector.
Problem sentence() {
  Problem problem = of_rows({1, 6, 3, 1}, {0, 2, 1}, kSentence, kValues);
  problem.desc.scale = 1;
  return problem;
}

/// Answers to the sentence printed to nine digits. The values themselves, such as 0.1, are rounded
/// to float32: off by kUnit of 0.4 at most.
constexpr double kDigit = 1e-9 + kUnit;

const Answers kSoft = {8.00138959e-4, 2.17500319e-3, 1.46550562e-5,
                       0.877458913,   8.00138959e-4, 0.118751151};

/// Three inputs of four features and integer weights: d_k is 3, d_model 4.
Problem three_inputs() {
  const std::vector<float> x = {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1};
  Problem problem = of_rows({3, 3, 3, 3}, project(x, {1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1}, 4),
                            project(x, {0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0}, 4),
                            project(x, {0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0}, 4));
  problem.desc.scale = 1;
  return problem;
}

const std::vector<float> kWords = {1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1};

/// Four words through W_Q, W_K and W_V.
Problem four_words() {
  return of_rows({4, 4, 3, 3}, project(kWords, {2, 0, 0, 0, 0, 1, 2, 0, 0}, 3),
                 project(kWords, {0, 1, 0, 0, 2, 0, 1, 0, 2}, 3),
                 project(kWords, {1, 1, 1, 1, 1, 1, 2, 2, 0}, 3));
}

}  // namespace

// ---- The sentence ----

TEST_CASE("the sentence, by scale, by temperature and hard", "[examples]") {
  const double root = std::sqrt(3.0);
  const Answers fourth = {0, 0, 0, 1, 0, 0};
  struct Case {
    double scale;
    double temperature;
    std::uint32_t hard;
    double answer;
    Answers weights;
  };
  for (const Case& c : {Case{1, 0, 0, 0.362428076, kSoft}, Case{1, 0, 1, 0.4, fourth},
                        // From hard over soft to the mean.
                        Case{1, 0.01, 0, 0.4, fourth}, Case{1, 1, 0, 0.362428076, kSoft},
                        Case{1, kInfinity, 0, 0.1, Answers(6, 1 / 6.0)},
                        // A temperature is the inverse of a scale, 1/sqrt(3) the default.
                        Case{1, root, 0, 0.307789757, {}}, Case{1 / root, 0, 0, 0.307789757, {}},
                        Case{0, 0, 0, 0.307789757, {}},
                        // Towards 0: the mean of the values.
                        Case{1e-30, 0, 0, 0.1, {}}}) {
    Problem problem = sentence();
    problem.desc.scale = c.scale;
    problem.desc.temperature = c.temperature;
    problem.desc.hard = c.hard;
    check_answers(problem, {c.answer}, kDigit);
    if (!c.weights.empty())
      check_answers(problem, c.weights, c.weights == kSoft ? 1e-9 : 0, HEED_WEIGHTS_PROBABILITIES);
  }
  Problem scores = sentence();
  check_answers(scores, {0, 1, -4, 7, 0, 5}, 0, HEED_WEIGHTS_SCORES);
}

TEST_CASE("the sentence, every word a query: its last row is the vector query", "[examples]") {
  // Six queries of three features: it is the features that the default scale counts.
  Problem problem = of_rows({6, 6, 3, 1}, kSentence, kSentence, kValues);
  const Element want = problem.expected_all().out.back();
  on_every_isa(problem, [&](const Outputs& got) {
    INFO(got.out[5]);
    CHECK(std::fabs(got.out[5] - 0.307789757) <= want.bound + kDigit / 2);
  });
  check_vector_queries(problem);
  // Each row of weights is a softmax of its own.
  problem.want_weights(HEED_WEIGHTS_PROBABILITIES);
  on_every_isa(problem, [&](const Outputs& got) {
    for (std::size_t i = 0; i < 6; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < 6; ++j) sum += got.weights[6 * i + j];
      INFO("row " << i);
      CHECK(std::fabs(sum - 1) <= 16 * kUnit);
    }
  });
}

TEST_CASE("the sentence, in other types", "[examples]") {
  struct Case {
    std::uint32_t dtype;
    double digit;  // a rounding of the values and one of the result
  };
  for (const Case c : {Case{HEED_DTYPE_F64, 1e-9}, Case{HEED_DTYPE_BF16, 2 * 0x1p-8},
                       Case{HEED_DTYPE_F16, 2 * 0x1p-11}}) {
    INFO(name_of_dtype(c.dtype));
    Sizes sizes = {1, 6, 3, 1};
    sizes.types = all_of(c.dtype);
    Problem problem(sizes);
    const Answers values = {0, -0.2, 0.3, 0.4, 0, 0.1};
    std::size_t key = 0;
    std::size_t value = 0;
    problem.key.fill([&] { return kSentence.at(key++); });
    problem.query.fill([&](const Axes& at) {
      return problem.key.get({0, 0, 5, at[3]});
    });  // "book"
    problem.value.fill([&] { return values.at(value++); });
    problem.desc.scale = 1;
    check_answers(problem, {0.362428076}, c.digit);
  }
}

// ---- Three inputs ----

TEST_CASE("three inputs with integer weights, scale 1", "[examples]") {
  Problem problem = three_inputs();
  check_answers(problem,
                {1.93662106, 6.68310531, 1.59506841, 1.99999397, 7.9639916, 0.05397641, 1.99970461,
                 7.75989225, 0.35838929},
                1e-8);
  check_answers(problem, {2, 4, 4, 4, 16, 12, 4, 12, 10}, 0, HEED_WEIGHTS_SCORES);
  check_answers(problem,
                {6.33789383e-02, 4.68310531e-01, 4.68310531e-01, 6.03366485e-06, 9.82007865e-01,
                 1.79861014e-02, 2.95387223e-04, 8.80536902e-01, 1.19167711e-01},
                1e-9, HEED_WEIGHTS_PROBABILITIES);
}

// ---- Four words ----

TEST_CASE("four words through their projections, scores over sqrt(3)", "[examples]") {
  Problem problem = four_words();
  const std::vector<double> row = {1.67601226, 1.67601226, 0.64797548};
  Answers answers;
  for (int i = 0; i < 4; ++i) answers.insert(answers.end(), row.begin(), row.end());
  answers[6] = answers[7] = 1.84695899;
  answers[8] = 0.30608202;
  check_answers(problem, answers, 1e-8);
  check_vector_queries(problem);

  // The first word's weights, as printed, to five digits.
  problem.want_weights(HEED_WEIGHTS_PROBABILITIES);
  on_every_isa(problem, [&](const Outputs& got) {
    for (std::size_t j = 0; j < 4; ++j) {
      INFO("weight " << j << " is " << got.weights[j]);
      CHECK(std::fabs(got.weights[j] - (j < 3 ? 0.16199 : 0.51402)) <= 0.5e-5 + kUnit);
    }
  });

  problem.want_nothing_else();
  problem.desc.scale = 1;
  check_answers(problem, {0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 2}, 0, HEED_WEIGHTS_SCORES);
}
