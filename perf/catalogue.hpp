// The rows of a run: their names, what they say in the summary, how they report failure, and how
// heed_perf and heed_perf_mpi run them.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "perf/contexts.hpp"
#include "perf/options.hpp"

namespace heed::perf {

/// What the summary says about a row besides its numbers.
struct Row {
  std::string name;  ///< attention/<workload>/threads:<n>/isa:<isa>, see README.md
  std::string subject;
  std::string isa;
  unsigned threads;
  std::string tiles;
};

/// <kind>/<subject>/threads:<n>/isa:<isa>
Row row_of(const std::string& kind, const std::string& subject, const std::string& isa,
           unsigned threads, const std::string& tiles = "-");

/// Registers a row with Google Benchmark. An exception in `body` becomes an error of the row.
void add_row(const Row& row, benchmark::TimeUnit unit, std::function<void(benchmark::State&)> body);

/// The same of a body that times itself, once a repetition.
void add_timed_row(const Row& row, std::function<void(benchmark::State&)> body);

/// Registers a row for every shape, instruction set and thread count asked for. A Case is made of
/// shape, options, context and threads; it has a row() and can measure().
template <class Case>
void add_cases(const std::vector<std::string>& shapes, const Options& options) {
  const std::vector<std::string> automatic = {""};
  for (const std::string& shape : shapes)
    for (const std::string& isa : options.isas.empty() ? automatic : options.isas)
      for (const unsigned threads : options.threads) {
        const auto it =
            std::make_shared<Case>(shape, options, make_context(options, isa, threads), threads);
        add_row(it->row(), benchmark::kMillisecond,
                [it](benchmark::State& state) { it->measure(state); });
      }
}

/// nullptr for a name that add_row has not seen.
const Row* find_row(const std::string& name);

/// Ends the row with an error; the program then ends with a status other than 0.
void fail_row(benchmark::State& state, const std::string& message);
bool any_row_failed();

/// From here on, says on stderr which of `total` rows is being measured.
void show_progress(std::size_t total);
/// Wipes the line of progress away, so that a row can be printed.
void clear_progress();

void add_attention_rows(const Options& options);
void add_form_rows(const Options& options);
void add_backward_rows(const Options& options);
void add_decode_rows(const Options& options);
void add_append_rows(const Options& options);
void add_block_rows(const Options& options);
void add_graph_rows(const Options& options);
void add_stage_rows(const Options& options);
void add_peak_rows(const Options& options);
void add_rank_rows(const Options& options);

constexpr int kFailed = 1;
constexpr int kUsageError = 2;

/// Runs the rows that the filter lets through; the exit status. Not `aloud`, says and writes
/// nothing.
int run_rows(const char* program, const Options& options, bool aloud = true);

/// What run() returns, or a usage error where it throws, which is said.
int run_guarded(const std::function<int()>& run);

}  // namespace heed::perf
