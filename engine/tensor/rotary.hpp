// Rotary embedding: rows turned, pair of features by pair, by angles that grow with their position.
#pragma once

#include <cstdint>

#include "api/heed.h"

namespace heed {

/// A heed_rotary whose fields are checked and filled in.
struct Rotary {
  std::uint32_t pairs = HEED_ROTARY_NONE;  ///< heed_rotary_pairs
  std::int64_t features = 0;               ///< of a row that are turned
  double base = 0;                         ///< of the angles; 0: they are in tables
  const float* cosines = nullptr;          ///< tables [last_position + 1][angles()]
  const float* sines = nullptr;
  std::int64_t table_stride = 0;   ///< elements from one row of a table to the next
  std::int64_t last_position = 0;  ///< positions are 0 to this

  bool turns() const { return pairs != HEED_ROTARY_NONE; }
  bool has(std::int64_t position) const { return position >= 0 && position <= last_position; }
  std::int64_t angles() const { return features / 2; }  ///< of one position
};

/// `field` is as in "desc.rotary"; rows have so many features. Throws an Error that names the
/// field, its value and the bound.
Rotary resolve_rotary(const char* field, const heed_rotary& given, std::int64_t row_features);

/// Throws unless rows may stand there; `field` is as in "desc.position".
void check_position(const char* field, const Rotary& rotary, std::int64_t position);

/// frequencies[i] = base^(-2 i / features), what positions are multiplied with; not for tables.
void fill_frequencies(const Rotary& rotary, double* frequencies);

/// The cosines and sines of a position's angles, rounded once. `frequencies` may be nullptr with
/// tables.
template <class Real>
void fill_angles(const Rotary& rotary, const double* frequencies, std::int64_t position,
                 Real* cosines, Real* sines);

/// Turns a row's features, which lie next to each other, in place.
template <class Real>
void turn_row(const Rotary& rotary, const Real* cosines, const Real* sines, Real* row);

}  // namespace heed
