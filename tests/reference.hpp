// The oracle: attention as the formula says, in float64 and straight loops, and for every
// element of the result how far from it heed's float32 result may be.
//
// The bound is derived, from the model in support/rounding.hpp and what heed documents: one
// query row, scores in log2 units, c = scale * log2(e), D features, n attended keys.
//
// 1. Scores. heed rounds c to float32, c q to float32, and sums D products: each product sees
//    1 + 1 + D roundings. The default scale and c itself are float64, and this oracle is; one
//    more rounding of float32 is far more than all of those. With t the exact score:
//
//        |score - t| <= E = gamma(D + 3) |c| sum |q| |k| + kUnderflow (sum |k| + D)
//
// 2. Weights. weight = exp2(score - reference), where the reference is a score that some key
//    had. Either the difference is one more rounding, off by kUnit |score - reference|; or the
//    sum of products starts from -reference, which then sees D roundings: gamma(D) |reference|.
//    exp2 is within 1 ULP, a factor 1 + 2 kUnit.
//
// 3. Lazy rescaling. The reference moves up, to the score, when a score outgrows it by 8, so
//    that no weight exceeds 2^8. Let M be the largest exact score, and G = max_j (t_j + E_j) - M
//    how much higher heed may see it: no reference exceeds M + G. Where score j becomes a weight,
//
//        t_j - 8 - E_j - d_j <= reference <= M + G,   |reference| <= R_j = max(|M|, |t_j|) + 8
//                                                                   + E_j + d_j + G
//
//    with d_j = gamma(D) R_j the error in 2 (solved for R_j: a factor 1 / (1 - gamma(D))). A
//    move multiplies what was summed so far by exp2(old - new): its exponent is off by
//    kUnit (new - old), its value by 1 + 2 kUnit, the product by 1 + kUnit. From key j on the
//    moves add up to at most M + G - reference. So the exponent's errors that grow with
//    distance are, together, at most kUnit T_j with
//
//        T_j = |score_j - reference| + M + G - reference <= M - t_j + G + 2 (8 + E_j + d_j)
//
//    A move is a rise by 8, or where float32 numbers lie further apart than that, to the next
//    one; never by less than 4. Each takes a key: there are at most m_j = min(n, T_j / 4).
//
// 4. Sums. The denominator and each numerator are sums of n terms: gamma(n) on every term.
//    Altogether a term p_j of the softmax is off by a factor 1 + a_j at most, in the numerator
//    and in the denominator alike:
//
//        1 + a_j = 2^(E_j + d_j + kUnit T_j) (1 + 3 kUnit)^(m_j + 1) (1 + gamma(n))
//
// 5. Underflow. exp2 is 0 below 2^-126.5, and a weight of at most 2^8 times such a factor is
//    lost in a move: 2^-118 for a weight and each of at most n moves. The exact denominator in
//    these units is at least 2^-G, since no reference exceeds M + G. Products that underflow
//    lose kUnderflow each.
//
// 6. The quotient of a numerator and a denominator that is off by a factor 1 + b,
//    b = sum p_j a_j + lost weights:
//
//        |o' - o| <= (sum p_j a_j |v_j| + lost + b |o|) / (1 - b)
//
//    and the reciprocal and the product at the end round twice: gamma(2) (|o| + that).
//
// No bound holds where float32 overflows on the way. That is so where the terms of a score are
// not all of one sign and overflow, or where 2^8 sum |v| overflows: then the bound is infinite,
// and tests assert that they never meet such an element by accident.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "api/heed.h"
#include "tests/support/rounding.hpp"

namespace heed_test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Strides {
  std::int64_t batch, head, row, feature;
};

/// The strides that a layout means for a tensor of this shape.
inline Strides strides_of(const heed_layout& layout, std::int64_t heads, std::int64_t rows,
                          std::int64_t features) {
  if (layout.stride_batch == 0 && layout.stride_head == 0 && layout.stride_row == 0 &&
      layout.stride_feature == 0)
    return {heads * rows * features, rows * features, features, 1};
  return {layout.stride_batch, layout.stride_head, layout.stride_row, layout.stride_feature};
}

/// A row of a tensor.
struct Row {
  const float* data;
  std::int64_t stride;

  double operator[](std::int64_t x) const { return static_cast<double>(data[x * stride]); }
};

/// The rows of one head.
struct Head {
  const float* data;
  std::int64_t row_stride;
  std::int64_t feature_stride;

  Row row(std::int64_t i) const { return {data + i * row_stride, feature_stride}; }
};

inline Head head_of(const void* data, const Strides& strides, std::int64_t b, std::int64_t h) {
  return {static_cast<const float*>(data) + b * strides.batch + h * strides.head, strides.row,
          strides.feature};
}

/// A score in log2 units, and how far off heed's may be (see 1). Infinite error: unspecified.
struct Score {
  double value;
  double error;
};

