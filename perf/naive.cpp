// naive/<workload>: what heed saves a program from.
#include <memory>

#include "perf/accuracy.hpp"
#include "perf/catalogue.hpp"
#include "perf/peak.hpp"
#include "perf/sequences.hpp"
#include "perf/textbook.hpp"

namespace heed::perf {
namespace {

/// Larger workloads would take longer than all the rest.
constexpr double kMostFlops = 1e9;

void measure(benchmark::State& state, const Workload& workload) {
  const std::shared_ptr<Tensors> tensors = tensors_of(workload);
  const Clock::time_point start = Clock::now();
  for (auto _ : state) textbook_attention(workload, *tensors);
  const double seconds = seconds_since(start) / static_cast<double>(state.iterations());
  state.counters["gflops"] = useful_flops(workload) / seconds * 1e-9;
  count(check_accuracy(workload, *tensors), state.counters);
  state.SetLabel("textbook loops, 1 thread");
}

/// The textbook writes neither.
bool wants_weights(const Workload& workload) {
  return workload.desc.weights_point != HEED_WEIGHTS_NONE || workload.desc.sum_columns != 0;
}

}  // namespace

void add_naive_rows(const Options& options) {
  for (const std::string& name : options.shapes) {
    const Workload workload = parse_workload(name);
    if (useful_flops(workload) > kMostFlops || wants_weights(workload)) continue;
    add_row({"naive/" + name + "/threads:1", name, "naive", 1, "-"}, benchmark::kMillisecond,
            [=](benchmark::State& state) { measure(state, workload); });
  }
}

}  // namespace heed::perf
