#include "perf/tensors.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "perf/sequences.hpp"

namespace heed::perf {
namespace {

constexpr double kMaskedIn = 0.9;  // of a random mask

std::size_t count(std::initializer_list<std::int64_t> sizes) {
  std::int64_t all = 1;
  for (const std::int64_t size : sizes) all *= size;
  return static_cast<std::size_t>(all);
}

std::size_t count_if(bool there, std::initializer_list<std::int64_t> sizes) {
  return there ? count(sizes) : 0;
}

/// Rows of query and out, or of key and value, in a batch.
std::int64_t rows(std::int64_t packed, std::int64_t batch, std::int64_t length) {
  return packed != 0 ? packed : batch * length;
}

std::size_t count_of(const heed_score_layout& layout) {
  return count({layout.batch, layout.heads, layout.rows, layout.keys});
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

/// nullptr without elements.
template <class T>
T* pointer(std::vector<T>& numbers) {
  return numbers.empty() ? nullptr : numbers.data();
}

}  // namespace

Tensor::Tensor(std::uint32_t type, std::size_t count)
    : type_(type),
      count_(count),
      memory_((count * size_of(type) + sizeof(float) - 1) / sizeof(float)) {}

void fill_random(Tensor& tensor, unsigned seed, double deviation) {
  Random random(seed);
  for (std::size_t i = 0; i < tensor.size(); ++i)
    tensor.set(static_cast<std::int64_t>(i), deviation * static_cast<double>(random.normal()));
}

/// All bits 1 are a NaN in every format.
void fill_with_nan(Tensor& tensor) {
  if (tensor.size() != 0) std::memset(tensor.data(), 0xff, tensor.size() * size_of(tensor.type()));
}

std::uint32_t arithmetic_of(const Workload& workload) {
  return workload.desc.query.dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}

Tensors::Tensors(const Workload& w)
    : query(w.desc.query.dtype,
            count({rows(w.desc.packed_queries, w.desc.batch, w.desc.query_length),
                   w.desc.query_heads, w.desc.features})),
      key(w.desc.key.dtype, count({rows(w.desc.packed_keys, w.desc.batch, w.desc.key_length),
                                   w.desc.key_heads, w.desc.features})),
      value(w.desc.value.dtype, count({rows(w.desc.packed_keys, w.desc.batch, w.desc.key_length),
                                       w.desc.key_heads, w.desc.value_features})),
      out(w.desc.out.dtype, count({rows(w.desc.packed_queries, w.desc.batch, w.desc.query_length),
                                   w.desc.query_heads, w.desc.value_features})),
      mask(w.mask ? count_of(w.desc.mask) : 0),
      bias(arithmetic_of(w), w.bias ? count_of(w.desc.bias) : 0),
      slopes(arithmetic_of(w), count_if(w.alibi, {w.desc.query_heads})),
      sinks(arithmetic_of(w), count_if(w.sinks, {w.desc.query_heads})),
      lse(arithmetic_of(w),
          count_if(w.lse, {rows(w.desc.packed_queries, w.desc.batch, w.desc.query_length),
                           w.desc.query_heads})),
      weights(arithmetic_of(w),
              count_if(w.desc.weights_point != HEED_WEIGHTS_NONE,
                       {w.desc.batch, w.desc.query_heads,
                        w.desc.weight_rows != 0 ? w.desc.weight_rows : w.desc.query_length,
                        w.desc.key_length})),
      column_sums(
          arithmetic_of(w),
          count_if(w.desc.sum_columns != 0, {w.desc.batch, w.desc.query_heads, w.desc.key_length})),
      score_function(w.score_function) {
  fill_random(query, 1);
  fill_random(key, 2);
  fill_random(value, 3);
  fill_mask(mask, w);
  fill_random(bias, 5);
  fill_random(sinks, 6);
  for (std::int64_t h = 0; w.alibi && h < w.desc.query_heads; ++h)  // those of the ALiBi paper
    slopes.set(
        h, std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(w.desc.query_heads)));
  if (w.keys != 0) key_lengths.assign(count({w.desc.batch}), static_cast<std::int32_t>(w.keys));
  for (std::int64_t b = 0; w.desc.packed_queries != 0 && b < w.desc.batch; ++b) {
    query_begins.push_back(static_cast<std::int32_t>(sequence_of(w, b).first_query));
    key_begins.push_back(static_cast<std::int32_t>(sequence_of(w, b).first_key));
  }
  if (w.desc.packed_queries != 0) {
    query_begins.push_back(static_cast<std::int32_t>(w.desc.packed_queries));
    key_begins.push_back(static_cast<std::int32_t>(w.desc.packed_keys));
  }
  for (std::int64_t r = 0; r < w.desc.weight_rows; ++r)
    weight_rows.push_back(r * w.desc.query_length / w.desc.weight_rows);
  for (Tensor* const result : {&out, &lse, &weights, &column_sums}) fill_with_nan(*result);
}

heed_attention_args Tensors::args() {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = query.data();
  args.key = key.data();
  args.value = value.data();
  args.out = out.data();
  args.mask = pointer(mask);
  args.bias = bias.data();
  args.key_lengths = pointer(key_lengths);
  args.cu_seqlens_q = pointer(query_begins);
  args.cu_seqlens_k = pointer(key_begins);
  args.alibi_slopes = slopes.data();
  args.sinks = sinks.data();
  args.score_function = score_function ? perf::score_function : nullptr;
  args.weight_rows = pointer(weight_rows);
  args.lse = lse.data();
  args.weights = weights.data();
  args.column_sums = column_sums.data();
  return args;
}

std::size_t score_index(const heed_score_layout& layout, std::int64_t batch, std::int64_t head,
                        std::int64_t row, std::int64_t key) {
  const auto along = [](std::int64_t index, std::int64_t size) { return size == 1 ? 0 : index; };
  std::int64_t index = along(batch, layout.batch);
  index = index * layout.heads + along(head, layout.heads);
  index = index * layout.rows + along(row, layout.rows);
  index = index * layout.keys + along(key, layout.keys);
  return static_cast<std::size_t>(index);
}

std::shared_ptr<Tensors> tensors_of(const Workload& workload) {
  using Kept = std::pair<std::string, std::shared_ptr<Tensors>>;
  static Kept latest;
  static Kept other;
  if (latest.first != workload.name) {
    std::swap(latest, other);
    if (latest.first != workload.name) {
      latest = {};  // frees the older before the new one is made
      latest = {workload.name, std::make_shared<Tensors>(workload)};
    }
  }
  return latest.second;
}

}  // namespace heed::perf
