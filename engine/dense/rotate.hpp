// Rotary embedding: rows turned, pair of features by pair, by angles that grow with their position;
// and heed_rotate, which turns the rows of a tensor.
#pragma once

#include <cstdint>

#include "api/heed.h"
#include "engine/context/context.hpp"
#include "engine/tensor/operands.hpp"

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

/// Where rows of a cache stand that are turned, by the descriptor of a call.
struct Positions {
  const Rotary& rotary;
  std::int64_t offset;
  const std::int64_t* given;  ///< nullptr: rows stand where they lie in their sequence, plus offset

  /// Where the row stands that is the i-th of the given ones, and lies at t in its sequence.
  std::int64_t of(std::int64_t i, std::int64_t t) const {
    return given != nullptr ? given[i] : t + offset;
  }

  /// Throws unless one of the two is given at most, and none without rotary embedding.
  void check() const;
  /// Throws unless `count` rows, of which the first is the i-th and lies at t, may stand there.
  void check_rows(std::int64_t i, std::int64_t t, std::int64_t count) const;
};

/// A descriptor whose fields are checked.
struct RotateProblem {
  Shape sizes;        ///< [batch, head, row, feature]
  std::int64_t rows;  ///< of all heads
  Layout from, to;
  Rotary rotary;
  std::int64_t position;  ///< of row 0, where none are given
  bool float64;           ///< the arithmetic's type
};

struct Rotate {
  const void* from;
  const std::int64_t* positions;  ///< [batch, row]; nullptr: row after row
  void* to;
  const double* frequencies = nullptr;  ///< see fill_frequencies(); nullptr: to be computed
};

using RotateApi = Structs<heed_rotate_desc, Rotate, RotateProblem>;
inline Axes rotated_axes(const RotateProblem& p) { return row_axes(p.sizes, p.sizes[3]); }
inline constexpr Operand<RotateProblem> kRotateOperands[] = {
    input(HEED_TENSOR(RotateApi, from), rotated_axes).passed(),
    output(HEED_TENSOR(RotateApi, to), rotated_axes).passed(),
};

/// Throws an Error that names the field, its value and the bound.
RotateProblem validate(const heed_rotate_desc& desc);

/// Throws unless every tensor with elements is given, and every row's position is in bounds.
void validate(const heed_context& context, const RotateProblem& problem, const Rotate& rotate);

/// Runs a validated rotation.
void run_rotate(const heed_context& context, const RotateProblem& problem, const Rotate& rotate);

}  // namespace heed
