// Which keys the rows of a workload attend, and how much there is to compute and to read.
#include <algorithm>

#include "perf/workload.hpp"

namespace heed::perf {

std::int64_t unpadded_keys(const Workload& workload) {
  return std::max<std::int64_t>(workload.desc.key_length * 3 / 4, 1);
}

oracle::Sequence sequence_of(const Workload& workload, std::int64_t batch) {
  return oracle::sequence_of(workload.desc, lengths_of(workload), batch);
}

KeyRange key_range(const Workload& workload, const oracle::Sequence& sequence, std::int64_t row) {
  const heed_attention_desc& d = workload.desc;
  const std::int64_t position = row + sequence.offset;
  std::int64_t begin = 0;
  std::int64_t end = sequence.keys;
  if (d.causal != HEED_CAUSAL_NONE) end = std::min(end, position + 1);
  if (d.window != 0 && d.window_left >= 0) begin = std::max(begin, position - d.window_left);
  if (d.window != 0 && d.window_right >= 0) end = std::min(end, position + d.window_right + 1);
  return {begin, std::max(begin, end)};
}

KeyRange attended_keys(const Workload& workload, const oracle::Sequence& sequence) {
  return {key_range(workload, sequence, 0).begin,
          std::min(key_range(workload, sequence, sequence.queries - 1).end, sequence.keys)};
}

double useful_flops(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  double pairs = 0;
  for (std::int64_t b = 0; b < d.batch; ++b) {
    const oracle::Sequence sequence = sequence_of(workload, b);
    for (std::int64_t i = 0; i < sequence.queries; ++i) {
      KeyRange keys = key_range(workload, sequence, i);
      if (workload.padding) keys.end = std::min(keys.end, unpadded_keys(workload));
      pairs += static_cast<double>(std::max<std::int64_t>(keys.end - keys.begin, 0));
    }
  }
  return 2 * product({workload.layers, d.features + d.value_features, d.query_heads}) * pairs;
}

double key_value_bytes(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  double keys = 0;
  for (std::int64_t b = 0; b < d.batch; ++b) {
    const KeyRange attended = attended_keys(workload, sequence_of(workload, b));
    keys += static_cast<double>(attended.end - attended.begin);
  }
  return keys * product({workload.layers, d.key_heads,
                         pair_bytes(d.key.dtype, d.features + d.value_features)});
}

}  // namespace heed::perf
