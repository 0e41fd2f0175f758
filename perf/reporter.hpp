// The console: rows as they finish, and a readable table at the end.
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
  explicit Console(OutputOptions options) : ConsoleReporter(options) {}

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

 private:
  struct Line {
    Row row;
    double milliseconds;
    benchmark::UserCounters counters;
  };
  void remember(const Run& run);

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
