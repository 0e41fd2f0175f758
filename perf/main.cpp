// heed_perf: the perf harness. README.md has the protocol, the names and the counters.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "perf/catalogue.hpp"
#include "perf/contexts.hpp"
#include "perf/options.hpp"
#include "perf/reporter.hpp"

namespace {

using namespace heed::perf;

constexpr int kFailed = 1;
constexpr int kUsageError = 2;

/// The harness's defaults, before the user's own flags: the last of two wins.
std::vector<std::string> benchmark_arguments(const char* program, const Options& options) {
#if defined(HEED_MIN_TIME_HAS_UNIT)
  const char* const min_time = "--benchmark_min_time=0.1s";
#else
  const char* const min_time = "--benchmark_min_time=0.1";
#endif
  std::vector<std::string> arguments = {program, "--benchmark_repetitions=5",
                                        "--benchmark_display_aggregates_only=true", min_time};
  arguments.insert(arguments.end(), options.benchmark.begin(), options.benchmark.end());
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
std::unique_ptr<Console> make_console(const std::vector<std::string>& arguments) {
  if (value_of(arguments, "--benchmark_format", "console") != "console") return nullptr;
  const std::string color = value_of(arguments, "--benchmark_color", "auto");
  const bool colored = color == "auto" ? isatty(STDOUT_FILENO) != 0 : !is_false(color);
  return std::make_unique<Console>(colored ? Console::OO_ColorTabular : Console::OO_Tabular);
}

void add_rows(const Options& options) {
  if (options.forms) return add_form_rows(options);
  if (options.backward) return add_backward_rows(options);
  add_append_rows(options);
  if (options.decode) return add_decode_rows(options);
  add_block_rows(options);
  add_graph_rows(options);
  if (options.shapes.empty()) return;
  if (!options.no_stages) add_peak_rows(options);
  add_attention_rows(options);
  if (!options.no_naive) add_naive_rows(options);
  if (!options.no_stages) add_stage_rows(options);
}

int run(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  add_rows(options);
  const std::vector<std::string> given = benchmark_arguments(argv[0], options);
  std::vector<std::string> copy = given;
  std::vector<char*> pointers;
  for (std::string& argument : copy) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int count = static_cast<int>(copy.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return kUsageError;
  benchmark::AddCustomContext("heed_version", heed_version_string());

  const bool lists = !is_false(value_of(given, "--benchmark_list_tests", "false"));
  if (!lists && isatty(STDERR_FILENO) != 0) show_progress(count_rows());
  const std::unique_ptr<Console> console = make_console(given);
  const std::size_t ran = benchmark::RunSpecifiedBenchmarks(console.get());
  clear_progress();
  return ran == 0 || any_row_failed() ? kFailed : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "heed_perf: %s\n", problem.what());
    return kUsageError;
  }
}
