// The worked examples that heed grew from, with their known answers.
#include "tests/oracle/rounding.hpp"
#include "tests/support/attention.hpp"

using namespace heed_test;

namespace {

using Answers = std::vector<double>;

// ---- Comparing with answers ----

/// Answers printed to `digit` are off by half of it at most.
void check_numbers(const std::string& what, const Numbers& got, const std::vector<Element>& want,
                   const Answers& answers, double digit) {
  REQUIRE(got.size() == answers.size());
  REQUIRE(want.size() == answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    INFO(what << ", element " << i << " is " << got[i] << ", expected " << answers[i]);
    CHECK(std::fabs(got[i] - answers[i]) <= want[i].bound + digit / 2);
  }
}

void check_answers(Problem& problem, const Answers& answers, double digit) {
  const Expected want = problem.expected_all();
  for (const char* const isa : isa_names()) {
    const Outputs got = problem.run_all(isa);
    check_outputs(problem, isa, got, want);
    check_numbers(std::string(isa) + ": out", got.out, want.out, answers, digit);
  }
}

/// What the weights are at some point on the way.
void check_weights(Problem& problem, heed_weights_point point, const Answers& answers,
                   double digit) {
  problem.want_weights(point);
  const Expected want = problem.expected_all();
  for (const char* const isa : isa_names()) {
    const Outputs got = problem.run_all(isa);
    check_outputs(problem, isa, got, want);
    check_numbers(std::string(isa) + ": weights", got.weights, want.weights, answers, digit);
  }
  problem.want_nothing_else();
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
  const std::int64_t features = problem.desc.features;
  const std::int64_t width = problem.desc.value_features;
  const std::vector<float> queries = problem.query.elements();
  for (const char* const isa : isa_names()) {
    const std::vector<float> rows = problem.run(isa);
    for (std::int64_t i = 0; i < problem.desc.query_length; ++i) {
      const auto query = queries.begin() + i * features;
      const auto row = rows.begin() + i * width;
      Problem vector =
          of_rows({1, problem.desc.key_length, features, width}, {query, query + features},
                  problem.key.elements(), problem.value.elements());
      vector.desc.scale = problem.desc.scale;
      INFO(isa << ": row " << i);
      CHECK(vector.run(isa) == std::vector<float>(row, row + width));
    }
  }
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

/// "The sleepy child reads a book": what "book" finds, asked as a vector.
Problem sentence() {
  Problem problem = of_rows({1, 6, 3, 1}, {0, 2, 1}, kSentence, {0, -0.2F, 0.3F, 0.4F, 0, 0.1F});
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

TEST_CASE("the sentence, scale 1", "[examples]") {
  Problem problem = sentence();
  check_answers(problem, {0.362428076}, kDigit);
  check_weights(problem, HEED_WEIGHTS_SCORES, {0, 1, -4, 7, 0, 5}, 0);
  check_weights(problem, HEED_WEIGHTS_PROBABILITIES, kSoft, 1e-9);
}

TEST_CASE("the sentence, scale 1/sqrt(3), which is the default", "[examples]") {
  for (const double scale : {1 / std::sqrt(3.0), 0.0}) {
    Problem problem = sentence();
    problem.desc.scale = scale;
    check_answers(problem, {0.307789757}, kDigit);
  }
}

TEST_CASE("the sentence, hard attention", "[examples]") {
  Problem problem = sentence();
  problem.desc.hard = 1;
  check_answers(problem, {0.4}, kDigit);
  check_weights(problem, HEED_WEIGHTS_PROBABILITIES, {0, 0, 0, 1, 0, 0}, 0);
}

TEST_CASE("the sentence, temperatures from hard over soft to the mean", "[examples]") {
  Problem problem = sentence();
  problem.desc.temperature = 0.01;
  check_answers(problem, {0.4}, kDigit);
  check_weights(problem, HEED_WEIGHTS_PROBABILITIES, {0, 0, 0, 1, 0, 0}, 0);
  problem.desc.temperature = 1;
  check_answers(problem, {0.362428076}, kDigit);
  check_weights(problem, HEED_WEIGHTS_PROBABILITIES, kSoft, 1e-9);
  problem.desc.temperature = std::numeric_limits<double>::infinity();
  check_answers(problem, {0.1}, kDigit);
  check_weights(problem, HEED_WEIGHTS_PROBABILITIES, Answers(6, 1 / 6.0), 0);
}

TEST_CASE("the sentence, a temperature is the inverse of a scale", "[examples]") {
  Problem problem = sentence();
  problem.desc.temperature = std::sqrt(3.0);
  check_answers(problem, {0.307789757}, kDigit);
}

TEST_CASE("the sentence, scale to zero: the mean of the values", "[examples]") {
  Problem problem = sentence();
  problem.desc.scale = 1e-30;
  check_answers(problem, {0.1}, kDigit);
}

TEST_CASE("the sentence, every word a query: its last row is the vector query", "[examples]") {
  // Six queries of three features: it is the features that the default scale counts.
  Problem problem = of_rows({6, 6, 3, 1}, kSentence, kSentence, {0, -0.2F, 0.3F, 0.4F, 0, 0.1F});
  for (const char* const isa : isa_names()) {
    const std::vector<float> rows = problem.run(isa);
    INFO(isa << ": " << rows.back());
    CHECK(std::fabs(rows.back() - 0.307789757) <= problem.expected().back().bound + kDigit / 2);
  }
  check_vector_queries(problem);
  // Each row of weights is a softmax of its own.
  problem.want_weights(HEED_WEIGHTS_PROBABILITIES);
  for (const char* const isa : isa_names()) {
    const Numbers weights = problem.run_all(isa).weights;
    for (std::size_t i = 0; i < 6; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < 6; ++j) sum += weights[6 * i + j];
      INFO(isa << ": row " << i);
      CHECK(std::fabs(sum - 1) <= 16 * kUnit);
    }
  }
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
    std::size_t key = 0;
    std::size_t query = 15;  // "book"
    std::size_t value = 0;
    problem.key.fill([&] { return kSentence.at(key++); });
    problem.query.fill([&] { return kSentence.at(query++); });
    const Answers values = {0, -0.2, 0.3, 0.4, 0, 0.1};
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
  check_weights(problem, HEED_WEIGHTS_SCORES, {2, 4, 4, 4, 16, 12, 4, 12, 10}, 0);
  check_weights(problem, HEED_WEIGHTS_PROBABILITIES,
                {6.33789383e-02, 4.68310531e-01, 4.68310531e-01, 6.03366485e-06, 9.82007865e-01,
                 1.79861014e-02, 2.95387223e-04, 8.80536902e-01, 1.19167711e-01},
                1e-9);
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
  for (const char* const isa : isa_names()) {
    const Numbers weights = problem.run_all(isa).weights;
    for (std::size_t j = 0; j < 4; ++j) {
      INFO(isa << ": weight " << j << " is " << weights[j]);
      CHECK(std::fabs(weights[j] - (j < 3 ? 0.16199 : 0.51402)) <= 0.5e-5 + kUnit);
    }
  }

  problem.want_nothing_else();
  problem.desc.scale = 1;
  check_weights(problem, HEED_WEIGHTS_SCORES, {0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 2}, 0);
}
