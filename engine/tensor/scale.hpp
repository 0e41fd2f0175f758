// How a product <q, k> is scaled on its way to softmax, for every kind of attention.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/kernels/table.hpp"

namespace heed {

inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;

/// How scores are scaled, capped and sharpened; see heed_attention_desc.
struct Scaling {
  double scale;
  double softcap;      ///< 0: none
  double temperature;  ///< may be infinite
  double log2_unit;    ///< log2(e) / temperature: from scores to the unit of the softmax kernels
  double cap_scale;  ///< 2 log2(e) scale / softcap: from products to the unit of the softcap kernel
  bool hard;

  /// The factor of queries, so that products are in the units of the next step:
  /// softcap, else scores times `unit`.
  double query_scale(bool capped, double unit) const { return capped ? cap_scale : scale * unit; }
};

/// A score made of finite values, in float64, which may have overflowed there: past the range of
/// Real it counts as the end of that.
template <class Real>
Real finite_score(double score) {
  return static_cast<Real>(std::clamp(score, static_cast<double>(kNoRowMax<Real>),
                                      static_cast<double>(kHighestScore<Real>)));
}

/// Checks the descriptor's fields of these names: throws an Error that names the field, its value
/// and the bound. `float64` is the arithmetic's type.
Scaling resolve_scaling(double scale, double softcap, double temperature, std::uint32_t hard,
                        std::int64_t features, bool float64);

}  // namespace heed
