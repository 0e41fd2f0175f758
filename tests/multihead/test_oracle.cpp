// The oracle of blocks: that it says what a few plain loops say, and that its bounds are narrow
// enough to catch what goes wrong in blocks.
#include <algorithm>
#include <functional>

#include "tests/multihead/checks.hpp"
#include "tests/multihead/plain.hpp"

using namespace heed_test;

namespace {

Block block_of(std::uint32_t combine, std::uint32_t dtype) {
  BlockChoice choice = choice_of(dtype);
  choice.combine = combine;
  choice.width_query = 14;
  choice.width_key = 11;
  choice.width_out = 9;
  Block block = plain_block(13, 17, 4, 7, choice, 2, 2, 5);
  block.fill(7 + combine);
  block.attention.want_lse();
  block.attention.want_weights(HEED_WEIGHTS_SCORES);
  return block;
}

// ---- Mistakes ----

/// Two heads' columns of a matrix change places.
void swap_columns(WeightMatrix& w, Index width) {
  for (Index i = 0; i < w.in(); ++i)
    for (Index x = 0; x < width; ++x) {
      const double first = w.get(0, i, x);
      w.set(0, i, x, w.get(0, i, width + x));
      w.set(0, i, width + x, first);
    }
}

void forget_input(WeightMatrix& w, Index i) {
  for (Index o = 0; o < w.out(); ++o) w.set(0, i, o, 0);
}

void forget_bias(WeightMatrix& w) { w.bias.reset(); }

void round_inputs(Tensor& input) {
  input.each([&](const Axes& at) {
    input.set(at, decode(HEED_DTYPE_BF16, encode(HEED_DTYPE_BF16, input.get(at))));
  });
}

/// Rows of W_out as if heads lay inside features.
void interleave(WeightMatrix& w, Index heads) {
  const WeightMatrix before = w;
  const Index width = w.in() / heads;
  for (Index h = 0; h < heads; ++h)
    for (Index x = 0; x < width; ++x)
      for (Index o = 0; o < w.out(); ++o)
        w.set(0, x * heads + h, o, before.get(0, h * width + x, o));
}

struct Mistake {
  const char* name;
  std::function<void(Block&)> make;
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      {"heads of W_query swapped", [](Block& b) { swap_columns(b.w_query, 7); }},
      {"heads of W_key swapped", [](Block& b) { swap_columns(b.w_key, 7); }},
      {"heads of W_value swapped", [](Block& b) { swap_columns(b.w_value, 5); }},
      {"b_query forgotten", [](Block& b) { forget_bias(b.w_query); }},
      {"b_key forgotten", [](Block& b) { forget_bias(b.w_key); }},
      {"b_value forgotten", [](Block& b) { forget_bias(b.w_value); }},
      {"the last input of W_query forgotten", [](Block& b) { forget_input(b.w_query, 13); }},
      {"the first input of W_key forgotten", [](Block& b) { forget_input(b.w_key, 0); }},
      {"the last input of W_value forgotten", [](Block& b) { forget_input(b.w_value, 10); }},
      {"scaled by the width", [](Block& b) { b.attention.desc.scale = 1 / std::sqrt(14.0); }},
      {"scaled twice", [](Block& b) { b.attention.desc.scale = 1 / 7.0; }},
      {"queries rounded to 16 bits", [](Block& b) { round_inputs(b.input_query); }},
      {"keys rounded to 16 bits", [](Block& b) { round_inputs(*b.input_key); }}};
  return all;
}

/// What a mistake in the combiner makes of it.
std::vector<Mistake> mistakes_of(std::uint32_t combine) {
  std::vector<Mistake> all = mistakes();
  if (has_w_out(combine)) {
    all.push_back({"b_out forgotten", [](Block& b) { forget_bias(*b.w_out); }});
    all.push_back({"an input of W_out forgotten", [](Block& b) { forget_input(*b.w_out, 3); }});
  }
  if (combine == HEED_COMBINE_CONCAT)
    all.push_back({"heads inside features", [](Block& b) { interleave(*b.w_out, 4); }});
  if (combine == HEED_COMBINE_TENSOR)
    all.push_back({"one matrix for all heads", [](Block& b) {
                     b.w_out->each([&](Index m, Index i, Index o) {
                       b.w_out->set(m, i, o, b.w_out->get(0, i, o));
                     });
                   }});
  if (combine == HEED_COMBINE_WEIGHTED)
    all.push_back({"head_weights in another order", [](Block& b) {
                     std::reverse(b.head_weights.numbers.begin(), b.head_weights.numbers.end());
                   }});
  return all;
}

