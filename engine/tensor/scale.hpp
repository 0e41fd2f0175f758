// How a query and a key make a score, and how it is scaled on its way to softmax, for every kind of
// attention.
#pragma once

#include <algorithm>
#include <cstdint>

#include "api/heed.h"
#include "engine/kernels/table.hpp"

namespace heed {

inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;

/// How scores are made, scaled, capped and sharpened; see heed_attention_desc.
struct Scaling {
  heed_score score;
  heed_activation activation;
  double slope;
  double scale;
  double softcap;      ///< 0: none
  double temperature;  ///< may be infinite
  double log2_unit;    ///< log2(e) / temperature: from scores to the unit of the softmax kernels
  double cap_scale;  ///< 2 log2(e) scale / softcap: from products to the unit of the softcap kernel
  bool hard;

  /// Whether a score is a product of query and key, as they are or divided by their lengths. Others
  /// are sums over features of what act() makes of both; with HEED_SCORE_SUM there is one feature,
  /// of weight 1.
  bool is_product() const { return score == HEED_SCORE_DOT || divides_by_norms(); }
  bool is_dot() const { return score == HEED_SCORE_DOT; }
  bool divides_by_norms() const { return score == HEED_SCORE_COSINE; }
  bool has_score_weights() const { return score == HEED_SCORE_ADDITIVE || divides_by_norms(); }
  template <class Real>
  Activation<Real> act() const {
    return {activation == HEED_ACTIVATION_TANH,
            activation == HEED_ACTIVATION_LEAKY_RELU ? static_cast<Real>(slope) : Real{1}};
  }

  /// The factor of queries, so that products are in the units of the next step:
  /// softcap, else scores times `unit`.
  double query_scale(bool capped, double unit) const { return capped ? cap_scale : scale * unit; }
};

/// How many weights of scores a head has; 1, which nobody gives, of HEED_SCORE_SUM.
inline std::int64_t weights_of_head(std::uint32_t score, std::int64_t features) {
  if (score == HEED_SCORE_DOT) return 0;
  return score == HEED_SCORE_COSINE ? 1 : features;
}

/// A score made of finite values, in float64, which may have overflowed there: past the range of
/// Real it counts as the end of that.
template <class Real>
Real finite_score(double score) {
  return static_cast<Real>(std::clamp(score, static_cast<double>(kNoRowMax<Real>),
                                      static_cast<double>(kHighestScore<Real>)));
}

/// The fields of a descriptor that say how scores are made.
struct ScoreFields {
  std::uint32_t score, activation;
  double slope, scale, softcap, temperature;
  std::uint32_t hard;
  std::int64_t features;

  template <class Desc>
  static ScoreFields of(const Desc& d) {
    return {d.score, d.activation, d.slope, d.scale, d.softcap, d.temperature, d.hard, d.features};
  }
};

/// Throws an Error that names the field, its value and the bound. `float64` is the arithmetic's
/// type.
Scaling resolve_scaling(const ScoreFields& desc, bool float64);

// ---- Rows of length 1 ---------------------------------------------------------------------------

// For scores that are cosines: row / max(|row|, 1e-12), as PyTorch's normalize() has it, and the
// way back of gradients. Lengths are of float64.

/// to = factor * row / |row|; both may be one. An infinity becomes NaN.
template <class Real>
void divide_by_norm(const KernelTable<Real>& kernels, const Real* row, std::size_t count,
                    double factor, Real* to);

/// Turns the gradient of factor * row / |row| into the row's, and returns what it had along the
/// row, <row / |row|, gradient>. Where there is no gradient there is none, whatever the row holds.
template <class Real>
double go_through_norm(const KernelTable<Real>& kernels, const Real* row, std::size_t count,
                       double factor, Real* gradient);

}  // namespace heed
