// One dense attention problem: the descriptor after its defaults are filled in and its fields
// are checked. From here on nobody asks whether a number makes sense.
#pragma once

#include <cstdint>

#include "api/heed.h"

namespace heed {

struct Strides {
  std::int64_t batch, head, row, feature;
};

struct Problem {
  std::int64_t batch;
  std::int64_t query_heads;
  std::int64_t key_heads;
  std::int64_t query_length;
  std::int64_t key_length;
  std::int64_t features;
  std::int64_t value_features;
  Strides query, key, value, out;
  double scale;
  bool causal;
  std::int64_t causal_offset;  ///< within [-query_length, key_length]: beyond, nothing changes

  /// Query heads that share one key head; 1 where there are none.
  std::int64_t group() const { return key_heads == 0 ? 1 : query_heads / key_heads; }

  /// Row i attends the keys before this one.
  std::int64_t key_limit(std::int64_t i) const {
    if (!causal) return key_length;
    const std::int64_t limit = i + causal_offset + 1;
    return limit < 0 ? 0 : (limit < key_length ? limit : key_length);
  }
};

/// Throws an Error that names the field, its value and the bound.
Problem validate(const heed_attention_desc& desc);

/// Throws unless every pointer whose tensor has elements is there.
void validate(const Problem& problem, const heed_attention_args& args);

}  // namespace heed
