// graph/<workload>: attention over graphs through the C API, in turns with loops that only gather.
#include <memory>
#include <string>

#include "perf/catalogue.hpp"
#include "perf/graph/gather.hpp"
#include "perf/graph/problem.hpp"
#include "perf/graph/workload.hpp"
#include "perf/peak.hpp"

namespace heed::perf {
namespace {

class GraphRow {
 public:
  GraphRow(const std::string& name, const Options& /*options*/, const Context& context,
           unsigned threads)
      : workload_(parse_graph_workload(name)),
        context_(context),
        threads_(threads),
        isa_(describe(context).isa) {}

  Row row() const { return row_of("graph", workload_.name, isa_, threads_); }

  void measure(benchmark::State& state) {
    const auto problem = kept<PlannedGraph>(row().name, [&] {
      return PlannedGraph(workload_, context_, kept<oracle::GraphProblem>(workload_.name, [&] {
                            return problem_of(workload_, *edges_of(workload_));
                          }));
    });
    const unsigned workers = problem->info().threads;
    GatherMeter meter(peak_kernel_of(isa_), workers, problem->edges(), problem->tensors());
    report(state, *problem, time_between_samples(state, workers == 1, meter, *problem));
  }

 private:
  void report(benchmark::State& state, const PlannedGraph& problem, const Timing& timing) const {
    const double bytes = static_cast<double>(problem.edges()->count()) * edge_bytes(workload_);
    count_edges(state.counters, problem, problem.info(), bytes, timing);
    state.counters["build_ms"] = problem.build_seconds() * 1e3;
    count(problem.accuracy(), problem.info().threads, state.counters);
    state.SetLabel(std::string(problem.info().isa) + " " + problem.info().executor);
  }

  GraphWorkload workload_;
  Context context_;
  unsigned threads_;
  std::string isa_;
};

}  // namespace

void add_graph_rows(const Options& options) { add_cases<GraphRow>(options.graph_shapes, options); }

}  // namespace heed::perf
