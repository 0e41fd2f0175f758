// Partial results of the same queries over different keys, combined by their log-sum-exp.
#pragma once

#include <cstddef>

#include "api/heed.h"
#include "engine/dense/layout.hpp"
#include "engine/runtime/context.hpp"

namespace heed {

/// The parts of a merge and where their result goes.
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

/// Where a row stands.
struct MergeRow {
  std::int64_t batch, head, row;
};

/// Merges one row of so many features, by definition in float64.
void merge_row(const KernelTable<double>& kernels, const MergeLayouts& layouts, const Merge& merge,
               std::int64_t features, const MergeRow& row);

/// Throws an Error before the first output is written, or not at all.
void merge(const heed_context& context, const heed_merge_desc& desc, const Merge& merge);

}  // namespace heed
