#include "engine/dense/merge.hpp"

#include <cstdio>

#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/merge.hpp"

namespace heed {
namespace {

/// The list may lack where parts have no elements.
template <std::size_t kCount>
void check_parts(const char* name, const void* const* parts, std::size_t count,
                 const Layout& layout, const SizeField (&sizes)[kCount]) {
  if (parts == nullptr && has_elements(sizes)) refuse("%s is NULL", name);
  for (std::size_t k = 0; k < count && parts != nullptr; ++k) {
    char field[48];
    std::snprintf(field, sizeof field, "%s[%zu]", name, k);
    check_tensor(field, parts[k], layout, sizes);
  }
}

void merge_row(const KernelTable<double>& kernels, const MergeProblem& p, const Merge& merge,
               std::int64_t batch, std::int64_t head, std::int64_t row) {
  const MergeLayouts& of = p.layouts;
  const auto address = [&](auto* data, const Layout& layout, std::int64_t feature = 0) {
    return row_at(data, layout, batch, head, row) + feature * layout.strides.feature * layout.bytes;
  };
  const double merged = merge_results(
      merge.parts, p.sizes[3],
      [&](std::size_t k) {
        double lse = 0;
        kernels.numbers.read(of.part_lse.type, address(merge.lses[k], of.part_lse), 1, 1, &lse);
        return lse;
      },
      [&](std::size_t k, std::int64_t begin, std::int64_t count, double* to) {
        kernels.numbers.read(of.part_out.type, address(merge.outs[k], of.part_out, begin),
                             of.part_out.strides.feature, static_cast<std::size_t>(count), to);
      },
      [&](std::int64_t begin, std::int64_t count, const double* from) {
        kernels.numbers.write(of.out.type, from, static_cast<std::size_t>(count),
                              address(merge.out, of.out, begin), of.out.strides.feature);
      });
  if (merge.lse != nullptr)
    write_log_sum_exp(kernels, of.lse.type, merged, address(merge.lse, of.lse));
}

}  // namespace

MergeProblem validate(const heed_merge_desc& d) {
  check_reserved("desc.reserved", d.reserved);
  check_size("batch", d.batch, 0);
  check_size("heads", d.heads, 0);
  check_size("rows", d.rows, 0);
  check_size("features", d.features, 0);
  MergeProblem p = {{d.batch, d.heads, d.rows, d.features}, 0, {}};
  const Shape lse = {d.batch, d.heads, d.rows, 1};
  p.layouts = {input_layout("desc.part_out", d.part_out, p.sizes, ElementType::kF32),
               input_layout("desc.part_lse", d.part_lse, lse, ElementType::kF32),
               output_layout("desc.out", d.out, p.sizes, ElementType::kF32),
               output_layout("desc.lse", d.lse, lse, ElementType::kF32)};
  check_lse_type("desc.part_lse", d.part_lse);
  check_lse_type("desc.lse", d.lse);
  p.rows = (Size(d.batch) * d.heads * d.rows)
               .checked("the number of rows",
                        {{"desc.batch", d.batch}, {"desc.heads", d.heads}, {"desc.rows", d.rows}});
  return p;
}

void validate(const MergeProblem& p, const Merge& merge) {
  if (merge.parts == 0) refuse("parts is 0; it must be at least 1");
  const auto& [batch, heads, rows, features] = p.sizes;
  const SizeField all[] = {
      {"batch", batch}, {"heads", heads}, {"rows", rows}, {"features", features}};
  check_parts("part_lses", merge.lses, merge.parts, p.layouts.part_lse,
              {{"batch", batch}, {"heads", heads}, {"rows", rows}});
  check_parts("part_outs", merge.outs, merge.parts, p.layouts.part_out, all);
  check_tensor("out", merge.out, p.layouts.out, all);
  check_pointer("lse", merge.lse, p.layouts.lse, false);
}

void run_merge(const heed_context& context, const MergeProblem& p, const Merge& merge) {
  const std::int64_t heads = p.sizes[1];
  const std::int64_t rows = p.sizes[2];
  const std::int64_t features = p.sizes[3];
  if (p.rows == 0 || (features == 0 && merge.lse == nullptr)) return;
  const double numbers = static_cast<double>(p.rows) * static_cast<double>(features) *
                         static_cast<double>(merge.parts);
  parallel_for(context.threads, share_evenly(context.threads, p.rows, numbers),
               [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
                 for (std::int64_t r = begin; r < end; ++r)
                   merge_row(context.kernels->f64, p, merge, r / rows / heads, r / rows % heads,
                             r % rows);
               });
}

}  // namespace heed