inline Score score_of(Row q, Row k, std::int64_t features, double c) {
  double sum = 0;
  double magnitude = 0;
  double keys = 0;
  bool finite = true;
  bool overflows = false;
  for (std::int64_t x = 0; x < features; ++x) {
    const double scaled = c * q[x];
    sum += scaled * k[x];
    magnitude += std::fabs(scaled * k[x]);
    keys += std::fabs(k[x]);
    finite = finite && std::isfinite(q[x]) && std::isfinite(k[x]);
    overflows = overflows || std::fabs(scaled) * (1 + gamma_of(3)) >= kFloatMax;
  }
  if (!finite) return {sum, 0};  // the inputs' infinities and NaN, by the rules of IEEE 754
  const auto d = static_cast<double>(features);
  const double error = gamma_of(d + 3) * magnitude + kUnderflow * (keys + d);
  if (!overflows && magnitude + error < kFloatMax) return {sum, error};
  // Terms of one sign that sum up to more than any float32 become an infinity of that sign.
  const bool one_sign = magnitude <= std::fabs(sum) * (1 + 1e-12);
  if (one_sign && magnitude - error > kFloatMax * (1 + kUnit))
    return {sum > 0 ? kInfinity : -kInfinity, 0};
  return {sum, kInfinity};
}

/// The softmax of one row: weights p_j, their relative errors a_j, and the lost weight.
struct Softmax {
  std::vector<double> weight;
  std::vector<double> error;
  double denominator_error;  ///< b
  double lost;               ///< per key
};

/// Scores of +inf share the weight evenly.
inline Softmax softmax_of_infinities(const std::vector<Score>& scores) {
  Softmax softmax{{}, {}, 0, 0};
  double count = 0;
  for (const Score& s : scores) count += s.value == kInfinity ? 1 : 0;
  const double rounding = gamma_of(static_cast<double>(scores.size()));
  for (const Score& s : scores) {
    softmax.weight.push_back(s.value == kInfinity ? 1 / count : 0);
    softmax.error.push_back(rounding);
  }
  softmax.denominator_error = rounding;
  return softmax;
}

/// A row that attends keys, but whose scores are all -inf.
inline Softmax softmax_of_nothing(std::size_t keys) {
  return {std::vector<double>(keys, 0.0), std::vector<double>(keys, 0.0), 0, 0};
}

/// a_j, see 2 to 4.
inline double weight_error(const Score& s, double largest, double growth, double features,
                           double keys) {
  const double per_reference = gamma_of(features);
  const double reference =
      (std::max(std::fabs(largest), std::fabs(s.value)) + 8 + s.error + growth) /
      (1 - per_reference);
  const double fused = per_reference * reference;
  const double travel = largest - s.value + growth + 2 * (8 + s.error + fused);
  const double moves = std::min(keys, travel / 4);
  const double rounding = std::log1p(3 * kUnit) * (moves + 1) + std::log1p(gamma_of(keys));
  return std::expm1(kLn2 * (s.error + fused + kUnit * travel) + rounding);
}

/// Finite scores, or -inf, the largest of them finite.
inline Softmax softmax_of(const std::vector<Score>& scores, double largest, std::int64_t features) {
  Softmax softmax{{}, {}, 0, 0};
  const auto n = static_cast<double>(scores.size());
  double sum = 0;
  double seen = largest;
  for (const Score& s : scores) {
    sum += std::exp2(s.value - largest);
    seen = std::max(seen, s.value + s.error);
  }
  const double growth = seen - largest;
  softmax.lost = (n + 1) * 0x1p-118 * std::exp2(growth);
  softmax.denominator_error = n * softmax.lost;
  for (const Score& s : scores) {
    const double p = std::exp2(s.value - largest) / sum;
    const double a =
        p == 0 ? 0 : weight_error(s, largest, growth, static_cast<double>(features), n);
    softmax.weight.push_back(p);
    softmax.error.push_back(a);
    softmax.denominator_error += p * a;
  }
  return softmax;
}

struct Element {
  double value;
  double bound;
};

/// One element of the result: feature x of the values that the weights belong to.
inline Element element_of(const Softmax& softmax, const Head& values, std::int64_t x) {
  const std::size_t n = softmax.weight.size();
  double sum = 0;
  double error = 0;
  double magnitude = 0;
  bool finite = true;
  bool lost_infinity = false;
  for (std::size_t j = 0; j < n; ++j) {
    const double v = values.row(static_cast<std::int64_t>(j))[x];
    sum += softmax.weight[j] * v;
    error += softmax.weight[j] * softmax.error[j] * std::fabs(v);
    magnitude += std::fabs(v);
    finite = finite && std::isfinite(v);
    lost_infinity = lost_infinity || (std::isinf(v) && softmax.weight[j] < 0x1p-60);
  }
  if (std::isnan(sum)) return {sum, 0};
  if (!finite) return {sum, lost_infinity ? kInfinity : 0};
  const double b = softmax.denominator_error;
  if (!(b < 1) || 257 * magnitude >= kFloatMax) return {sum, kInfinity};
  const double lost = softmax.lost * magnitude + 2 * static_cast<double>(n) * kUnderflow;
  const double quotient = (error + lost + b * std::fabs(sum)) / (1 - b);
  return {sum, quotient + gamma_of(2) * (std::fabs(sum) + quotient) + kUnderflow};
}

