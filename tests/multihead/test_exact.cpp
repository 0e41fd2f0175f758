// Blocks of small integers, where float32 is exact: a single term left out, taken twice or read
// from elsewhere shows, whatever the size of the matrices, which bounds alone would not say.
#include <algorithm>

#include "tests/multihead/copies.hpp"
#include "tests/multihead/plain.hpp"

using namespace heed_test;

namespace {

/// Integers from -most to most.
void fill_integers(Block& block, std::uint64_t seed, std::int64_t most) {
  Random random(seed);
  const auto next = [&] { return static_cast<double>(random.integer(-most, most)); };
  block.input_query.fill(next);
  if (block.input_key) block.input_key->fill(next);
  for (WeightMatrix* const w : {&block.w_query, &block.w_key, &block.w_value, &*block.w_out}) {
    w->each([&](Index m, Index i, Index o) { w->set(m, i, o, next()); });
    if (w->bias) w->bias->fill(next);
  }
}

void check_scores(const Plain& want, const Numbers& got) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < want.scores.size(); ++i) wrong += got[i] == want.scores[i] ? 0 : 1;
  CHECK(wrong == 0);
}

void check_out(const Plain& want, const Numbers& got) {
  const std::size_t width = want.out.size() / want.tied.size();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < want.out.size(); ++i)
    wrong += got[i] == want.out[i] || want.tied[i / width] ? 0 : 1;
  CHECK(wrong == 0);
}

std::vector<IsaContexts> contexts_of_products() {
  std::vector<IsaContexts> all;
  for (std::size_t i = 0; i < heed_product_count(); ++i) {
    Choices choices;
    choices.product = heed_product_name(i);
    all.emplace_back(choices);
  }
  return all;
}

}  // namespace

TEST_CASE("blocks of integers are exact", "[exact]") {
  const std::vector<IsaContexts> products = contexts_of_products();
  struct Size {
    Index rows, width, heads, key_heads, features, value_features, out;
  };
  // Around the 16 features out and 128 features in of a step, and more than a task of each.
  std::size_t index = 0;
  for (const Size& s : {Size{1, 128, 1, 1, 16, 16, 16}, Size{25, 129, 3, 1, 11, 17, 15},
                        Size{24, 127, 2, 2, 33, 7, 129}, Size{50, 300, 4, 2, 20, 40, 100},
                        Size{7, 1000, 6, 3, 40, 24, 600}, Size{100, 40, 8, 8, 8, 16, 31}})
    for (const bool prepared : {false, true})
      for (const Arrangement arrangement : {Arrangement::kDefault, Arrangement::kTransposed}) {
        if (!keep(index++)) continue;
        BlockChoice choice;
        choice.self = index % 3 != 0;
        choice.width_query = choice.width_key = s.width;
        choice.width_out = s.out;
        for (MatrixChoice* const w : matrices_of(choice)) {
          w->arrangement = arrangement;
          w->prepared = prepared;
        }
        Block block = plain_block(s.rows, s.rows, s.heads, s.features, choice, 2, s.key_heads,
                                  s.value_features);
        fill_integers(block, index, s.width > 500 ? 2 : 3);
        block.attention.desc.scale = 1;
        block.attention.desc.hard = 1;
        const Plain want = plainly(block);
        REQUIRE(want.largest < 0x1p24);  // what float32 holds
        REQUIRE(std::count(want.tied.begin(), want.tied.end(), false) > s.rows);
        for (const IsaContexts& contexts : products)
          for (std::size_t n = 0; n < contexts.size(); ++n) {
            INFO(IsaContexts::name(n) << ": " << line_of(block));
            block.attention.want_weights(HEED_WEIGHTS_SCORES);
            const Outputs both = block.run_all(contexts[n]);
            check_scores(want, both.weights);
            check_out(want, both.out);
            block.attention.want_nothing_else();  // which may take other ways
            check_out(want, block.run_all(contexts[n]).out);
          }
      }
}