/// What a run would give that computes `expected` without errors of its own.
Numbers numbers_of(const std::vector<Element>& expected, std::uint32_t dtype) {
  Numbers numbers{dtype, {}};
  for (const Element& e : expected) numbers.bits.push_back(encode(dtype, e.value));
  return numbers;
}

/// The worst error / bound of `got` where `want` is right.
double worst(const Expected& got, const Expected& want, const Block& block) {
  const std::uint32_t real = block.real;
  return std::max({compare(numbers_of(got.out, block.out.dtype()), want.out).ratio,
                   compare(numbers_of(got.lse, real), want.lse).ratio,
                   compare(numbers_of(got.weights, real), want.weights).ratio});
}

}  // namespace

TEST_CASE("the oracle says what plain loops say", "[oracle]") {
  for (const std::uint32_t combine : kCombiners) {
    Block block = block_of(combine, HEED_DTYPE_F32);
    const std::vector<Element> want = block.expected().out;
    const std::vector<double> plain = plainly(block).out;
    REQUIRE(plain.size() == want.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      INFO(name_of_combine(combine) << ", element " << i);
      CHECK(std::fabs(plain[i] - want[i].value) < 1e-12);
    }
  }
}

TEST_CASE("the bounds of the oracle catch mistakes", "[oracle]") {
  for (const std::uint32_t combine : kCombiners)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
      Block block = block_of(combine, dtype);
      const Expected want = block.expected();
      CHECK(worst(want, want, block) <= 1);
      for (const Mistake& mistake : mistakes_of(combine)) {
        INFO(name_of_combine(combine) << ", " << name_of_dtype(dtype) << ": " << mistake.name);
        Block wrong = block;
        mistake.make(wrong);
        CHECK(worst(wrong.expected(), want, block) > 30);
      }
    }
}

// As perf looks at blocks that are too large for more.
TEST_CASE("the oracle looks at single rows, and takes projections for exact if asked", "[oracle]") {
  for (const std::uint32_t combine : kCombiners) {
    Block block = block_of(combine, HEED_DTYPE_F32);
    const std::vector<Element> all = block.expected().out;
    GivenBlock given = block.given();
    given.rows = {2, 12};
    given.exact_projections = true;
    const std::vector<Element> some = expect(given).out;
    REQUIRE(some.size() == all.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Index row = static_cast<Index>(i) / block.out.shape()[3] % 13;
      INFO(name_of_combine(combine) << ", element " << i << ", row " << row);
      REQUIRE(some[i].written == (row == 2 || row == 12));
      if (!some[i].written) continue;
      CHECK(std::fabs(some[i].value - all[i].value) < 1e-12);
      CHECK(some[i].bound < all[i].bound);
    }
  }
}

TEST_CASE("the wrong key head is another result", "[oracle]") {
  // 4 query heads over 2 key heads, written out as 4 key heads: h / 2 is right, h % 2 wrong.
  for (const bool right : {true, false}) {
    Block grouped = block_of(HEED_COMBINE_CONCAT, HEED_DTYPE_F32);
    Block written = plain_block(13, 17, 4, 7, grouped.choice, 2, 4, 5);
    written.input_query = Tensor(grouped.input_query);
    written.input_key.emplace(*grouped.input_key);
    written.w_query = WeightMatrix(grouped.w_query);
    written.w_out.emplace(*grouped.w_out);
    const auto repeat = [&](const WeightMatrix& from, WeightMatrix& to, Index width) {
      const auto column = [&](Index o) {
        const Index h = o / width;
        return (right ? h / 2 : h % 2) * width + o % width;
      };
      to.each([&](Index m, Index i, Index o) { to.set(m, i, o, from.get(m, i, column(o))); });
      for (Index o = 0; o < to.out(); ++o)
        to.bias->set({0, 0, 0, o}, from.bias->get({0, 0, 0, column(o)}));
    };
    repeat(grouped.w_key, written.w_key, 7);
    repeat(grouped.w_value, written.w_value, 5);
    const double ratio =
        compare(numbers_of(written.expected().out, HEED_DTYPE_F64), grouped.expected().out).ratio;
    CHECK((right ? ratio <= 1e-3 : ratio > 30));
  }
}

TEST_CASE("the bounds of the oracle are narrow", "[oracle]") {
  // Every rounding of three products and a softmax, all in the worst direction.
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const Index length : {7, 77}) {
      BlockChoice choice = choice_of(dtype);
      choice.self = true;
      choice.width_query = choice.width_key = choice.width_out = 64;
      Block block = plain_block(length, length, 4, 16, choice);
      block.fill(3);
      double loosest = 0;
      for (const Element& e : block.expected().out) loosest = std::max(loosest, e.bound);
      report("loosest bound / unit", name_of_dtype(dtype), loosest / format_of(dtype).unit);
      CHECK(loosest < 1e5 * format_of(dtype).unit);
    }
}
