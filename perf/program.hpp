// What heed_perf and heed_perf_mpi do alike once rows are registered.
#pragma once

#include <functional>

#include "perf/options.hpp"

namespace heed::perf {

constexpr int kFailed = 1;
constexpr int kUsageError = 2;

/// Runs the rows that the filter lets through; the exit status. Not `aloud`, says and writes
/// nothing.
int run_rows(const char* program, const Options& options, bool aloud = true);

/// What run() returns, or a usage error where it throws, which is said.
int run_guarded(const std::function<int()>& run);

}  // namespace heed::perf
