// One query head of one sequence: its numbers, which pairs attend, and the score of every pair.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/activation.hpp"
#include "tests/oracle/cosine.hpp"
#include "tests/oracle/dropout.hpp"
#include "tests/oracle/dtype.hpp"
#include "tests/oracle/given.hpp"
#include "tests/oracle/inputs.hpp"
#include "tests/oracle/scores.hpp"

namespace heed_test {

template <class Real>
class Head {
 public:
  using Wide = typename Arithmetic<Real>::Wide;

  Head(const Given& given, Index b, Index h)
      : d_(given.desc),
        a_(given.args),
        function_(given.function),
        is_dot_(d_.score == HEED_SCORE_DOT),
        is_cosine_(d_.score == HEED_SCORE_COSINE),
        act_(d_.activation, d_.slope),
        pairs_(is_dot_ && given.pairs && !is_scaled(d_.key.dtype)),
        integers_(is_dot_ && given.pairs && is_scaled(d_.key.dtype)),
        rounds_(is_dot_ && given.rounds),
        parts_(is_dot_ ? given.parts : Parts{}),
        exact_(given.projections == nullptr && !integers_ && !rounds_ && !is_cosine_),
        b_(b),
        h_(h),
        sequence_(sequence_of(d_, a_, b)),
        mask_(source_of(a_.mask, d_.mask, kByte, d_)),
        bias_(source_of(a_.bias, d_.bias, dtype_of(d_.bias.dtype, real_dtype(d_)), d_)) {
    const Index g = h / (d_.query_heads / key_heads_of(d_));
    if (given.projections != nullptr)
      take(*given.projections, g);
    else
      read(g);
    if (!is_cosine_) return;
    unit_queries_ = over_lengths(queries_);
    unit_keys_ = over_lengths(keys_);
  }

  const heed_attention_desc& desc() const { return d_; }
  const Sequence& sequence() const { return sequence_; }
  bool pairs() const { return pairs_; }
  Parts parts() const { return parts_; }

  /// What 8-bit values may be multiplied with is rounded to so much of the largest weight times
  /// scale; 0: nothing is.
  Wide rounded_part() const { return integers_ ? kHalfInteger : 0; }
  Wide value_scale(Index j) const { return value_scales_.row(j)[0].value; }
  const Bounded<Wide>& value(Index j, Index x) const { return values_.row(j)[x]; }
  const Bounded<Wide>* query(Index i) const { return queries_.row(i); }
  const Bounded<Wide>* key(Index j) const { return keys_.row(j); }
  const Bounded<Wide>& query(Index i, Index x) const { return query(i)[x]; }
  const Bounded<Wide>& key(Index j, Index x) const { return key(j)[x]; }

  /// Whether masks, causal, window, lengths and a bias of -inf let row i attend key j.
  bool attends(Index i, Index j) const {
    if (!in_window(d_, sequence_, i, j)) return false;
    if (a_.first_keys != nullptr && j < a_.first_keys[b_]) return false;
    if (a_.mask != nullptr && mask_.at(b_, h_, i, j) == 0) return false;
    return a_.bias == nullptr || bias(i, j) != -kInfinite<Wide>;
  }

  /// Whether dropout takes the pair out, and what it leaves of weights on the whole.
  bool dropped(Index i, Index j) const {
    constexpr Index kBeginning[4] = {};
    const Index* const at = a_.dropout_origin != nullptr ? a_.dropout_origin : kBeginning;
    return is_dropped(d_.dropout, a_.dropout_seed, a_.dropout_offset, at[0] + b_, at[1] + h_,
                      at[2] + i, at[3] + j);
  }
  Wide kept() const { return static_cast<Wide>(dropout_keeps(d_.dropout)); }

  // The scores of row i and key j at every point, times a unit.

  /// s = scale * <q_i, k_j>
  Bounded<Wide> raw_score(Index i, Index j, Wide unit) const {
    return scaled<Real>(product(i, j), scale() * head_weight() * unit);
  }

  /// s = softcap * tanh(s / softcap)
  Bounded<Wide> capped_score(Index i, Index j, Wide unit) const {
    if (d_.softcap == 0) return raw_score(i, j, unit);
    return capped<Real>(product(i, j), scale() * head_weight(), static_cast<Wide>(d_.softcap),
                        unit);
  }

  /// s = s - slope |i + offset - j|
  /// s = s + bias
  Bounded<Wide> biased_score(Index i, Index j, Wide unit) const {
    Bounded<Wide> s = capped_score(i, j, unit);
    if (a_.alibi_slopes != nullptr) s = minus_distance(s, i, j, unit);
    return a_.bias != nullptr ? plus_bias<Real>(s, bias(i, j), unit) : s;
  }

