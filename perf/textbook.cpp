#include "perf/textbook.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace heed::perf {
namespace {

/// One query row against its keys; `weights` has room for one number per key.
void attend(const heed_attention_desc& d, const float* query, const float* key, const float* value,
            std::int64_t keys, float* weights, float* out) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(d.features));
  float top = -INFINITY;
  for (std::int64_t j = 0; j < keys; ++j) {
    float dot = 0.0F;
    for (std::int64_t x = 0; x < d.features; ++x) dot += query[x] * key[j * d.features + x];
    weights[j] = dot * scale;
    top = std::max(top, weights[j]);
  }
  float sum = 0.0F;
  for (std::int64_t j = 0; j < keys; ++j) sum += weights[j] = std::exp(weights[j] - top);
  std::fill_n(out, d.value_features, 0.0F);
  for (std::int64_t j = 0; j < keys; ++j)
    for (std::int64_t x = 0; x < d.value_features; ++x)
      out[x] += weights[j] / sum * value[j * d.value_features + x];
}

std::int64_t attended_keys(const heed_attention_desc& d, std::int64_t query) {
  if (d.causal == HEED_CAUSAL_NONE) return d.key_length;
  const bool bottom_right = d.causal == HEED_CAUSAL_BOTTOM_RIGHT;
  const std::int64_t offset = bottom_right ? d.key_length - d.query_length : 0;
  return std::clamp(query + offset + 1, std::int64_t{0}, d.key_length);
}

}  // namespace

void textbook_attention(const heed_attention_desc& d, Tensors& tensors) {
  std::vector<float> weights(static_cast<std::size_t>(d.key_length));
  const std::int64_t group = d.query_heads / d.key_heads;
  for (std::int64_t head = 0; head < d.batch * d.query_heads; ++head) {
    const std::int64_t key_head = head / group;  // query_heads is a multiple of group
    const float* const key = tensors.key.data() + key_head * d.key_length * d.features;
    const float* const value = tensors.value.data() + key_head * d.key_length * d.value_features;
    for (std::int64_t i = 0; i < d.query_length; ++i) {
      const std::int64_t row = head * d.query_length + i;
      attend(d, tensors.query.data() + row * d.features, key, value, attended_keys(d, i),
             weights.data(), tensors.out.data() + row * d.value_features);
    }
  }
}

}  // namespace heed::perf
