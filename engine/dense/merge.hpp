// heed_merge: partial results of many queries, combined row by row.
#pragma once

#include "api/heed.h"
#include "engine/context/context.hpp"
#include "engine/tensor/operands.hpp"

namespace heed {

/// A partial result, and where the merge goes: the arguments that operands are about.
struct MergeArgs {
  const void* part_out;
  const void* part_lse;
  void* out;
  void* lse;
};

/// Partial results, and where their merge goes.
struct Merge {
  std::size_t parts;
  const void* const* outs;
  const void* const* lses;
  void* out;
  void* lse;  ///< nullptr: not wanted

  MergeArgs part(std::size_t k) const {
    return {outs == nullptr ? nullptr : outs[k], lses[k], out, lse};
  }
};

/// A descriptor whose fields are checked.
struct MergeProblem {
  Shape sizes;        ///< [batch, head, row, feature]
  std::int64_t rows;  ///< of all heads
  Layout part_out, part_lse, out, lse;
};

using MergeApi = Structs<heed_merge_desc, MergeArgs, MergeProblem>;
#define TENSOR(field) HEED_TENSOR(MergeApi, field)

inline Axes merged_axes(const MergeProblem& p) { return row_axes(p.sizes, p.sizes[3]); }
inline Axes merged_lse_axes(const MergeProblem& p) { return row_axes(p.sizes, 1); }
inline constexpr Operand<MergeProblem> kMergeOperands[] = {
    input(TENSOR(part_out), merged_axes).not_told().passed(),
    input(TENSOR(part_lse), merged_lse_axes)
        .with(Types::kDenominator)
        .told(Odd::kNotFiniteUnlessMasked)
        .passed(),
    output(TENSOR(out), merged_axes).not_told().passed(),
    wanted(TENSOR(lse), merged_lse_axes).with(Types::kDenominator).passed(),
};

#undef TENSOR

/// Throws an Error that names the field, its value and the bound.
MergeProblem validate(const heed_merge_desc& desc);

/// Throws unless there are partial results, and every tensor with elements is given.
void validate(const MergeProblem& problem, const Merge& merge);

/// Runs a validated merge.
void run_merge(const heed_context& context, const MergeProblem& problem, const Merge& merge);

}  // namespace heed
