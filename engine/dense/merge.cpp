#include "engine/dense/merge.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/dense/layout.hpp"
#include "engine/parallel/tasks.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Features that are summed at once, on the stack.
constexpr std::int64_t kStrip = 256;

/// Numbers to read that are worth a thread of their own.
constexpr double kNumbersPerWorker = 1 << 16;

/// A merge whose numbers make sense.
struct Job {
  const KernelTable<double>& kernels;
  const MergeLayouts& layouts;
  const Merge& merge;
  std::int64_t features;
};

MergeLayouts resolve(const heed_merge_desc& d) {
  if (d.reserved != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.reserved is %u; it must be 0", d.reserved);
  check_size("batch", d.batch, 0);
  check_size("heads", d.heads, 0);
  check_size("rows", d.rows, 0);
  check_size("features", d.features, 0);
  const Shape out = {d.batch, d.heads, d.rows, d.features};
  const Shape lse = {d.batch, d.heads, d.rows, 1};
  const MergeLayouts layouts = {input_layout("desc.part_out", d.part_out, out, ElementType::kF32),
                                input_layout("desc.part_lse", d.part_lse, lse, ElementType::kF32),
                                output_layout("desc.out", d.out, out, ElementType::kF32),
                                output_layout("desc.lse", d.lse, lse, ElementType::kF32)};
  check_lse_type("desc.part_lse", d.part_lse);
  check_lse_type("desc.lse", d.lse);
  return layouts;
}

void check_parts(const char* name, const void* const* parts, std::size_t count,
                 const Layout& layout) {
  if (parts == nullptr) fail(HEED_STATUS_INVALID_ARGUMENT, "%s is NULL", name);
  for (std::size_t k = 0; k < count; ++k) {
    char field[48];
    std::snprintf(field, sizeof field, "%s[%zu]", name, k);
    check_pointer(field, parts[k], layout, true);
  }
}

double lse_of(const Job& job, const MergeRow& row, std::size_t part) {
  double lse = 0;
  job.kernels.read(job.layouts.part_lse.type,
                   row_at(job.merge.lses[part], job.layouts.part_lse, row.batch, row.head, row.row),
                   1, 1, &lse);
  return lse;
}

/// e^(lse - largest); parts of +inf count 1 each, and then nothing else counts.
double weight_of(double lse, double largest) {
  if (largest == kInfinity) return lse == kInfinity ? 1 : 0;
  return std::exp(lse - largest);
}

/// The features [begin, begin + count) of a row: sum of weight times out, over the sum of weights.
void merge_strip(const Job& job, const MergeRow& row, double largest, double denominator,
                 std::int64_t begin, std::int64_t count) {
  double sum[kStrip] = {};
  double part[kStrip];
  const auto address = [&](auto* data, const Layout& layout) {
    return row_at(data, layout, row.batch, row.head, row.row) +
           begin * layout.strides.feature * layout.bytes;
  };
  const Layout& from = job.layouts.part_out;
  for (std::size_t k = 0; k < job.merge.parts; ++k) {
    const double lse = lse_of(job, row, k);
    const double weight = weight_of(lse, largest);
    if (lse == -kInfinity || (weight == 0 && largest == kInfinity)) continue;  // out is not read
    job.kernels.read(from.type, address(job.merge.outs[k], from), from.strides.feature,
                     static_cast<std::size_t>(count), part);
    for (std::int64_t x = 0; x < count; ++x) sum[x] += weight * part[x];
  }
  if (denominator > 0 || std::isnan(denominator))
    for (std::int64_t x = 0; x < count; ++x) sum[x] /= denominator;
  const Layout& to = job.layouts.out;
  job.kernels.write(to.type, sum, static_cast<std::size_t>(count), address(job.merge.out, to),
                    to.strides.feature);
}

/// All rows of a merge.
struct Rows {
  Job job;
  std::int64_t heads, rows;
};

void merge_rows(void* argument, std::int64_t begin, std::int64_t end, std::uint32_t) {
  const Rows& all = *static_cast<const Rows*>(argument);
  for (std::int64_t r = begin; r < end; ++r)
    merge_row(all.job.kernels, all.job.layouts, all.job.merge, all.job.features,
              {r / all.rows / all.heads, r / all.rows % all.heads, r % all.rows});
}

}  // namespace

void merge_row(const KernelTable<double>& kernels, const MergeLayouts& layouts, const Merge& merge,
               std::int64_t features, const MergeRow& row) {
  const Job job{kernels, layouts, merge, features};
  double largest = -kInfinity;
  bool nan = false;
  for (std::size_t k = 0; k < merge.parts; ++k) {
    const double lse = lse_of(job, row, k);
    nan = nan || std::isnan(lse);
    largest = std::max(largest, lse);
  }
  double denominator = 0;
  for (std::size_t k = 0; k < merge.parts && largest != -kInfinity; ++k)
    denominator += weight_of(lse_of(job, row, k), largest);
  if (nan) denominator = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t x = 0; x < features; x += kStrip)
    merge_strip(job, row, largest, denominator, x, std::min(kStrip, features - x));
  if (merge.lse == nullptr) return;
  const double lse = largest == -kInfinity && !nan ? largest : largest + std::log(denominator);
  kernels.write(layouts.lse.type, &lse, 1,
                row_at(merge.lse, layouts.lse, row.batch, row.head, row.row), 1);
}

void merge(const heed_context& context, const heed_merge_desc& desc, const Merge& merge) {
  const MergeLayouts layouts = resolve(desc);
  if (merge.parts == 0) fail(HEED_STATUS_INVALID_ARGUMENT, "parts is 0; it must be at least 1");
  const std::int64_t rows = (Size(desc.batch) * desc.heads * desc.rows)
                                .checked("the number of rows", {{"desc.batch", desc.batch},
                                                                {"desc.heads", desc.heads},
                                                                {"desc.rows", desc.rows}});
  if (rows == 0) return;
  check_parts("part_lses", merge.lses, merge.parts, layouts.part_lse);
  if (desc.features > 0) {
    check_parts("part_outs", merge.outs, merge.parts, layouts.part_out);
    check_pointer("out", merge.out, layouts.out, true);
  }
  check_pointer("lse", merge.lse, layouts.lse, false);
  if (desc.features == 0 && merge.lse == nullptr) return;

  const double numbers = static_cast<double>(rows) * static_cast<double>(desc.features);
  const double worth = numbers * static_cast<double>(merge.parts) / kNumbersPerWorker;
  const auto workers = static_cast<std::uint32_t>(
      std::clamp(worth, 1.0, static_cast<double>(std::min<std::int64_t>(context.threads, rows))));
  Rows all{{context.kernels->f64, layouts, merge, desc.features}, desc.heads, desc.rows};
  run_tasks(context, {rows, ceil_div(rows, workers), workers}, merge_rows, &all);
}

}  // namespace heed
