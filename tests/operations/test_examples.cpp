// The worked examples that heed grew from, with their known answers: as rows that are attended, and
// as inputs that a block multiplies with its matrices first.
#include "tests/operations/operations.hpp"
#include "tests/oracle/rounding.hpp"

using namespace heed_test;

namespace {

using Answers = std::vector<double>;

/// In the order of their elements.
void copy(const Answers& from, Tensor& to) {
  std::size_t i = 0;
  to.fill([&] { return from.at(i++); });
}
void copy(const Answers& from, WeightMatrix& to) {
  std::size_t i = 0;
  to.each([&](Index m, Index in, Index out) { to.set(m, in, out, from.at(i++)); });
}

/// Answers printed to `digit` are off by half of it at most.
void check_numbers(const char* isa, const Numbers& got, const std::vector<Element>& want,
                   const Answers& answers, double digit) {
  REQUIRE(got.size() == answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    INFO(isa << ": element " << i << " is " << got[i] << ", expected " << answers[i]);
    CHECK(std::fabs(got[i] - answers[i]) <= want[i].bound + digit / 2);
  }
}

Problem& attention_of(Problem& p) { return p; }
Problem& attention_of(Block& block) { return block.attention; }

/// Compares out, or the weights at some point on the way, with answers; of weights those of these
/// rows.
template <class Runnable>
void check_answers(Runnable& p, const Answers& answers, double digit,
                   heed_weights_point point = HEED_WEIGHTS_NONE,
                   const std::vector<Index>& rows = {}) {
  const bool weights = point != HEED_WEIGHTS_NONE;
  attention_of(p).want_nothing_else();
  if (weights) attention_of(p).want_weights(point, HEED_DTYPE_DEFAULT, Arrangement::kDefault, rows);
  const Expected want = p.expected();
  for (const char* const isa : isa_names()) {
    const Outputs got = p.run_all(isa);
    check_results(isa, run(p, make_context(isa)), wanted(want), isa);
    check_numbers(isa, weights ? got.weights : got.out, weights ? want.weights : want.out, answers,
                  digit);
  }
}

// ---- The sentence ----

/// "The sleepy child reads a book": one vector for each of its six words.
const Answers kSentence = {0, 0, 0, 2, 0, 1, 1, -1, -2, 2, 3, 1, -2, 0, 0, 0, 2, 1};
const Answers kValues = {0, -0.2, 0.3, 0.4, 0, 0.1};

/// What "book" finds, asked as a vector, in tensors of a type.
Problem sentence(std::uint32_t dtype = HEED_DTYPE_F32) {
  Sizes sizes = {1, 6, 3, 1};
  sizes.types = all_of(dtype);
  Problem p(sizes);
  copy({0, 2, 1}, p.query);
  copy(kSentence, p.key);
  copy(kValues, p.value);
  p.desc.scale = 1;
  return p;
}

/// Answers to the sentence printed to nine digits. The values themselves, such as 0.1, are rounded
/// to float32: off by kUnit of 0.4 at most.
constexpr double kDigit = 1e-9 + kUnit;

const Answers kSoft = {8.00138959e-4, 2.17500319e-3, 1.46550562e-5,
                       0.877458913,   8.00138959e-4, 0.118751151};

// ---- Inputs that are multiplied with small integers, which is exact ----

struct Inputs {
  const char* name;
  Index rows, width;
  double scale;  ///< 0: 1 / sqrt(3), by the features of a key
  Answers x, w_query, w_key, w_value;
  Answers out, scores, probs;  ///< probs: of all rows, or of the first
};

/// Each of these rows times a matrix of three columns.
Answers project(const Answers& rows, const Answers& matrix, Index width) {
  const auto features = static_cast<std::size_t>(width);
  Answers projected(rows.size() / features * 3, 0);
  for (std::size_t i = 0; i < projected.size(); ++i)
    for (std::size_t f = 0; f < features; ++f)
      projected[i] += rows[i / 3 * features + f] * matrix[f * 3 + i % 3];
  return projected;
}

std::vector<Inputs> all_inputs() {
  const double two = 2 / std::sqrt(3.0);
  return {{"four words",
           4,
           3,
           0,
           {1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1},
           {2, 0, 0, 0, 0, 1, 2, 0, 0},
           {0, 1, 0, 0, 2, 0, 1, 0, 2},
           {1, 1, 1, 1, 1, 1, 2, 2, 0},
           {1.67601226, 1.67601226, 0.64797548, 1.67601226, 1.67601226, 0.64797548, 1.84695899,
            1.84695899, 0.30608202, 1.67601226, 1.67601226, 0.64797548},
           {0, 0, 0, two, 0, 0, 0, two, 0, 0, 0, 2 * two, 0, 0, 0, two},
           {0.16199387, 0.16199387, 0.16199387, 0.51401839}},
          {"three inputs of four features",
           3,
           4,
           1,
           {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1},
           {1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1},
           {0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0},
           {0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0},
           {1.93662106, 6.68310531, 1.59506841, 1.99999397, 7.9639916, 0.05397641, 1.99970461,
            7.75989225, 0.35838929},
           {2, 4, 4, 4, 16, 12, 4, 12, 10},
           {6.33789383e-02, 4.68310531e-01, 4.68310531e-01, 6.03366485e-06, 9.82007865e-01,
            1.79861014e-02, 2.95387223e-04, 8.80536902e-01, 1.19167711e-01}}};
}

/// The rows that attention is given.
Problem attended(const Inputs& in) {
  Problem p({in.rows, in.rows, 3, 3});
  copy(project(in.x, in.w_query, in.width), p.query);
  copy(project(in.x, in.w_key, in.width), p.key);
  copy(project(in.x, in.w_value, in.width), p.value);
  p.desc.scale = in.scale;
  return p;
}

/// One head, whose result stays as it is: W_out is the identity.
Block multiplied(const Inputs& in) {
  heed_multihead_desc desc = block_desc(HEED_DTYPE_DEFAULT, in.width);
  desc.width_out = 3;
  Block block = plain_block(in.rows, 0, 1, 3, desc);
  for (WeightMatrix* const w : block.matrices()) w->bias.reset();
  block.attention.desc.scale = in.scale;
  copy(in.x, block.input_query);
  copy(in.w_query, block.w_query);
  copy(in.w_key, block.w_key);
  copy(in.w_value, block.w_value);
  block.w_out->fill_identity();
  return block;
}

/// Every row, asked as a vector query, gives the bits that it has among the others.
void check_vector_queries(Problem& p) {
  const heed_attention_desc& d = p.desc;
  on_every_isa(p, [&](const Outputs& rows, std::size_t n) {
    for (Index i = 0; i < d.query_length; ++i) {
      Problem vector({1, d.key_length, d.features, d.value_features});
      vector.query.fill([&](const Axes& at) { return p.query.get({0, 0, i, at[3]}); });
      vector.key.assign(p.key);
      vector.value.assign(p.value);
      vector.desc.scale = d.scale;
      const auto row = rows.out.bits.begin() + i * d.value_features;
      INFO("row " << i);
      CHECK(same_bits(vector.run_all(IsaContexts::name(n)).out,
                      {rows.out.dtype, {row, row + d.value_features}}));
    }
  });
}

}  // namespace

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
    Problem p = sentence();
    p.desc.scale = c.scale;
    p.desc.temperature = c.temperature;
    p.desc.hard = c.hard;
    check_answers(p, {c.answer}, kDigit);
    if (!c.weights.empty())
      check_answers(p, c.weights, c.weights == kSoft ? 1e-9 : 0, HEED_WEIGHTS_PROBABILITIES);
  }
  Problem scores = sentence();
  check_answers(scores, {0, 1, -4, 7, 0, 5}, 0, HEED_WEIGHTS_SCORES);
}

