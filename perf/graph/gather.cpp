#include "perf/graph/gather.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace heed::perf {
namespace {

/// Edges in a row: long enough that what lies between two stretches counts for nothing.
constexpr std::int64_t kStretch = 4096;

/// Steps of this share of all stretches visit all of them, and any few lie far apart.
std::int64_t step_among(std::int64_t stretches) {
  auto step = static_cast<std::int64_t>(0.6180339887 * static_cast<double>(stretches));
  step = std::max<std::int64_t>(step, 1);
  while (std::gcd(step, stretches) != 1) ++step;
  return step;
}

}  // namespace

GatherMeter::GatherMeter(const PeakKernel& kernel, unsigned threads,
                         std::shared_ptr<const Edges> edges,
                         std::shared_ptr<const oracle::GraphProblem> tensors)
    : kernel_(kernel),
      threads_(threads),
      edges_(std::move(edges)),
      tensors_(std::move(tensors)),
      rows_{static_cast<const char*>(tensors_->key->data()),
            static_cast<const char*>(tensors_->value->data()),
            bytes_of(*tensors_->key) / static_cast<std::size_t>(edges_->nodes()),
            bytes_of(*tensors_->value) / static_cast<std::size_t>(edges_->nodes()),
            edges_->sources.data(),
            edges_->count()},
      stretches_((edges_->count() + kStretch - 1) / kStretch),
      step_(step_among(stretches_)) {}

double GatherMeter::gather_stretch() {
  const std::int64_t begin = next_.fetch_add(1) * step_ % stretches_ * kStretch;
  const std::int64_t end = std::min(begin + kStretch, edges_->count());
  benchmark::DoNotOptimize(kernel_.gather(rows_, begin, end));
  return static_cast<double>(end - begin) *
         static_cast<double>(rows_.key_bytes + rows_.value_bytes);
}

void GatherMeter::sample(double seconds) {
  bytes_.add(rate_of_threads(threads_, seconds, [this] { return gather_stretch(); }), seconds);
}

}  // namespace heed::perf
