// heed_merge: partial results of many queries, combined row by row.
#pragma once

#include "api/heed.h"
#include "engine/context/context.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {

/// Partial results, and where their merge goes.
struct Merge {
  std::size_t parts;
  const void* const* outs;
  const void* const* lses;
  void* out;
  void* lse;  ///< nullptr: not wanted
};

struct MergeLayouts {
  Layout part_out, part_lse, out, lse;
};

/// A descriptor whose fields are checked.
struct MergeProblem {
  Shape sizes;        ///< [batch, head, row, feature]
  std::int64_t rows;  ///< of all heads
  MergeLayouts layouts;
};

/// Throws an Error that names the field, its value and the bound.
MergeProblem validate(const heed_merge_desc& desc);

/// Throws unless there are parts, and every tensor with elements is given.
void validate(const MergeProblem& problem, const Merge& merge);

/// Runs a validated merge.
void run_merge(const heed_context& context, const MergeProblem& problem, const Merge& merge);

}  // namespace heed
