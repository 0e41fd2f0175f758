#include "perf/reporter.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <sstream>

namespace heed::perf {
namespace {

using Columns = std::array<std::string, 10>;

using Widths = std::array<int, 10>;  // negative: left

const Columns kTitles = {"workload", "isa",     "threads", "tiles",  "ms",
                         "GFLOP/s",  "of_peak", "GB/s",    "Gexp/s", "max_error"};

std::string padded(const std::string& text, int width) {
  const auto wanted = static_cast<std::size_t>(width < 0 ? -width : width);
  const std::string space(wanted > text.size() ? wanted - text.size() : 1, ' ');
  return width < 0 ? text + space : space + text;
}

void print(std::ostream& out, const Columns& columns, const Widths& widths) {
  for (std::size_t i = 0; i < columns.size(); ++i) out << padded(columns[i], widths[i]);
  out << '\n';
}

std::string to_text(double x, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

/// The counter, or a dash where the row has none.
std::string cell(const benchmark::UserCounters& counters, const char* name, const char* format) {
  const auto found = counters.find(name);
  return found == counters.end() ? "-" : to_text(found->second.value, format);
}

double milliseconds(const benchmark::BenchmarkReporter::Run& run) {
  const double time = run.GetAdjustedRealTime();
  return run.time_unit == benchmark::kMicrosecond ? time * 1e-3 : time;  // no row uses others
}

class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

void set_list_tests(const char* value) {
  // Google Benchmark keeps the pointer that it gets here, and prints the name later.
  static std::string program = benchmark::BenchmarkReporter::Context::executable_name;
  std::string flag = std::string("--benchmark_list_tests=") + value;
  char* arguments[] = {program.data(), flag.data(), nullptr};
  int count = 2;
  benchmark::Initialize(&count, arguments);
}

}  // namespace

void Console::ReportRuns(const std::vector<Run>& runs) {
  std::vector<Run> shown;
  for (const Run& run : runs) {
    const bool aggregate = run.run_type == Run::RT_Aggregate;
    if (aggregate && run.aggregate_name != "median") continue;
    if (aggregate || run.repetitions == 1) remember(run);
    shown.push_back(run);
  }
  clear_progress();
  if (!shown.empty()) ConsoleReporter::ReportRuns(shown);
}

void Console::remember(const Run& run) {
  const Row* const row = find_row(run.run_name.function_name);
  if (row != nullptr && !run.counters.empty())
    lines_.push_back({*row, milliseconds(run), run.counters});
}

void Console::Finalize() {
  clear_progress();
  if (lines_.empty()) return;
  std::ostream& out = GetOutputStream();
  out << "\nMedians:\n";
  std::size_t longest = kTitles[0].size();
  for (const Line& line : lines_) longest = std::max(longest, line.row.subject.size());
  const Widths widths = {-static_cast<int>(longest) - 1, -7, 7, 10, 11, 9, 9, 8, 8, 11};
  print(out, kTitles, widths);
  for (const Line& line : lines_) {
    const benchmark::UserCounters& c = line.counters;
    print(
        out,
        {line.row.subject, line.row.isa, std::to_string(line.row.threads), line.row.tiles,
         to_text(line.milliseconds, "%.4g"), cell(c, "gflops", "%.1f"), cell(c, "of_peak", "%.3f"),
         cell(c, "gbps", "%.2f"), cell(c, "gexps", "%.2f"), cell(c, "max_error", "%.1e")},
        widths);
  }
  out << std::flush;
}

std::size_t count_rows() {
  std::ostringstream ignored;
  Silent silent;
  silent.SetOutputStream(&ignored);
  silent.SetErrorStream(&ignored);
  set_list_tests("true");
  const std::size_t count = benchmark::RunSpecifiedBenchmarks(&silent);
  set_list_tests("false");
  return count;
}

}  // namespace heed::perf
