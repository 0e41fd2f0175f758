// Blocks of small integers, where float32 is exact: a single term left out, taken twice or read
// from elsewhere shows, whatever the size of the matrices, which bounds alone would not say.
#include "tests/multihead/copies.hpp"

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
    w->bias->fill(next);
  }
}

void check_exact(const char* what, const Numbers& got, const std::vector<Element>& want) {
  REQUIRE(got.size() == want.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < want.size(); ++i) wrong += got[i] == want[i].value ? 0 : 1;
  INFO(what);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("blocks of integers are exact", "[exact]") {
  struct Size {
    Index rows, keys, width, heads, key_heads, features, value_features, out;
  };
  // Around the 16 features out and 128 features in of a step, and more than a task of each. At an
  // infinite temperature a head is the mean of its values: exact, for keys are powers of two.
  std::size_t index = 0;
  for (const Size& s : {Size{1, 1, 128, 1, 1, 16, 16, 16}, Size{25, 32, 129, 3, 1, 11, 17, 15},
                        Size{24, 16, 127, 2, 2, 33, 7, 129}, Size{50, 64, 300, 4, 2, 20, 40, 100},
                        Size{7, 8, 1000, 6, 3, 40, 24, 600}, Size{64, 64, 40, 8, 8, 8, 16, 31}})
    for (const bool prepared : {false, true})
      for (const Arrangement arrangement : {Arrangement::kDefault, Arrangement::kTransposed}) {
        if (!keep(index++)) continue;
        BlockChoice choice;
        choice.self = s.rows == s.keys && index % 3 != 0;
        choice.width_query = choice.width_key = s.width;
        choice.width_out = s.out;
        for (MatrixChoice* const w : matrices_of(choice)) {
          w->arrangement = arrangement;
          w->prepared = prepared;
        }
        Block block = plain_block(s.rows, s.keys, s.heads, s.features, choice, 2, s.key_heads,
                                  s.value_features);
        fill_integers(block, index, s.width > 500 ? 2 : 3);
        block.attention.desc.scale = 1;
        block.attention.desc.temperature = kInfinity;
        block.attention.want_weights(HEED_WEIGHTS_SCORES);
        const Expected want = block.expected();
        for (std::size_t i = 0; i < heed_product_count(); ++i) {
          Choices choices;
          choices.product = heed_product_name(i);
          for (const char* const isa : isa_names()) {
            INFO(isa << ", " << choices.product << ": " << line_of(block));
            const Context context = make_context(isa, choices);
            block.attention.want_weights(HEED_WEIGHTS_SCORES);
            const Outputs both = block.run_all(context);
            check_exact("scores", both.weights, want.weights);
            check_exact("out", both.out, want.out);
            block.attention.want_nothing_else();  // which may take other ways
            check_exact("out alone", block.run_all(context).out, want.out);
          }
        }
      }
}
