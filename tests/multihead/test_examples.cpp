// The worked examples that project their inputs themselves, with their known answers.
#include "tests/multihead/copies.hpp"
#include "tests/multihead/plain.hpp"

using namespace heed_test;

namespace {

using Answers = std::vector<double>;

void copy(const std::vector<double>& from, Tensor& to) {
  std::size_t i = 0;
  to.fill([&] { return from.at(i++); });
}

void copy(const std::vector<double>& from, WeightMatrix& to) {
  std::size_t i = 0;
  to.each([&](Index m, Index in, Index out) { to.set(m, in, out, from.at(i++)); });
}

/// Self-attention of one head over rows, its result as it is: W_out is the identity.
Block of_rows(Index rows, Index width, const std::vector<double>& x, const std::vector<double>& w_q,
              const std::vector<double>& w_k, const std::vector<double>& w_v) {
  BlockChoice choice;
  choice.self = true;
  choice.width_query = choice.width_key = width;
  choice.width_out = 3;
  for (MatrixChoice* const w : matrices_of(choice)) w->bias = false;
  Block block = plain_block(rows, rows, 1, 3, choice);
  copy(x, block.input_query);
  copy(w_q, block.w_query);
  copy(w_k, block.w_key);
  copy(w_v, block.w_value);
  block.w_out->fill_identity();
  return block;
}

/// Answers printed to `digit` are off by half of it at most.
void check_numbers(const std::string& what, const Numbers& got, const std::vector<Element>& want,
                   const Answers& answers, double digit) {
  REQUIRE(got.size() == answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    INFO(what << ", element " << i << " is " << got[i] << ", expected " << answers[i]);
    CHECK(std::fabs(got[i] - answers[i]) <= want[i].bound + digit / 2);
  }
}

void check_answers(Block& block, const Answers& out, heed_weights_point point,
                   const Answers& weights) {
  block.attention.want_weights(point);
  const Expected want = block.expected();
  for (const char* const isa : isa_names()) {
    const Outputs got = block.run_all(isa);
    check_outputs(block, isa, got, want);
    check_numbers(std::string(isa) + ": out", got.out, want.out, out, 1e-8);
    check_numbers(std::string(isa) + ": weights", got.weights, want.weights, weights, 1e-8);
  }
}

// ---- Four words through W_Q, W_K and W_V ----

Block four_words() {
  return of_rows(4, 3, {1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 2, 0, 0},
                 {0, 1, 0, 0, 2, 0, 1, 0, 2}, {1, 1, 1, 1, 1, 1, 2, 2, 0});
}

/// What the words find.
const Answers kWords = {1.67601226, 1.67601226, 0.64797548, 1.67601226, 1.67601226, 0.64797548,
                        1.84695899, 1.84695899, 0.30608202, 1.67601226, 1.67601226, 0.64797548};

// ---- Three inputs of four features, scale 1 ----

Block three_inputs() {
  Block block =
      of_rows(3, 4, {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1}, {1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1},
              {0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0}, {0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0});
  block.attention.desc.scale = 1;
  return block;
}

const Answers kInputs = {1.93662106, 6.68310531, 1.59506841, 1.99999397, 7.9639916,
                         0.05397641, 1.99970461, 7.75989225, 0.35838929};

// ---- Two heads over eleven inputs, combined by a weight for each ----

/// x [11, 4], heads of 4 features and values of 2, no biases.
Block two_heads(std::uint32_t combine) {
  BlockChoice choice;
  choice.combine = combine;
  choice.self = true;
  choice.width_query = choice.width_key = 4;
  choice.width_out = 2;
  for (MatrixChoice* const w : matrices_of(choice)) w->bias = false;
  Block block = plain_block(11, 11, 2, 4, choice, 1, 2, 2);
  block.fill(4, 2);
  return block;
}

/// Head h of it, alone and as it is.
Block one_head(const Block& both, Index h) {
  BlockChoice choice = both.choice;
  choice.combine = HEED_COMBINE_MEAN;
  Block block = plain_block(11, 11, 1, 4, choice, 1, 1, 2);
  block.input_query = Tensor(both.input_query);
  const auto cut = [&](const WeightMatrix& from, WeightMatrix& to) {
    to.each([&](Index m, Index i, Index o) { to.set(m, i, o, from.get(m, i, h * to.out() + o)); });
  };
  cut(both.w_query, block.w_query);
  cut(both.w_key, block.w_key);
  cut(both.w_value, block.w_value);
  return block;
}

}  // namespace

