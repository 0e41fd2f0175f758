#include "perf/tensors.hpp"

#include <cmath>

namespace heed::perf {
namespace {

constexpr double kMaskedIn = 0.9;  // of a random mask

template <class Real>
void favour_later_keys(const heed_score_tile& tile) {
  auto* const scores = static_cast<Real*>(tile.scores);
  for (std::int64_t j = 0; j < tile.keys; ++j)
    for (std::int64_t r = 0; r < tile.rows; ++r)
      scores[j * tile.stride_key + r] +=
          static_cast<Real>(kNearness) * static_cast<Real>(tile.first_key + j - tile.query_rows[r]);
}

void score_function(void* /*user*/, const heed_score_tile* tile) {
  if (tile->dtype == HEED_DTYPE_F64)
    favour_later_keys<double>(*tile);
  else
    favour_later_keys<float>(*tile);
}

/// The function adds what does not depend on the score: gradients pass as they are.
void score_gradient(void* /*user*/, const heed_score_tile* /*tile*/, void* /*gradients*/) {}

using Score = oracle::WideScore;

const oracle::ScoreFunction kLaterKeys = {
    "later keys", score_function,
    [](const Score& score, const oracle::Place& at, long double unit) {
      const long double value = score.value + static_cast<long double>(kNearness) *
                                                  static_cast<long double>(at.key - at.row);
      return Score{value, score.bound + unit * (std::fabs(value) + score.bound)};
    },
    score_gradient,
    [](const Score&, const oracle::Place&, long double) {
      return Score{1, 0};
    }};

/// Keys, values and their scales in the pages of a pool.
void lay_in_pages(const Workload& w, oracle::Problem& p) {
  const oracle::Arrangement lies =
      w.nhd ? oracle::Arrangement::kRowsOutside : oracle::Arrangement::kDefault;
  const auto pool = [&](Tensor& rows) {
    rows = oracle::placed({w.desc.pages, w.desc.key_heads, w.desc.page_rows, rows.shape()[3]}, lies,
                          rows.dtype(), 0);
  };
  pool(p.key);
  pool(p.value);
  if (w.desc.key.dtype != HEED_DTYPE_I8) return;
  pool(*p.key_scales);
  pool(*p.value_scales);
}

oracle::Axes sizes_of(const heed_score_layout& layout) {
  return {layout.batch, layout.heads, layout.rows, layout.keys};
}

void add_to_scores(const Workload& w, oracle::Problem& p) {
  oracle::Random random(4);
  if (w.padding)
    p.add_mask(sizes_of(w.desc.mask)).fill([&](const oracle::Axes& at) {
      return at[3] < unpadded_keys(w) ? 1 : 0;
    });
  else if (w.mask)
    p.add_mask(sizes_of(w.desc.mask)).fill([&] { return random.unit() < kMaskedIn ? 1 : 0; });
  if (w.bias) p.add_bias(sizes_of(w.desc.bias)).fill([&] { return random.normal(); });
  const auto heads = static_cast<double>(w.desc.query_heads);
  for (std::int64_t h = 1; h <= w.desc.query_heads; ++h) {  // slopes of the ALiBi paper
    if (w.alibi) p.slopes.numbers.push_back(std::exp2(-8 * static_cast<double>(h) / heads));
    for (std::int64_t x = 0; w.desc.score == HEED_SCORE_ADDITIVE && x < w.desc.features; ++x)
      p.score_weights.numbers.push_back(random.normal<double>());
    if (w.sinks) p.sinks.numbers.push_back(random.normal<double>());
  }
  if (w.score_function) p.function = kLaterKeys;
}

}  // namespace

oracle::Problem problem_of(const Workload& w, std::uint64_t seed) {
  const heed_attention_desc& d = w.desc;
  oracle::Sizes sizes = {d.query_length, d.pages != 0 ? 1 : d.key_length,
                         d.features,     d.value_features,
                         d.batch,        d.query_heads,
                         d.key_heads};
  sizes.types = {d.query.dtype, d.key.dtype, d.value.dtype, d.out.dtype};
  sizes.queries.offsets = w.query_begins;
  sizes.keys.offsets = w.key_begins;
  oracle::Problem p(sizes);
  if (d.pages != 0) lay_in_pages(w, p);
  p.desc = d;
  p.fill(seed);
  add_to_scores(w, p);
  if (w.lse) p.want_lse();
  std::vector<std::int64_t> rows;
  for (std::int64_t r = 0; r < d.weight_rows; ++r)
    rows.push_back(r * d.query_length / d.weight_rows);
  if (d.weights_point != HEED_WEIGHTS_NONE)
    p.want_weights(HEED_WEIGHTS_PROBABILITIES, HEED_DTYPE_DEFAULT, oracle::Arrangement::kDefault,
                   rows);
  if (d.sum_columns != 0) p.want_column_sums();
  p.key_lengths = w.key_lengths;
  p.block_table = w.block_table;
  return p;
}

Layers layers_of(const Workload& w) {
  Layers layers;
  layers.reserve(static_cast<std::size_t>(w.layers));
  for (std::int64_t layer = 1; layer <= w.layers; ++layer)
    layers.push_back(problem_of(w, static_cast<std::uint64_t>(layer)));
  return layers;
}

heed_attention_args args_of(Layers& layers, std::size_t layer) {
  heed_attention_args args = layers[0].args();
  const heed_attention_args own = layers[layer].args();
  args.key = own.key;
  args.value = own.value;
  args.key_scales = own.key_scales;
  args.value_scales = own.value_scales;
  return args;
}

}  // namespace heed::perf
