// graph/<workload> and backward/<workload>: attention over graphs through the C API, and its
// gradients, in turns with loops that only gather.
#include <memory>
#include <string>
#include <vector>

#include "perf/catalogue.hpp"
#include "perf/graph/gather.hpp"
#include "perf/graph/problem.hpp"
#include "perf/graph/workload.hpp"
#include "perf/peak.hpp"

namespace heed::perf {
namespace {

template <bool kBackward>
class GraphRow {
 public:
  GraphRow(const std::string& name, const Options& /*options*/, const Context& context,
           unsigned threads)
      : workload_(parse_graph_workload(name)),
        context_(context),
        threads_(threads),
        isa_(describe(context).isa) {}

  Row row() const {
    return row_of(kBackward ? "backward" : "graph", workload_.name, isa_, threads_);
  }

  /// What gradients gather are keys and values through the edges, and then queries and gradients of
  /// results the other way.
  void measure(benchmark::State& state) {
    if constexpr (kBackward) {
      const auto gradients = kept<PlannedGraphGradients>(
          row().name, [&] { return PlannedGraphGradients(workload_, context_); });
      PlannedGraph& forward = gradients->forward();
      measure(state, *gradients, forward, gradients->info().gathered_bytes, {[&] { forward(); }});
    } else {
      const auto problem = kept<PlannedGraph>(row().name, [&] {
        return PlannedGraph(workload_, context_, kept<oracle::GraphProblem>(workload_.name, [&] {
                              return problem_of(workload_, *edges_of(workload_));
                            }));
      });
      const auto edges = static_cast<double>(problem->edges()->count());
      measure(state, *problem, *problem, edges * edge_bytes(workload_), {});
    }
  }

 private:
  template <class Problem>
  void measure(benchmark::State& state, Problem& problem, const PlannedGraph& forward, double bytes,
               const std::vector<Runner>& beside) {
    const heed_graph_attention_info& info = problem.info();
    GatherMeter meter(peak_kernel_of(isa_), info.threads, forward.edges(), forward.tensors());
    const auto run = [&] { problem(); };
    const Timing timing = time_between_samples(state, info.threads == 1, meter, run, beside);
    count_edges(state.counters, forward, info, bytes, timing);
    if (!beside.empty()) {
      const auto edges = static_cast<double>(forward.edges()->count());
      state.counters["forward_medges"] = edges / timing.beside[0] * 1e-6;
      state.counters["of_forward"] = (timing.beside[0] + timing.seconds) / timing.beside[0];
    }
    state.counters["build_ms"] = problem.build_seconds() * 1e3;
    count(problem.accuracy(), info.threads, state.counters);
    state.SetLabel(isa_ + " " + info.executor);
  }

  GraphWorkload workload_;
  Context context_;
  unsigned threads_;
  std::string isa_;
};

}  // namespace

void add_graph_rows(const Options& options) {
  if (options.backward)
    add_cases<GraphRow<true>>(options.graph_shapes, options);
  else
    add_cases<GraphRow<false>>(options.graph_shapes, options);
}

}  // namespace heed::perf
