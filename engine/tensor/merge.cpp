#include "engine/tensor/merge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/tensor/log_sum_exp.hpp"

namespace heed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How many features are summed at once, on the stack.
constexpr std::int64_t kStrip = 256;

/// A merge whose numbers make sense.
struct Job {
  const KernelTable<double>& kernels;
  const MergeLayouts& layouts;
  const Merge& merge;
  std::int64_t features;
};

double lse_of(const Job& job, const MergeRow& row, std::size_t part) {
  double lse = 0;
  job.kernels.numbers.read(
      job.layouts.part_lse.type,
      row_at(job.merge.lses[part], job.layouts.part_lse, row.batch, row.head, row.row), 1, 1, &lse);
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
    job.kernels.numbers.read(from.type, address(job.merge.outs[k], from), from.strides.feature,
                             static_cast<std::size_t>(count), part);
    for (std::int64_t x = 0; x < count; ++x) sum[x] += weight * part[x];
  }
  if (denominator > 0 || std::isnan(denominator))
    for (std::int64_t x = 0; x < count; ++x) sum[x] /= denominator;
  const Layout& to = job.layouts.out;
  job.kernels.numbers.write(to.type, sum, static_cast<std::size_t>(count),
                            address(job.merge.out, to), to.strides.feature);
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
  write_log_sum_exp(kernels, layouts.lse.type, lse,
                    row_at(merge.lse, layouts.lse, row.batch, row.head, row.row));
}

}  // namespace heed
