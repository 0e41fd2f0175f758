// A plain problem in roomy memory, for mistakes with few consequences.
#pragma once

#include <vector>

#include "tests/api/support.hpp"

namespace api_test {

/// 2 items, 2 heads, 6 rows, 8 keys, 4 features.
struct Sample {
  Sample() {
    shape.batch = 2;
    shape.query_heads = shape.key_heads = 2;
    shape.query_length = 6;
    shape.key_length = 8;
    shape.features = shape.value_features = 4;
    desc = desc_of(shape);
    args.query = query.data();
    args.key = key.data();
    args.value = value.data();
    args.out = out.data();
  }
  Sample(const Sample&) = delete;  // its arguments point into it
  Sample& operator=(const Sample&) = delete;

  static std::vector<float> room(std::uint32_t seed) { return numbers(4096, seed); }

  Shape shape;
  heed_attention_desc desc;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  std::vector<float> query = room(1), key = room(2), value = room(3), out = room(4);
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(4096, 1);
  std::int32_t lengths[3] = {};
};

}  // namespace api_test
