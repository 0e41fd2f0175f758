// How fast this machine reads the rows that edges point at, measured where and when it is needed:
// the bandwidth that attention over a graph is held against.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "perf/graph/problem.hpp"
#include "perf/graph/workload.hpp"
#include "perf/peak.hpp"

namespace heed::perf {

/// Bytes of keys and values per second through the edges of a graph in their order, by loops that
/// load rows and do nothing else, on `threads` threads at once; the average of all samples taken.
class GatherMeter {
 public:
  GatherMeter(const PeakKernel& kernel, unsigned threads, std::shared_ptr<const Edges> edges,
              std::shared_ptr<const oracle::GraphProblem> tensors);

  /// Gathers for about `seconds`, in stretches of edges from all over the graph, so that a short
  /// sample is like a long one.
  void sample(double seconds);
  /// Bytes per second.
  double rate() const { return bytes_.value(); }

 private:
  /// The next one; returns the bytes of it.
  double gather_stretch();

  const PeakKernel& kernel_;
  unsigned threads_;
  std::shared_ptr<const Edges> edges_;
  std::shared_ptr<const oracle::GraphProblem> tensors_;
  GatherRows rows_;
  std::int64_t stretches_;
  std::int64_t step_;
  std::atomic<std::int64_t> next_{0};
  MeanRate bytes_;
};

}  // namespace heed::perf
