#include "engine/check/merge.hpp"

#include <cstdio>
#include <limits>

#include "engine/check/attention.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// Tells of odd numbers in those rows of a part that are read; rows whose lse is -inf are not.
void tell_odd_part(const heed_context& context, const Operand* out, const Operand& lse) {
  tell_odd_numbers(context, &lse, Numbers::MinusInfinity::kMeansMasked);
  if (out == nullptr) return;
  Numbers numbers(context, *out);
  Box box = whole(*out);
  const Shape& sizes = out->sizes;
  for (std::int64_t b = 0; b < sizes[0]; ++b)
    for (std::int64_t h = 0; h < sizes[1]; ++h)
      for (std::int64_t i = 0; i < sizes[2]; ++i) {
        const double weight =
            number_at(*context.kernels, lse.layout.type, row_at(lse.data, lse.layout, b, h, i));
        if (weight == -std::numeric_limits<double>::infinity()) continue;
        const std::int64_t at[3] = {b, h, i};
        for (int axis = 0; axis < 3; ++axis)
          box.begin[axis] = at[axis], box.end[axis] = at[axis] + 1;
        numbers.count(box);
      }
  numbers.tell_odd();
}

}  // namespace

void check_merge(const heed_context& context, const MergeProblem& problem, const Merge& merge) {
  const Shape& sizes = problem.sizes;
  const MergeLayouts& layouts = problem.layouts;
  if (problem.rows == 0 || (sizes[3] == 0 && merge.lse == nullptr)) return;
  const Shape lse_sizes = {sizes[0], sizes[1], sizes[2], 1};
  for (std::size_t k = 0; k < merge.parts; ++k) {
    const void* const part_out = sizes[3] > 0 ? merge.outs[k] : nullptr;
    const void* const part_lse = merge.lses[k];
    char name[32];
    Operands all("");
    std::snprintf(name, sizeof name, "part_outs[%zu]", k);
    const Operand* const out =
        all.add(role_beside({part_out, layouts.part_out}, {merge.out, layouts.out}, sizes), name,
                part_out, layouts.part_out, sizes, kTensorAxes);
    std::snprintf(name, sizeof name, "part_lses[%zu]", k);
    const Operand* const lse =
        all.add(role_beside({part_lse, layouts.part_lse}, {merge.lse, layouts.lse}, lse_sizes),
                name, part_lse, layouts.part_lse, lse_sizes, kTensorAxes);
    all.add(Role::kOutput, "out", merge.out, layouts.out, sizes, kTensorAxes);
    all.add(Role::kOutput, "lse", merge.lse, layouts.lse, lse_sizes, kTensorAxes);
    tell_odd_strides(all);
    refuse_overlaps(all, nullptr, 0);
    tell_odd_part(context, out, *lse);
  }
}

}  // namespace heed