TEST_CASE("four words through their matrices", "[examples]") {
  Block block = four_words();
  const double unit = 1 / std::sqrt(3.0);
  const double two = 2 * unit;
  const double four = 4 * unit;
  check_answers(block, kWords, HEED_WEIGHTS_SCORES,
                {0, 0, 0, two, 0, 0, 0, two, 0, 0, 0, four, 0, 0, 0, two});
  block.attention.want_nothing_else();
  block.attention.want_weights(HEED_WEIGHTS_PROBABILITIES, HEED_DTYPE_DEFAULT,
                               Arrangement::kDefault, {0});
  const Expected want = block.expected();
  for (const char* const isa : isa_names())
    check_numbers(std::string(isa) + ": weights of the first word", block.run_all(isa).weights,
                  want.weights, {0.16199387, 0.16199387, 0.16199387, 0.51401839}, 1e-8);
}

TEST_CASE("every word, asked alone, gets the bits that it has among the others", "[examples]") {
  Block block = four_words();
  for (const char* const isa : isa_names()) {
    const Outputs all = block.run_all(isa);
    for (Index i = 0; i < 4; ++i) {
      BlockChoice choice = block.choice;
      choice.self = false;
      Block vector = plain_block(1, 4, 1, 3, choice);
      vector.input_query.each([&](const Axes& at) {
        vector.input_query.set(at, block.input_query.get({0, 0, i, at[3]}));
      });
      vector.input_key.emplace(block.input_query);
      copy_matrices(block, vector);
      const Numbers row = vector.run_all(isa).out;
      for (std::size_t x = 0; x < 3; ++x)
        CHECK(same_element(row, x, all.out, static_cast<std::size_t>(i) * 3 + x));
    }
  }
}

TEST_CASE("three inputs of four features", "[examples]") {
  Block block = three_inputs();
  check_answers(block, kInputs, HEED_WEIGHTS_SCORES, {2, 4, 4, 4, 16, 12, 4, 12, 10});
  check_answers(block, kInputs, HEED_WEIGHTS_PROBABILITIES,
                {6.33789383e-02, 4.68310531e-01, 4.68310531e-01, 6.03366485e-06, 9.82007865e-01,
                 1.79861014e-02, 2.95387223e-04, 8.80536902e-01, 1.19167711e-01});
}

TEST_CASE("two heads and a weight for each", "[examples]") {
  Block block = two_heads(HEED_COMBINE_WEIGHTED);
  const std::vector<double> plain = plainly(block).out;
  const Expected want = block.expected();
  for (const char* const isa : isa_names()) {
    const Outputs got = block.run_all(isa);
    check_outputs(block, isa, got, want);
    check_numbers(std::string(isa) + ", plain loops", got.out, want.out, plain, 1e-12);
    Block heads[] = {one_head(block, 0), one_head(block, 1)};
    const Numbers first = heads[0].run_all(isa).out;
    const Numbers second = heads[1].run_all(isa).out;
    for (std::size_t i = 0; i < got.out.size(); ++i) {
      const double sum = static_cast<float>(block.head_weights.numbers[0]) * first[i] +
                         static_cast<float>(block.head_weights.numbers[1]) * second[i];
      CHECK(std::fabs(got.out[i] - sum) <= 2 * want.out[i].bound);
    }
  }
  // Not what comes of dividing by the square root of how many queries there are.
  Block wrong = block;
  wrong.attention.desc.scale = 1 / std::sqrt(11.0);
  CHECK(compare(wrong.run_all(isa_names()[0]).out, want.out).ratio > 30);
}

TEST_CASE("two heads combined in every other way", "[examples]") {
  for (const std::uint32_t combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_MEAN, HEED_COMBINE_MAX,
                                      HEED_COMBINE_TENSOR, HEED_COMBINE_HEADS}) {
    Block block = two_heads(combine);
    const std::vector<double> plain = plainly(block).out;
    const Expected want = block.expected();
    for (const char* const isa : isa_names()) {
      const Outputs got = block.run_all(isa);
      check_outputs(block, isa, got, want);
      check_numbers(std::string(isa) + ", " + name_of_combine(combine), got.out, want.out, plain,
                    1e-12);
    }
  }
}