/// One row of the result, which attends `keys` keys.
inline std::vector<Element> row_of(Row query, const Head& key, const Head& value, std::int64_t keys,
                                   std::int64_t features, std::int64_t value_features, double c) {
  const auto width = static_cast<std::size_t>(value_features);
  std::vector<Score> scores;
  double largest = -kInfinity;
  bool nan = false;
  bool unspecified = false;
  for (std::int64_t j = 0; j < keys; ++j) {
    scores.push_back(score_of(query, key.row(j), features, c));
    largest = std::max(largest, scores.back().value);
    nan = nan || std::isnan(scores.back().value);
    unspecified = unspecified || std::isinf(scores.back().error);
  }
  if (unspecified) return std::vector<Element>(width, {0, kInfinity});
  if (nan) return std::vector<Element>(width, {kNaN, 0});
  const Softmax softmax = largest == kInfinity    ? softmax_of_infinities(scores)
                          : largest == -kInfinity ? softmax_of_nothing(scores.size())
                                                  : softmax_of(scores, largest, features);
  std::vector<Element> row;
  for (std::int64_t x = 0; x < value_features; ++x) row.push_back(element_of(softmax, value, x));
  return row;
}

/// How many keys row i attends.
inline std::int64_t attended(const heed_attention_desc& desc, std::int64_t i) {
  std::int64_t offset = desc.causal_offset;
  if (desc.causal == HEED_CAUSAL_NONE) return desc.key_length;
  if (desc.causal == HEED_CAUSAL_BOTTOM_RIGHT) offset = desc.key_length - desc.query_length;
  return std::clamp(i + offset + 1, std::int64_t{0}, desc.key_length);
}

/// The result and its bounds, [batch][query_heads][query_length][value_features].
inline std::vector<Element> attention(const heed_attention_desc& desc, const void* query,
                                      const void* key, const void* value) {
  const std::int64_t key_heads = desc.key_heads == 0 ? desc.query_heads : desc.key_heads;
  const std::int64_t width = desc.value_features == 0 ? desc.features : desc.value_features;
  const double scale =
      desc.scale != 0 ? desc.scale : 1 / std::sqrt(static_cast<double>(desc.features));
  const Strides q = strides_of(desc.query, desc.query_heads, desc.query_length, desc.features);
  const Strides k = strides_of(desc.key, key_heads, desc.key_length, desc.features);
  const Strides v = strides_of(desc.value, key_heads, desc.key_length, width);
  std::vector<Element> result;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    for (std::int64_t h = 0; h < desc.query_heads; ++h) {
      const std::int64_t g = h / (desc.query_heads / key_heads);
      const Head query_head = head_of(query, q, b, h);
      const Head key_head = head_of(key, k, b, g);
      const Head value_head = head_of(value, v, b, g);
      for (std::int64_t i = 0; i < desc.query_length; ++i) {
        const auto row = row_of(query_head.row(i), key_head, value_head, attended(desc, i),
                                desc.features, width, scale * kLog2E);
        result.insert(result.end(), row.begin(), row.end());
      }
    }
  }
  return result;
}

/// How a result compares with the oracle.
struct Verdict {
  double ratio = 0;             ///< the largest error / bound; infinite where a result is wrong
  std::size_t at = 0;           ///< where that is
  std::size_t unspecified = 0;  ///< elements without a bound
};

inline double ratio_of(float got, const Element& want) {
  if (std::isnan(want.value)) return std::isnan(got) ? 0 : kInfinity;
  const auto value = static_cast<double>(got);
  if (value == want.value) return 0;
  if (!std::isfinite(value) || std::isinf(want.value)) return kInfinity;
  return std::fabs(value - want.value) / want.bound;
}

inline Verdict compare(const std::vector<float>& got, const std::vector<Element>& want) {
  Verdict verdict;
  if (got.size() != want.size()) verdict.ratio = kInfinity;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    if (std::isinf(want[i].bound)) {
      ++verdict.unspecified;
      continue;
    }
    const double ratio = ratio_of(got[i], want[i]);
    if (!(ratio <= verdict.ratio)) {
      verdict.ratio = ratio;
      verdict.at = i;
    }
  }
  return verdict;
}

}  // namespace heed_test
