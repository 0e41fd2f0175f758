#include "tests/dense/kinds.hpp"

#include <cmath>

namespace heed_test {
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"f32", {}},
      {"f64", all_of(HEED_DTYPE_F64)},
      {"bf16", all_of(HEED_DTYPE_BF16)},
      {"f16", all_of(HEED_DTYPE_F16)},
      {"mixed", {HEED_DTYPE_F16, HEED_DTYPE_BF16, HEED_DTYPE_F32, HEED_DTYPE_F16}}};
  static const std::vector<Kind> few = {all[0], all[1], all[4]};
  return small() ? few : all;
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> all = kinds();
  all.push_back({"i8", {HEED_DTYPE_F32, HEED_DTYPE_I8, HEED_DTYPE_I8, HEED_DTYPE_F32}});
  all.push_back(
      {"f8 and i8", {HEED_DTYPE_BF16, HEED_DTYPE_F8_E4M3, HEED_DTYPE_I8, HEED_DTYPE_F32}});
  all.push_back(
      {"i8 and f8", {HEED_DTYPE_F16, HEED_DTYPE_I8, HEED_DTYPE_F8_E4M3, HEED_DTYPE_BF16}});
  return all;
}

heed_attention_desc desc_of(std::int64_t query_length, std::int64_t key_length,
                            std::int64_t features, std::int64_t value_features) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = 1;
  desc.query_heads = 1;
  desc.query_length = query_length;
  desc.key_length = key_length;
  desc.features = features;
  desc.value_features = value_features;
  return desc;
}

Sizes sizes_of(std::int64_t queries, std::int64_t keys, const Types& types) {
  Sizes sizes = {queries, keys, 9, 11};
  sizes.types = types;
  return sizes;
}

Problem filled(const Sizes& sizes, std::uint64_t seed, float amplitude) {
  Problem problem(sizes);
  problem.fill(seed, amplitude);
  return problem;
}

void set_window(Problem& p, std::int64_t left, std::int64_t right, std::int64_t offset) {
  p.desc.window = 1;
  p.desc.window_left = left;
  p.desc.window_right = right;
  p.desc.alignment = HEED_ALIGNMENT_OFFSET;
  p.desc.alignment_offset = offset;
}

void want_all(Problem& p, heed_weights_point point) {
  if (p.desc.hard == 0) p.want_lse();
  p.want_weights(point);
  p.want_column_sums();
}

bool same_element(const Numbers& a, std::size_t i, const Numbers& b, std::size_t k) {
  if (a.written(i) != b.written(k)) return false;
  return a.bits[i] == b.bits[k] || (std::isnan(a[i]) && std::isnan(b[k]));
}

bool same_number(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

bool check_same(const std::string& what, const Outputs& a, const Outputs& b) {
  const bool results[] = {check_same(what + ", out", a.out, b.out),
                          check_same(what + ", lse", a.lse, b.lse),
                          check_same(what + ", weights", a.weights, b.weights),
                          check_same(what + ", column sums", a.column_sums, b.column_sums)};
  return results[0] && results[1] && results[2] && results[3];
}

}  // namespace heed_test
