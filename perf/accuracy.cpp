#include "perf/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/reference.hpp"

namespace heed::perf {
namespace {

constexpr std::int64_t kRows = 64;

/// The reference and the bounds of row `index` of all batch * query_heads * query_length rows;
/// tests/reference.hpp has the derivation.
std::vector<heed_test::Element> reference_row(const heed_attention_desc& d, const Tensors& tensors,
                                              std::int64_t index) {
  const std::int64_t row = index % d.query_length;
  const std::int64_t head = index / d.query_length % d.query_heads;
  const std::int64_t batch = index / d.query_length / d.query_heads;
  const std::int64_t key_head = batch * d.key_heads + head / (d.query_heads / d.key_heads);
  const heed_test::Row query = {tensors.query.data() + index * d.features, 1};
  const heed_test::Head key = {tensors.key.data() + key_head * d.key_length * d.features,
                               d.features, 1};
  const heed_test::Head value = {tensors.value.data() + key_head * d.key_length * d.value_features,
                                 d.value_features, 1};
  const double scale = 1 / std::sqrt(static_cast<double>(d.features));
  return heed_test::row_of(query, key, value, heed_test::attended(d, row), d.features,
                           d.value_features, scale * heed_test::kLog2E);
}

}  // namespace

Accuracy check_accuracy(const Workload& workload, const Tensors& tensors) {
  const heed_attention_desc& d = workload.desc;
  const std::int64_t rows = d.batch * d.query_heads * d.query_length;
  const std::int64_t looked_at = std::min(rows, kRows);
  Accuracy accuracy{0, 0, true};
  double most_used = -1;
  for (std::int64_t i = 0; i < looked_at; ++i) {
    // From the first row to the last, so that both ends of a causal mask are among them.
    const std::int64_t index = looked_at > 1 ? i * (rows - 1) / (looked_at - 1) : 0;
    const float* out = tensors.out.data() + index * d.value_features;
    for (const heed_test::Element& wanted : reference_row(d, tensors, index)) {
      const double error = std::abs(static_cast<double>(*out) - wanted.value);
      const double used = heed_test::ratio_of(*out++, wanted);
      if (!(used <= 1)) accuracy.within = false;
      if (!(error <= accuracy.max_error)) accuracy.max_error = error;  // also takes a NaN
      if (!(used <= most_used)) {
        most_used = used;
        accuracy.bound = wanted.bound;
      }
    }
  }
  return accuracy;
}

}  // namespace heed::perf