  /// s = what the score function makes of it
  Bounded<Wide> full_score(Index i, Index j, Wide unit) const {
    if (!function_) return biased_score(i, j, unit);
    return times<Real>(changed<Real>(biased_score(i, j, 1), function_, place(i, j)), unit);
  }
  Place place(Index i, Index j) const { return {b_, h_, i, j}; }

  /// The sink, in log2 units: neither scaled, capped, masked nor divided by temperature.
  bool has_sink() const { return a_.sinks != nullptr; }
  Bounded<Wide> sink() const { return times<Real>({number(a_.sinks), 0}, kLog2EOf<Wide>); }

  /// Log2 units of s / temperature: a weight is 2^(s unit). Infinite temperature makes it 0.
  Wide softmax_unit() const {
    return kLog2EOf<Wide> / (d_.temperature != 0 ? static_cast<Wide>(d_.temperature) : 1);
  }

  // What scores are made of.

  Wide scale() const { return scale_of<Wide>(d_); }

  bool is_dot() const { return is_dot_; }
  /// Of row i and key j, where scores are cosines: its product and its derivatives.
  bool is_cosine() const { return is_cosine_; }
  Cosine<Real> cosine(Index i, Index j) const {
    return {unit_queries_[static_cast<std::size_t>(i)], unit_keys_[static_cast<std::size_t>(j)]};
  }
  Wide head_weight() const {
    return !is_cosine_ || a_.score_weights == nullptr ? 1 : number(a_.score_weights);
  }

  // Of scores that are no products; see activation.hpp.
  Wide score_weight(Index x) const {
    return a_.score_weights == nullptr ? 1 : number(a_.score_weights, h_ * d_.features + x);
  }
  Bounded<Wide> act(Index i, Index j, Index x) const { return act_.value(activated(i, j, x)); }
  Bounded<Wide> slope_of_act(Index i, Index j, Index x) const {
    return act_.slope(activated(i, j, x));
  }

  Product<Wide> product(Index i, Index j) const {
    if (!is_dot_ && !is_cosine_)
      return activated_product<Wide>(
          d_.features, [&](Index x) { return score_weight(x); },
          [&](Index x) {
            return std::isinf(activated(i, j, x).value) ? kUnbounded<Wide> : act(i, j, x);
          });
    Product<Wide> p = product_of(query(i), key(j), d_.features);
    p.flushed = pairs_ || parts_.count > 0;
    p.parts = parts_;
    return p;
  }
  /// |i + offset - j|, exact unless a Real cannot hold it.
  Bounded<Wide> distance(Index i, Index j) const {
    using A = Arithmetic<Real>;
    const auto key = static_cast<Wide>(j);
    const Wide far = std::fabs(static_cast<Wide>(i) + static_cast<Wide>(sequence_.offset) - key);
    return {far, far + key < A::kWhole ? 0 : 3 * A::kUnit * (far + 2 * key)};
  }

  /// Whether in row i the keys j and k are the same, number by number.
  bool same_key(Index i, Index j, Index k) const {
    if (!exact_) return false;  // rounding may have parted them
    if (function_ || (a_.bias != nullptr && bias(i, j) != bias(i, k))) return false;
    if (a_.alibi_slopes != nullptr && distance(i, j).value != distance(i, k).value) return false;
    return std::equal(
        key(j), key(j) + d_.features, key(k),
        [](const Bounded<Wide>& a, const Bounded<Wide>& b) { return a.value == b.value; });
  }

 private:
  /// The tensors as they are given; g: the key head.
  void read(Index g) {
    const bool packed_q = d_.packed_queries > 0;
    const bool packed_k = d_.packed_keys > 0;
    const Index query_rows = packed_q ? d_.packed_queries : d_.query_length;
    const Index key_rows = packed_k ? d_.packed_keys : key_rows_of(d_);
    const Index key_heads = key_heads_of(d_);
    const Index width = value_features_of(d_);
    const Source query =
        source_of(a_.query, d_.query, d_.query_heads, query_rows, d_.features, packed_q);
    const Source key = source_of(a_.key, d_.key, key_heads, key_rows, d_.features, packed_k);
    const Source value = source_of(a_.value, d_.value, key_heads, key_rows, width, packed_k);
    const Sequence& s = sequence_;
    queries_ = rows_of<Wide>(query, b_, h_, s.first_query, s.queries, d_.features);
    const auto place = [&](Index t) { return key_row(s, t); };
    keys_ = rows_of<Wide>(key, g, s.keys, d_.features, place);
    values_ = rows_of<Wide>(value, g, s.keys, width, place);
    const auto scale = [&](BoundedRows<Wide>& rows, const heed_layout& of, const float* scales,
                           const heed_layout& layout) {
      if (!is_scaled(of.dtype)) return BoundedRows<Wide>{1};
      const Source each = of.dtype == HEED_DTYPE_I8
                              ? source_of(scales, layout, key_heads, key_rows, 1, packed_k)
                              : Source{scales, HEED_DTYPE_F32, {0, 0, 0, 0}};
      BoundedRows<Wide> factors = rows_of<Wide>(each, g, s.keys, 1, place);
      multiply(rows, factors);
      return factors;
    };
    scale(keys_, d_.key, a_.key_scales, d_.key_scales);
    value_scales_ = scale(values_, d_.value, a_.value_scales, d_.value_scales);
    if (integers_) round_queries();
    if (rounds_)
      for (auto* const rows : {&queries_, &keys_, &values_}) round_to_bfloat16<Real>(*rows);
  }

