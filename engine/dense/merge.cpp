#include "engine/dense/merge.hpp"

#include <cstdio>

#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/merge.hpp"

namespace heed {
namespace {

/// Throws unless every partial result has the operand. The list may lack where it has no elements.
void check_parts(const char* name, const Operand<MergeProblem>& operand, const MergeProblem& p,
                 const void* const* parts, std::size_t count) {
  if (parts == nullptr && !is_empty(operand.axes(p).sizes)) refuse("%s is NULL", name);
  for (std::size_t k = 0; k < count && parts != nullptr; ++k) {
    char field[48];
    std::snprintf(field, sizeof field, "%s[%zu]", name, k);
    Operand<MergeProblem> part = operand;
    part.args = field;
    part.pointer = 0;
    check_pointer(part, p, &parts[k], false, {&parts[k]});
  }
}

void merge_row(const KernelTable<double>& kernels, const MergeProblem& p, const Merge& merge,
               std::int64_t batch, std::int64_t head, std::int64_t row) {
  const auto address = [&](auto* data, const Layout& layout, std::int64_t feature = 0) {
    return row_at(data, layout, batch, head, row) + feature * layout.strides.feature * layout.bytes;
  };
  const double merged = merge_results(
      merge.parts, p.sizes[3],
      [&](std::size_t k) {
        double lse = 0;
        kernels.numbers.read(p.part_lse.type, address(merge.lses[k], p.part_lse), 1, 1, &lse);
        return lse;
      },
      [&](std::size_t k, std::int64_t begin, std::int64_t count, double* to) {
        kernels.numbers.read(p.part_out.type, address(merge.outs[k], p.part_out, begin),
                             p.part_out.strides.feature, static_cast<std::size_t>(count), to);
      },
      [&](std::int64_t begin, std::int64_t count, const double* from) {
        kernels.numbers.write(p.out.type, from, static_cast<std::size_t>(count),
                              address(merge.out, p.out, begin), p.out.strides.feature);
      });
  if (merge.lse != nullptr)
    write_log_sum_exp(kernels, p.lse.type, merged, address(merge.lse, p.lse));
}

}  // namespace

MergeProblem validate(const heed_merge_desc& d) {
  check_reserved("desc.reserved", d.reserved);
  check_size("batch", d.batch, 0);
  check_size("heads", d.heads, 0);
  check_size("rows", d.rows, 0);
  check_size("features", d.features, 0);
  MergeProblem p = {{d.batch, d.heads, d.rows, d.features}, 0, {}, {}, {}, {}};
  resolve_layouts<kMergeOperands>(&d, false, p);
  p.rows = (Size(d.batch) * d.heads * d.rows)
               .checked("the number of rows",
                        {{"desc.batch", d.batch}, {"desc.heads", d.heads}, {"desc.rows", d.rows}});
  return p;
}

void validate(const MergeProblem& p, const Merge& merge) {
  if (merge.parts == 0) refuse("parts is 0; it must be at least 1");
  check_parts("part_lses", kMergeOperands[1], p, merge.lses, merge.parts);
  check_parts("part_outs", kMergeOperands[0], p, merge.outs, merge.parts);
  const MergeArgs results = {nullptr, nullptr, merge.out, merge.lse};
  check_outputs<kMergeOperands>(p, &results, false);
}

void run_merge(const heed_context& context, const MergeProblem& p, const Merge& merge) {
  const std::int64_t heads = p.sizes[1];
  const std::int64_t rows = p.sizes[2];
  const std::int64_t features = p.sizes[3];
  if (p.rows == 0 || (features == 0 && merge.lse == nullptr)) return;
  const double values = static_cast<double>(p.rows) * static_cast<double>(features) *
                        static_cast<double>(merge.parts);
  parallel_for(context.threads, share_evenly(context.threads, p.rows, values),
               [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
                 for (std::int64_t r = begin; r < end; ++r)
                   merge_row(context.kernels->f64, p, merge, r / rows / heads, r / rows % heads,
                             r % rows);
               });
}

}  // namespace heed
