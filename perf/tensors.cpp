#include "perf/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heed::perf {
namespace {

constexpr double kMaskedIn = 0.9;  // of a random mask

/// Rows of query and out.
std::int64_t query_rows(const heed_attention_desc& d) {
  return d.packed_queries != 0 ? d.packed_queries : d.batch * d.query_length;
}

/// Rows of key and value.
std::int64_t key_rows(const heed_attention_desc& d) {
  if (d.pages != 0) return d.pages * d.page_rows;
  return d.packed_keys != 0 ? d.packed_keys : d.batch * d.key_length;
}

std::int64_t count_of(const heed_score_layout& layout) {
  return layout.batch * layout.heads * layout.rows * layout.keys;
}

void fill_mask(std::vector<std::uint8_t>& mask, const Workload& workload) {
  Random random(4);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const std::int64_t key = static_cast<std::int64_t>(i) % workload.desc.key_length;
    mask[i] =
        (workload.padding ? key < unpadded_keys(workload) : random.with_probability(kMaskedIn)) ? 1
                                                                                                : 0;
  }
}

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

constexpr double kFloat8Scale = 0.02;

Tensor scales_of(const Tensor& stored, std::int64_t rows) {
  if (!oracle::is_scaled(stored.type())) return {};
  return {HEED_DTYPE_F32, stored.type() == HEED_DTYPE_I8 ? rows : 1};
}

/// Rows as a cache stores them: integers have a scale for every row, of its largest number.
void fill_stored(Tensor& rows, Tensor& scales, std::int64_t width, unsigned seed) {
  if (rows.type() != HEED_DTYPE_I8) {
    if (scales.size() != 0) scales.set(0, kFloat8Scale);
    return fill_random(rows, seed, scales.size() != 0 ? 1 / kFloat8Scale : 1);
  }
  Random random(seed);
  std::vector<double> row(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < scales.size(); ++i) {
    double most = 0;
    for (double& x : row)
      most = std::max(most, std::fabs(x = static_cast<double>(random.normal())));
    scales.set(i, most / 127);
    for (std::int64_t x = 0; x < width; ++x)
      rows.set(i * width + x, row[static_cast<std::size_t>(x)] / scales[i]);
  }
}

}  // namespace

void fill_random(Tensor& tensor, unsigned seed, double deviation) {
  Random random(seed);
  for (std::int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, deviation * static_cast<double>(random.normal()));
}

/// All bits 1 are a NaN in every format.
void fill_with_nan(Tensor& tensor) {
  if (tensor.size() != 0) std::memset(tensor.data(), 0xff, tensor.bytes());
}

Tensors::Tensors(const Workload& w) : workload(w) {
  const heed_attention_desc& d = w.desc;
  const std::uint32_t real = oracle::real_dtype(d);
  const std::int64_t queries = query_rows(d) * d.query_heads;
  const std::int64_t keys = w.layers * key_rows(d) * d.key_heads;
  query = Tensor(d.query.dtype, queries * d.features);
  key = Tensor(d.key.dtype, keys * d.features);
  value = Tensor(d.value.dtype, keys * d.value_features);
  out = Tensor(d.out.dtype, queries * d.value_features);
  if (w.mask) mask.resize(static_cast<std::size_t>(count_of(d.mask)));
  if (w.bias) bias = Tensor(real, count_of(d.bias));
  if (w.alibi) slopes = Tensor(real, d.query_heads);
  if (w.sinks) sinks = Tensor(real, d.query_heads);
  if (w.lse) lse = Tensor(real, queries);
  const std::int64_t lines = d.batch * d.query_heads * d.key_length;
  if (d.weights_point != HEED_WEIGHTS_NONE)
    weights = Tensor(real, lines * oracle::weight_rows_of(d));
  if (d.sum_columns != 0) column_sums = Tensor(real, lines);
  fill_random(query, 1);
  fill_stored(key, key_scales = scales_of(key, keys), d.features, 2);
  fill_stored(value, value_scales = scales_of(value, keys), d.value_features, 3);
  fill_mask(mask, w);
  fill_random(bias, 5);
  fill_random(sinks, 6);
  for (std::int64_t h = 0; h < slopes.size(); ++h)  // those of the ALiBi paper
    slopes.set(h,
               std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(d.query_heads)));
  for (std::int64_t r = 0; r < d.weight_rows; ++r)
    weight_rows.push_back(r * d.query_length / d.weight_rows);
  for (Tensor* const result : {&out, &lse, &weights, &column_sums}) fill_with_nan(*result);
}

oracle::Source queries_of(const Workload& workload, const Tensor& tensor) {
  const heed_attention_desc& d = workload.desc;
  heed_layout layout = HEED_LAYOUT_INIT;
  layout.dtype = tensor.type();
  const std::int64_t width = tensor.size() / (query_rows(d) * d.query_heads);
  return oracle::source_of(tensor.data(), layout, d.query_heads, d.query_length, width,
                           d.packed_queries != 0);
}

oracle::Source keys_of(const Workload& workload, const Tensor& tensor) {
  const heed_attention_desc& d = workload.desc;
  const std::int64_t width = tensor.size() / (workload.layers * key_rows(d) * d.key_heads);
  return oracle::source_of(tensor.data(), key_layout(workload, tensor.type(), width), d.key_heads,
                           oracle::key_rows_of(d), width, d.packed_keys != 0);
}

heed_attention_args Tensors::args(std::int64_t layer) {
  const auto of_layer = [&](const Tensor& tensor) -> const void* {
    const auto bytes = static_cast<std::int64_t>(tensor.bytes());
    return static_cast<const char*>(tensor.data()) + layer * (bytes / workload.layers);
  };
  heed_attention_args args = lengths_of(workload);
  args.query = query.data();
  args.key = of_layer(key);
  args.value = of_layer(value);
  // One number is of all layers.
  const auto scales_of_layer = [&](const Tensor& scales) {
    return static_cast<const float*>(scales.size() == 1 ? scales.data() : of_layer(scales));
  };
  args.key_scales = scales_of_layer(key_scales);
  args.value_scales = scales_of_layer(value_scales);
  args.out = out.data();
  args.mask = mask.empty() ? nullptr : mask.data();
  args.bias = bias.data();
  args.alibi_slopes = slopes.data();
  args.sinks = sinks.data();
  args.score_function = workload.score_function ? perf::score_function : nullptr;
  args.weight_rows = weight_rows.empty() ? nullptr : weight_rows.data();
  args.lse = lse.data();
  args.weights = weights.data();
  args.column_sums = column_sums.data();
  return args;
}

}  // namespace heed::perf
