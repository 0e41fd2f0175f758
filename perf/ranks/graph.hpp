// Attention over a graph whose nodes the first ranks share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "perf/graph/problem.hpp"
#include "perf/ranks/problem.hpp"

namespace heed::perf {

/// As Ranked; nodes are ranges of even work.
class RankedGraph : public Shared {
 public:
  RankedGraph(const std::string& workload, const Context& context, int ranks);

  /// Edges of all ranks.
  double work() const { return edges_; }
  /// Not measured alone: messages go to any ranks.
  double exchange_seconds() const { return 0; }
  void count(benchmark::State& state, const Ran& ran) const;
  std::string label() const { return "graph ranges"; }
  static void promise(benchmark::State& state, const std::string& workload);
  static std::string on_each(const std::string& workload, int ranks) {
    return times_as_many_nodes(workload, ranks);
  }

 private:
  heed_mpi_times run_own() override;
  void gather() override;
  Accuracy compare() override;
  void plan();
  void add_up(const heed_mpi_graph_info& graph, const heed_mpi_graph_attention_info& plan);

  GraphWorkload workload_;
  Context context_;
  std::shared_ptr<const Edges> all_edges_;
  std::unique_ptr<oracle::GraphProblem>
      whole_;         ///< the results are gathered there; on the first rank
  RowNumbers nodes_;  ///< own ones
  std::optional<Tensor> query_, key_, value_, out_;
  heed_graph_attention_args args_ = HEED_GRAPH_ATTENTION_ARGS_INIT;
  std::shared_ptr<heed_mpi_graph_attention_plan> plan_;
  std::unique_ptr<Workspace> workspace_;
  double edges_ = 0, most_edges_ = 0, inner_edges_ = 0, remote_rows_ = 0;
  double bytes_ = 0, workspace_bytes_ = 0;
};

}  // namespace heed::perf
