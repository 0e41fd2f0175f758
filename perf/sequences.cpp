#include "perf/sequences.hpp"

#include <algorithm>

#include "perf/number.hpp"

namespace heed::perf {
namespace {

std::int64_t packed_length(std::int64_t longest, std::int64_t batch, std::int64_t b) {
  return std::max<std::int64_t>(longest * (b + 1) / batch, 1);
}

std::int64_t packed_begin(std::int64_t longest, std::int64_t batch, std::int64_t b) {
  std::int64_t begin = 0;
  for (std::int64_t before = 0; before < b; ++before)
    begin += packed_length(longest, batch, before);
  return begin;
}

HeadRows rows_of(bool packed, std::int64_t first_row, std::int64_t batch, std::int64_t head,
                 std::int64_t heads, std::int64_t length, std::int64_t width) {
  if (packed) return {(first_row * heads + head) * width, heads * width};
  return {(batch * heads + head) * length * width, width};
}

}  // namespace

std::int64_t packed_rows(std::int64_t longest, std::int64_t batch) {
  return packed_begin(longest, batch, batch);
}

Sequence sequence_of(const Workload& workload, std::int64_t batch) {
  const heed_attention_desc& d = workload.desc;
  Sequence s = {0, 0, d.query_length, d.key_length, 0};
  if (d.packed_queries != 0) {
    s.queries = packed_length(d.query_length, d.batch, batch);
    s.first_query = packed_begin(d.query_length, d.batch, batch);
  }
  if (d.packed_keys != 0) {
    s.keys = packed_length(d.key_length, d.batch, batch);
    s.first_key = packed_begin(d.key_length, d.batch, batch);
  }
  if (workload.keys != 0) s.keys = std::min(s.keys, workload.keys);
  if (d.causal == HEED_CAUSAL_BOTTOM_RIGHT) s.offset = s.keys - s.queries;
  return s;
}

KeyRange key_range(const Workload& workload, const Sequence& sequence, std::int64_t row) {
  const heed_attention_desc& d = workload.desc;
  const std::int64_t position = row + sequence.offset;
  std::int64_t begin = 0;
  std::int64_t end = sequence.keys;
  if (d.causal != HEED_CAUSAL_NONE) end = std::min(end, position + 1);
  if (d.window != 0 && d.window_left >= 0) begin = std::max(begin, position - d.window_left);
  if (d.window != 0 && d.window_right >= 0) end = std::min(end, position + d.window_right + 1);
  return {begin, std::max(begin, end)};
}

HeadRows query_rows(const Workload& workload, std::int64_t batch, std::int64_t head,
                    std::int64_t width) {
  const heed_attention_desc& d = workload.desc;
  return rows_of(d.packed_queries != 0, sequence_of(workload, batch).first_query, batch, head,
                 d.query_heads, d.query_length, width);
}

HeadRows key_rows(const Workload& workload, std::int64_t batch, std::int64_t head,
                  std::int64_t width) {
  const heed_attention_desc& d = workload.desc;
  return rows_of(d.packed_keys != 0, sequence_of(workload, batch).first_key, batch,
                 head / (d.query_heads / d.key_heads), d.key_heads, d.key_length, width);
}

HeadRows lse_rows(const Workload& workload, std::int64_t batch, std::int64_t head) {
  const heed_attention_desc& d = workload.desc;
  if (d.packed_queries != 0)
    return {head * d.packed_queries + sequence_of(workload, batch).first_query, 1};
  return rows_of(false, 0, batch, head, d.query_heads, d.query_length, 1);
}

double attended_pairs(const Workload& workload) {
  double pairs = 0;
  for (std::int64_t b = 0; b < workload.desc.batch; ++b) {
    const Sequence sequence = sequence_of(workload, b);
    for (std::int64_t i = 0; i < sequence.queries; ++i) {
      KeyRange keys = key_range(workload, sequence, i);
      if (workload.padding) keys.end = std::min(keys.end, unpadded_keys(workload));
      pairs += static_cast<double>(std::max<std::int64_t>(keys.end - keys.begin, 0));
    }
  }
  return pairs * static_cast<double>(workload.desc.query_heads);
}

double useful_flops(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  return 2 * static_cast<double>(d.features + d.value_features) * attended_pairs(workload);
}

double key_value_bytes(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  double keys = 0;
  for (std::int64_t b = 0; b < d.batch; ++b) {
    const Sequence sequence = sequence_of(workload, b);
    keys += static_cast<double>(key_range(workload, sequence, sequence.queries - 1).end -
                                key_range(workload, sequence, 0).begin);
  }
  const double row =
      static_cast<double>(d.features) * static_cast<double>(size_of(d.key.dtype)) +
      static_cast<double>(d.value_features) * static_cast<double>(size_of(d.value.dtype));
  return keys * static_cast<double>(d.key_heads) * row;
}

}  // namespace heed::perf
