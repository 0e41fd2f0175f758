// The console: a readable table at the end; with --details, rows as they finish too.
#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "perf/catalogue.hpp"

namespace heed::perf {

/// Google Benchmark's console without the aggregates other than the median; they are in its
/// JSON and CSV.
class Console : public benchmark::ConsoleReporter {
 public:
  Console(OutputOptions options, bool details) : ConsoleReporter(options), details_(details) {}

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

 private:
  struct Line {
    Row row;
    double milliseconds;
    benchmark::UserCounters counters;
    std::string label;
  };
  /// For the table; false: the row has no place there.
  bool remember(const Run& run);

  bool details_;  ///< every row with all of its counters, which take lines of hundreds of letters
  std::vector<Line> lines_;
};

/// Says nothing.
class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

/// How many rows the filter lets through; benchmark::Initialize must have been called.
std::size_t count_rows();

}  // namespace heed::perf
