// Blocks of small integers, where float32 is exact: a single term left out, taken twice or read
// from elsewhere shows, whatever the size of the matrices, which bounds alone would not say.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tests/multihead/checks.hpp"

using namespace heed_test;

namespace {

using Integers = std::vector<std::int64_t>;

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

/// Rows of item b times a matrix, [row][out].
Integers project(const Tensor& input, Index b, const WeightMatrix& w) {
  const auto rows = static_cast<std::size_t>(input.shape()[2]);
  const auto width = static_cast<std::size_t>(w.out());
  Integers y(rows * width);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t o = 0; o < width; ++o)
      if (w.bias) y[i * width + o] = std::llround(w.bias->get({0, 0, 0, static_cast<Index>(o)}));
  for (Index f = 0; f < w.in(); ++f)
    for (std::size_t o = 0; o < width; ++o) {
      const auto element = std::llround(w.get(0, f, static_cast<Index>(o)));
      for (std::size_t i = 0; i < rows; ++i)
        y[i * width + o] += std::llround(input.get({b, 0, static_cast<Index>(i), f})) * element;
    }
  return y;
}

/// What such a block gives with a scale of 1 and hard attention.
class Exact {
 public:
  std::vector<double> scores;  ///< [batch, head, row, key]
  std::vector<double> out;     ///< [batch, row, feature]
  std::vector<bool> sure;      ///< of every row of out: no two keys share a largest score
  double largest = 0;          ///< of the sums of |terms| of a score

  explicit Exact(const Block& block)
      : d_(block.attention.desc),
        heads_(size(d_.query_heads)),
        key_heads_(size(block.key_heads())),
        features_(size(d_.features)),
        width_(size(block.head_width())) {
    const Tensor& input_key = block.input_key ? *block.input_key : block.input_query;
    for (Index b = 0; b < d_.batch; ++b) {
      q_ = project(block.input_query, b, block.w_query);
      k_ = project(input_key, b, block.w_key);
      v_ = project(input_key, b, block.w_value);
      attend(block);
    }
  }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  /// One item of the batch.
  void attend(const Block& block) {
    const std::size_t rows = size(d_.query_length);
    const std::size_t first = sure.size();
    sure.resize(first + rows, true);
    std::vector<Integers> heads(rows);
    for (std::size_t h = 0; h < heads_; ++h)
      for (std::size_t i = 0; i < rows; ++i) {
        const Integers row = score(h, i);
        scores.insert(scores.end(), row.begin(), row.end());
        const auto best = std::max_element(row.begin(), row.end());
        if (std::count(row.begin(), row.end(), *best) > 1) sure[first + i] = false;
        const auto value = v_.begin() + (best - row.begin()) * step(key_heads_ * width_) +
                           step(key_head(h) * width_);
        heads[i].insert(heads[i].end(), value, value + step(width_));
      }
    for (const Integers& row : heads) combine(row, *block.w_out);
  }

  static std::ptrdiff_t step(std::size_t n) { return static_cast<std::ptrdiff_t>(n); }
  std::size_t key_head(std::size_t h) const { return h / (heads_ / key_heads_); }

  Integers score(std::size_t h, std::size_t i) {
    Integers row(size(d_.key_length), 0);
    const std::int64_t* const q = &q_[(i * heads_ + h) * features_];
    for (std::size_t j = 0; j < row.size(); ++j) {
      const std::int64_t* const k = &k_[(j * key_heads_ + key_head(h)) * features_];
      std::int64_t sum = 0;
      for (std::size_t x = 0; x < features_; ++x) {
        row[j] += q[x] * k[x];
        sum += std::llabs(q[x] * k[x]);
      }
      largest = std::max(largest, static_cast<double>(sum));
    }
    return row;
  }

  void combine(const Integers& heads, const WeightMatrix& w) {
    for (Index o = 0; o < w.out(); ++o) {
      double sum = w.bias ? w.bias->get({0, 0, 0, o}) : 0;
      for (std::size_t x = 0; x < heads.size(); ++x)
        sum += static_cast<double>(heads[x]) * w.get(0, static_cast<Index>(x), o);
      out.push_back(sum);
    }
  }

  const heed_attention_desc& d_;
  const std::size_t heads_, key_heads_, features_, width_;
  Integers q_, k_, v_;  ///< of the item, [row][head][feature]
};

void check_scores(const Exact& want, const Numbers& got) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < want.scores.size(); ++i) wrong += got[i] == want.scores[i] ? 0 : 1;
  CHECK(wrong == 0);
}

void check_out(const Exact& want, const Numbers& got) {
  const std::size_t width = want.out.size() / want.sure.size();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < want.out.size(); ++i)
    wrong += got[i] == want.out[i] || !want.sure[i / width] ? 0 : 1;
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
        for (MatrixChoice* const w :
             {&choice.w_query, &choice.w_key, &choice.w_value, &choice.w_out}) {
          w->arrangement = arrangement;
          w->prepared = prepared;
        }
        Block block = plain_block(s.rows, s.rows, s.heads, s.features, choice, 2, s.key_heads,
                                  s.value_features);
        fill_integers(block, index, s.width > 500 ? 2 : 3);
        block.attention.desc.scale = 1;
        block.attention.desc.hard = 1;
        const Exact want(block);
        REQUIRE(want.largest < 0x1p24);  // what float32 holds
        REQUIRE(2 * std::count(want.sure.begin(), want.sure.end(), true) > 2 * s.rows);
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
