// heed_rotate: rows of a tensor turned by rotary embedding.
#pragma once

#include <cstdint>

#include "api/heed.h"
#include "engine/context/context.hpp"
#include "engine/tensor/layout.hpp"
#include "engine/tensor/rotary.hpp"

namespace heed {

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

/// Throws an Error that names the field, its value and the bound.
RotateProblem validate(const heed_rotate_desc& desc);

/// Throws unless every tensor with elements is given, and every row's position is in bounds.
void validate(const heed_context& context, const RotateProblem& problem, const Rotate& rotate);

/// Runs a validated rotation.
void run_rotate(const heed_context& context, const RotateProblem& problem, const Rotate& rotate);

}  // namespace heed
