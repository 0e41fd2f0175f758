// Partial results of the same query over different keys, combined by their log-sum-exp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/table.hpp"
#include "engine/tensor/layout.hpp"

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

/// Which row.
struct MergeRow {
  std::int64_t batch, head, row;
};

/// Merges one row of so many features, in float64, as the API promises.
void merge_row(const KernelTable<double>& kernels, const MergeLayouts& layouts, const Merge& merge,
               std::int64_t features, const MergeRow& row);

}  // namespace heed