TEST_CASE("the sentence, every word a query: its last row is the vector query", "[examples]") {
  // Six queries of three features: it is the features that the default scale counts.
  Problem p({6, 6, 3, 1});
  copy(kSentence, p.query);
  copy(kSentence, p.key);
  copy(kValues, p.value);
  const Element want = p.expected().out.back();
  on_every_isa(p, [&](const Outputs& got) {
    INFO(got.out[5]);
    CHECK(std::fabs(got.out[5] - 0.307789757) <= want.bound + kDigit / 2);
  });
  check_vector_queries(p);
}

TEST_CASE("the sentence, in other types", "[examples]") {
  struct Case {
    std::uint32_t dtype;
    double digit;  // a rounding of the values and one of the result
  };
  for (const Case c : {Case{HEED_DTYPE_F64, 1e-9}, Case{HEED_DTYPE_BF16, 2 * 0x1p-8},
                       Case{HEED_DTYPE_F16, 2 * 0x1p-11}}) {
    INFO(name_of_dtype(c.dtype));
    Problem p = sentence(c.dtype);
    check_answers(p, {0.362428076}, c.digit);
  }
}

TEST_CASE("inputs and their matrices, as rows and as a block", "[examples]") {
  for (const Inputs& in : all_inputs()) {
    INFO(in.name);
    Problem rows = attended(in);
    Block block = multiplied(in);
    const auto check = [&](const Answers& answers, double digit,
                           heed_weights_point point = HEED_WEIGHTS_NONE,
                           const std::vector<Index>& listed = {}) {
      check_answers(rows, answers, digit, point, listed);
      check_answers(block, answers, digit, point, listed);
    };
    check(in.out, 1e-8);
    check(in.scores, 0, HEED_WEIGHTS_SCORES);
    const bool first = in.probs.size() < in.scores.size();
    check(in.probs, 1e-8, HEED_WEIGHTS_PROBABILITIES,
          first ? std::vector<Index>{0} : std::vector<Index>{});
    rows.want_nothing_else();
    check_vector_queries(rows);
  }
}
