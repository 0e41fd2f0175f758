// naive/<workload>: what heed saves a program from.
#include "perf/accuracy.hpp"
#include "perf/catalogue.hpp"
#include "perf/contexts.hpp"
#include "perf/peak.hpp"
#include "perf/textbook.hpp"
#include "perf/workload.hpp"

namespace heed::perf {
namespace {

/// Larger workloads would take longer than all the rest.
constexpr double kMostFlops = 1e9;

void measure(benchmark::State& state, const Workload& workload, double flops) {
  Tensors& tensors = tensors_of(workload);
  const Clock::time_point start = Clock::now();
  for (auto _ : state) textbook_attention(workload.desc, tensors);
  const double seconds = seconds_since(start) / static_cast<double>(state.iterations());
  state.counters["gflops"] = flops / seconds * 1e-9;
  state.counters["max_error"] = check_accuracy(workload, tensors).max_error;
  state.SetLabel("textbook loops, 1 thread");
}

}  // namespace

void add_naive_rows(const Options& options) {
  const Context context = make_context({}, {}, 1);
  for (const std::string& name : options.shapes) {
    const Workload workload = parse_workload(name);
    const double flops = describe(make_plan(context, workload.desc)).flops;
    if (flops > kMostFlops) continue;
    add_row({"naive/" + name + "/threads:1", name, "naive", 1, "-"}, benchmark::kMillisecond,
            [=](benchmark::State& state) { measure(state, workload, flops); });
  }
}

}  // namespace heed::perf
