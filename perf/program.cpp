#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "perf/catalogue.hpp"
#include "perf/contexts.hpp"
#include "perf/reporter.hpp"

namespace heed::perf {
namespace {

/// With or without the unit of --benchmark_min_time, which some versions of Google Benchmark reject
/// and others ask for, on standard error: Open MPI 5 mixes that with the standard output of ranks.
std::string in_seconds(std::string flag) {
  if (flag.rfind("--benchmark_min_time=", 0) != 0) return flag;
  const bool has_unit = flag.back() == 's';
#if defined(HEED_MIN_TIME_HAS_UNIT)
  if (!has_unit && flag.back() != 'x') flag += 's';
#else
  if (has_unit) flag.pop_back();
#endif
  return flag;
}

/// The harness's defaults, before the user's own flags: the last of two wins.
std::vector<std::string> benchmark_arguments(const char* program, const Options& options) {
  std::vector<std::string> arguments = {program, "--benchmark_repetitions=5",
                                        "--benchmark_display_aggregates_only=true",
                                        in_seconds("--benchmark_min_time=0.1")};
  for (const std::string& flag : options.benchmark) arguments.push_back(in_seconds(flag));
  if (options.help) arguments.push_back("--help");
  return arguments;
}

/// The value of the last `flag`=value, or `otherwise`.
std::string value_of(const std::vector<std::string>& arguments, const std::string& flag,
                     const std::string& otherwise) {
  std::string value = otherwise;
  for (const std::string& argument : arguments) {
    if (argument == flag) value = "true";
    if (argument.compare(0, flag.size() + 1, flag + "=") == 0)
      value = argument.substr(flag.size() + 1);
  }
  return value;
}

bool is_false(const std::string& value) {
  return value == "false" || value == "no" || value == "off" || value == "0";
}

/// nullptr where the format is not the console's: Google Benchmark then makes the reporter.
std::unique_ptr<benchmark::BenchmarkReporter> make_reporter(
    const std::vector<std::string>& arguments, bool aloud, bool details) {
  if (!aloud) return std::make_unique<Silent>();
  if (value_of(arguments, "--benchmark_format", "console") != "console") return nullptr;
  const std::string color = value_of(arguments, "--benchmark_color", "auto");
  const bool colored = color == "auto" ? isatty(STDOUT_FILENO) != 0 : !is_false(color);
  return std::make_unique<Console>(colored ? Console::OO_ColorTabular : Console::OO_Tabular,
                                   details);
}

void leave_out_files(std::vector<std::string>& arguments) {
  const auto names_file = [](const std::string& argument) {
    return argument.rfind("--benchmark_out", 0) == 0;
  };
  arguments.erase(std::remove_if(arguments.begin(), arguments.end(), names_file), arguments.end());
}

}  // namespace

int run_rows(const char* program, const Options& options, bool aloud) {
  std::vector<std::string> given = benchmark_arguments(program, options);
  if (!aloud) leave_out_files(given);
  std::vector<std::string> copy = given;
  std::vector<char*> pointers;
  for (std::string& argument : copy) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int count = static_cast<int>(copy.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return kUsageError;
  benchmark::AddCustomContext("heed_version", heed_version_string());

  const bool lists = !is_false(value_of(given, "--benchmark_list_tests", "false"));
  if (!lists && aloud && isatty(STDERR_FILENO) != 0) show_progress(count_rows());
  const std::unique_ptr<benchmark::BenchmarkReporter> reporter =
      make_reporter(given, aloud, options.details);
  const std::size_t ran = benchmark::RunSpecifiedBenchmarks(reporter.get());
  clear_progress();
  return ran == 0 || any_row_failed() ? kFailed : 0;
}

int run_guarded(const std::function<int()>& run) {
  try {
    return run();
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "heed_perf: %s\n", problem.what());
    return kUsageError;
  }
}

}  // namespace heed::perf
