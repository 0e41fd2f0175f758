#include "perf/reporter.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iomanip>
#include <sstream>

namespace heed::perf {
namespace {

std::string to_text(double x, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

double value_of(const benchmark::UserCounters& counters, const char* name) {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second.value;
}

/// A counter, and the one that says what was promised of it.
struct Promise {
  const char* target;
  const char* counter;
  bool least;  ///< at least that much; otherwise less
};

constexpr Promise kPromises[] = {{"rate_target", "of_plain", true},
                                 {"time_target", "of_time", false},
                                 {"peak_target", "of_peak", true},
                                 {"speedup_target", "speedup", true},
                                 {"read_target", "of_read", true},
                                 {"call_target", "call_us", false},
                                 {"contiguous_target", "of_contiguous", false},
                                 {"float32_target", "of_float32", false},
                                 {"hidden_target", "hidden", true},
                                 {"balance_target", "balance", false}};

/// What was promised of a row, and whether it holds.
std::string target(const benchmark::UserCounters& counters) {
  std::string all;
  for (const Promise& promise : kPromises) {
    const double bound = value_of(counters, promise.target);
    if (bound == 0) continue;
    const double value = value_of(counters, promise.counter);
    const bool met = promise.least ? value >= bound : value < bound;
    all += (all.empty() ? "" : ", ") +
           (promise.counter + to_text(bound, promise.least ? " >= %.2f" : " < %.2f")) +
           (met ? "     met" : "  missed");
  }
  return all.empty() ? "-" : all;
}

struct Column {
  const char* title;
  const char* counter;  ///< NULL: the target
  const char* format;
};

constexpr Column kColumns[] = {
    {"GFLOP/s", "gflops", "%.1f"},
    {"of_peak", "of_peak", "%.3f"},
    {"projections", "projection_of_peak", "%.3f"},
    {"attention", "attention_of_peak", "%.3f"},
    {"speedup", "speedup", "%.2f"},
    {"efficiency", "efficiency", "%.2f"},
    {"balance", "balance", "%.3f"},
    {"hidden", "hidden", "%.2f"},
    {"wait ms", "wait_ms", "%.3g"},
    {"MPI ms", "mpi_ms", "%.3g"},
    {"exchange ms", "exchange_ms", "%.3g"},
    {"cores", "cores", "%.0f"},
    {"of_forward", "of_forward", "%.2f"},
    {"of_plain", "of_plain", "%.3f"},
    {"of_time", "of_time", "%.3f"},
    {"us a call", "call_us", "%.4g"},
    {"tokens/s", "tokens/s", "%.4g"},
    {"rows/s", "rows/s", "%.4g"},
    {"of_copy", "of_copy", "%.3f"},
    {"of_read", "of_read", "%.3f"},
    {"of_spread", "of_spread", "%.3f"},
    {"of_table", "of_table", "%.3f"},
    {"of_contiguous", "of_contiguous", "%.3f"},
    {"of_float32", "of_float32", "%.3f"},
    {"target", nullptr, nullptr},
    {"Medges/s", "medges", "%.1f"},
    {"GB/s", "gbps", "%.2f"},
    {"of_gather", "of_gather", "%.3f"},
    {"Gexp/s", "gexps", "%.2f"},
    {"workspace MB", "workspace_mbytes", "%.3g"},
    {"rms_error", "rms_error", "%.1e"},
    {"max_error", "max_error", "%.1e"},
};

/// "-" where the row has no such counter.
std::string cell(const Column& column, const benchmark::UserCounters& counters) {
  if (column.counter == nullptr) return target(counters);
  if (counters.count(column.counter) == 0) return "-";
  return to_text(value_of(counters, column.counter), column.format);
}

using Table = std::vector<std::vector<std::string>>;

/// Leaves out a column that says nothing in any row.
void drop_empty_columns(Table& table) {
  for (std::size_t column = table[0].size(); column-- > 0;) {
    const bool empty = std::all_of(table.begin() + 1, table.end(),
                                   [=](const auto& line) { return line[column] == "-"; });
    if (!empty) continue;
    for (auto& line : table) line.erase(line.begin() + static_cast<std::ptrdiff_t>(column));
  }
}

void print(std::ostream& out, const Table& table) {
  std::vector<std::size_t> widths(table[0].size(), 0);
  for (const auto& line : table)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const auto& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i)
      out << (i == 0 ? "" : "  ") << std::setw(static_cast<int>(widths[i]))
          << (i < 2 ? std::left : std::right) << line[i];
    out << '\n';
  }
}

double milliseconds(const benchmark::BenchmarkReporter::Run& run) {
  const double time = run.GetAdjustedRealTime();
  return run.time_unit == benchmark::kMicrosecond ? time * 1e-3 : time;  // no row uses others
}

void set_list_tests(const char* value) {
  // Google Benchmark keeps the pointer that it gets here, and prints the name later.
  static std::string program = benchmark::BenchmarkReporter::Context::executable_name;
  std::string flag = std::string("--benchmark_list_tests=") + value;
  char* arguments[] = {program.data(), flag.data(), nullptr};
  int count = 2;
  benchmark::Initialize(&count, arguments);
}

}  // namespace

bool Console::ReportContext(const Context& context) {
  std::ostream& errors = GetErrorStream();
  std::stringstream said;
  SetErrorStream(&said);
  const bool ready = ConsoleReporter::ReportContext(context);
  SetErrorStream(&errors);
  // Debian keeps the assertions of Google Benchmark; no time that is measured holds one.
  for (std::string line; std::getline(said, line);)
    if (line.find("Library was built as DEBUG") == std::string::npos) errors << line << '\n';
  errors << std::flush;
  return ready;
}

void Console::ReportRuns(const std::vector<Run>& runs) {
  std::vector<Run> shown;
  for (const Run& run : runs) {
    const bool aggregate = run.run_type == Run::RT_Aggregate;
    if (aggregate && run.aggregate_name != "median") continue;
    const bool listed = (aggregate || run.repetitions == 1) && remember(run);
    if (details_ || !listed) shown.push_back(run);
  }
  clear_progress();
  if (!shown.empty()) ConsoleReporter::ReportRuns(shown);
}

bool Console::remember(const Run& run) {
  const Row* const row = find_row(run.run_name.function_name);
  if (row == nullptr || run.counters.empty()) return false;  // a row that failed counts nothing
  lines_.push_back({*row, milliseconds(run), run.counters, run.report_label});
  return true;
}

void Console::Finalize() {
  clear_progress();
  if (lines_.empty()) return;
  std::vector<std::string> titles = {"workload", "isa", "threads", "tiles", "ms"};
  for (const Column& column : kColumns) titles.emplace_back(column.title);
  titles.emplace_back("label");
  Table table = {titles};
  for (const Line& line : lines_) {
    table.push_back({line.row.subject, line.row.isa, std::to_string(line.row.threads),
                     line.row.tiles, to_text(line.milliseconds, "%.4g")});
    for (const Column& column : kColumns) table.back().push_back(cell(column, line.counters));
    table.back().push_back(line.label.empty() ? "-" : line.label);
  }
  drop_empty_columns(table);
  std::ostream& out = GetOutputStream();
  out << "\nMedians:\n";
  print(out, table);
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
