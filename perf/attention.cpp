// attention/<workload>: whole problems through the C API.
#include <memory>
#include <string>

#include "perf/catalogue.hpp"
#include "perf/contexts.hpp"
#include "perf/peak.hpp"
#include "perf/planned.hpp"
#include "perf/sequences.hpp"

namespace heed::perf {
namespace {

void report(benchmark::State& state, const Planned& problem, const Timing& timing) {
  const double rate = problem.flops() / timing.seconds;
  state.counters["gflops"] = rate * 1e-9;
  state.counters["of_peak"] = rate / timing.peak;
  state.counters["peak_gflops"] = timing.peak * 1e-9;
  count(problem.accuracy(), state.counters);
  state.counters["error_bound"] = problem.accuracy().bound;
  state.counters["workers"] = problem.info().threads;
  if (problem.workload().desc.query_length == 1)
    state.counters["gbps"] = key_value_bytes(problem.workload()) / timing.seconds * 1e-9;
  state.SetLabel(problem.label());
}

void measure(benchmark::State& state, Planned& problem, unsigned threads) {
  Runner run = problem.prepare();
  const Timing timing = time_between_peaks(state, peak_kernel_of(problem.info().isa), threads, run);
  report(state, problem, timing);
}

}  // namespace

void add_attention_rows(const Options& options) {
  for_each_case(options.shapes, options,
                [](const std::string& name, const Context& context, unsigned threads) {
                  const auto problem = std::make_shared<Planned>(name, context);
                  add_row(problem->row("attention", threads), benchmark::kMillisecond,
                          [=](benchmark::State& state) { measure(state, *problem, threads); });
                });
}

}  // namespace heed::perf