  /// As decoding may, where keys are 8-bit integers.
  void round_queries() {
    for (Index i = 0; i < sequence_.queries; ++i) {
      Bounded<Wide>* const q = queries_.row(i);
      Wide largest = 0;
      for (Index x = 0; x < d_.features; ++x) largest = std::max(largest, std::fabs(q[x].value));
      for (Index x = 0; x < d_.features; ++x)
        q[x].bound = std::isfinite(largest) ? largest * kHalfInteger : 0;
    }
  }

  /// Numbers of 8 bits times scales, which is exact. heed rounds once more than with numbers as
  /// they are: the product with the scale, or that of a score's sum or of a weight, which is the
  /// same factor in every term.
  static void multiply(BoundedRows<Wide>& rows, const BoundedRows<Wide>& scales) {
    using A = Arithmetic<Real>;
    for (std::size_t i = 0; i < rows.numbers.size(); ++i) {
      const Wide scale = scales.numbers[i / static_cast<std::size_t>(rows.columns)].value;
      const Wide x = rows.numbers[i].value * scale;
      rows.numbers[i] = {x, std::isfinite(x) ? A::kUnit * std::fabs(x) + A::kUnderflow : 0};
    }
  }

  /// Rows over their lengths, which take the place of the rows.
  static std::vector<UnitRow<Wide>> over_lengths(BoundedRows<Wide>& rows) {
    std::vector<UnitRow<Wide>> all;
    for (Index i = 0; i < rows.rows(); ++i) {
      all.push_back(unit_row<Real>(rows.row(i), rows.columns));
      std::copy_n(all.back().numbers.data(), rows.columns, rows.row(i));
    }
    return all;
  }

  void take(const Projections& from, Index g) {
    const Sequence& s = sequence_;
    const Index query = d_.packed_queries > 0 ? s.first_query : b_ * d_.query_length;
    const Index key = d_.packed_keys > 0 ? s.first_key : b_ * d_.key_length;
    const Index width = value_features_of(d_);
    queries_ = rows_of<Wide>(from.query, query, s.queries, h_ * d_.features, d_.features);
    keys_ = rows_of<Wide>(from.key, key, s.keys, g * d_.features, d_.features);
    values_ = rows_of<Wide>(from.value, key, s.keys, g * width, width);
  }

  Bounded<Wide> activated(Index i, Index j, Index x) const {
    return sum<Real>(query(i, x), key(j, x));
  }

  /// This head's number, or another, in an array of Real.
  Wide number(const void* array) const { return number(array, h_); }
  Wide number(const void* array, Index at) const {
    const std::uint32_t real = real_dtype(d_);
    return static_cast<Wide>(decode(real, load_bits(real, array, at)));
  }
  /// Converted to the arithmetic's type first, whatever its own; what is finite stays it.
  Wide bias(Index i, Index j) const { return as_real<Real>(bias_.at(b_, h_, i, j)); }

  Bounded<Wide> minus_distance(const Bounded<Wide>& s, Index i, Index j, Wide unit) const {
    const Bounded<Wide> far = distance(i, j);
    const Wide slope = number(a_.alibi_slopes) * unit;
    return plus<Real>({s.value, s.bound + std::fabs(slope) * far.bound}, -slope * far.value);
  }

  const heed_attention_desc& d_;
  const heed_attention_args& a_;
  const ScoreModel& function_;
  /// Half of 1 / 32767, rounded a few times on the way.
  static constexpr Wide kHalfInteger = static_cast<Wide>(0.5 / 32767 * (1 + 0x1p-20));

  const bool is_dot_, is_cosine_;
  const OracleActivation<Real> act_;
  const bool pairs_, integers_, rounds_;
  const Parts parts_;
  const bool exact_;  ///< queries are as they are given
  const Index b_, h_;
  const Sequence sequence_;
  const Source mask_, bias_;
  BoundedRows<Wide> queries_{0}, keys_{0}, values_{0}, value_scales_{1};
  std::vector<UnitRow<Wide>> unit_queries_, unit_keys_;  ///< of cosines
};

}  // namespace heed_test
