// How fast this machine reads stored keys and values, measured where and when it is needed: what
// decoding is held against.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "perf/peak.hpp"
#include "perf/tensors.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

/// Bytes per second of loops that load the keys and values that a workload attends and do nothing
/// else, on `threads` threads at once; the average of all samples taken.
class ReadMeter {
 public:
  ReadMeter(const PeakKernel& kernel, unsigned threads, const Workload& workload,
            std::shared_ptr<const Layers> tensors);

  /// Reads for about `seconds` in each order, of pages in that of their table too: all of it, once
  /// or several times, so that the loops and attention leave the same in the caches to each other.
  void sample(double seconds);

  /// Of the keys and values, each counted once.
  double bytes() const { return static_cast<double>(bytes_); }
  double rate() const { return plain_.value(); }
  double spread_rate() const { return spread_.value(); }
  /// Page after page as the table names them, with all heads of a page; 0: there are no pages.
  double table_rate() const { return by_table_.empty() ? 0 : table_.value(); }

 private:
  struct Span {
    const char* data;
    std::size_t bytes;
  };

  static void add_sequence(const Workload& workload, const oracle::Problem& layer,
                           std::int64_t batch, std::vector<Span>& stretches);
  void sample(const std::vector<Span>& spans, ReadOrder order, double seconds, MeanRate& mean);

  const PeakKernel& kernel_;
  unsigned threads_;
  std::shared_ptr<const Layers> tensors_;
  std::vector<Span> spans_;     ///< in the order in which they lie in memory
  std::vector<Span> by_table_;  ///< in that of the table
  std::size_t bytes_ = 0;
  MeanRate plain_, spread_, table_;
};

}  // namespace heed::perf
