#include <algorithm>

#include "perf/ranks/problem.hpp"

namespace heed::perf {

RankedGraph::RankedGraph(const std::string& workload, const Context& context, int ranks)
    : Shared(ranks), workload_(parse_graph_workload(workload)), context_(context) {
  World::together([&] {
    if (team().member()) plan();
  });
}

void RankedGraph::plan() {
  // All ranks draw the same edges, and each brings a share of them.
  all_edges_ = edges_of(workload_);
  const Edges& edges = *all_edges_;
  const std::int64_t begin = edges.count() * World::rank() / team().size();
  const std::int64_t end = edges.count() * (World::rank() + 1) / team().size();
  std::vector<std::int32_t> destinations;
  destinations.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t node = 0; node < edges.nodes(); ++node)
    for (std::int64_t e = std::max(begin, edges.offsets[static_cast<std::size_t>(node)]);
         e < std::min(end, edges.offsets[static_cast<std::size_t>(node) + 1]); ++e)
      destinations.push_back(static_cast<std::int32_t>(node));
  heed_mpi_graph_desc desc = HEED_MPI_GRAPH_DESC_INIT;
  desc.index_type = HEED_INDEX_I32;
  desc.nodes = edges.nodes();
  desc.edges = end - begin;
  desc.sources = edges.sources.data() + begin;
  desc.destinations = destinations.data();
  heed_mpi_graph* made = nullptr;
  check_mpi(heed_mpi_graph_create(team().comm(), context_->get(), &desc, &made));
  const std::unique_ptr<heed_mpi_graph, decltype(&heed_mpi_graph_destroy)> graph(
      made, heed_mpi_graph_destroy);
  const auto has = described(heed_mpi_graph_describe, graph.get(), HEED_MPI_GRAPH_INFO_INIT);
  nodes_.resize(static_cast<std::size_t>(has.own_nodes));
  check_mpi(heed_mpi_graph_nodes(graph.get(), nodes_.data()));
  whole_ = std::make_unique<oracle::GraphProblem>(problem_of(workload_, edges));
  query_ = some_rows(*whole_->query, nodes_);
  key_ = some_rows(*whole_->key, nodes_);
  value_ = some_rows(*whole_->value, nodes_);
  out_ = some_rows(*whole_->out, nodes_);
  if (World::rank() != 0) whole_ = nullptr;
  args_.query = query_->data();
  args_.key = key_->data();
  args_.value = value_->data();
  args_.out = out_->data();
  heed_mpi_graph_attention_plan* plan = nullptr;
  check_mpi(heed_mpi_graph_attention_plan_create(context_->get(), graph.get(), &workload_.desc,
                                                 &plan));  // it holds the graph
  plan_ = {plan, heed_mpi_graph_attention_plan_destroy};
  const auto info = described(heed_mpi_graph_attention_plan_describe, plan_.get(),
                              HEED_MPI_GRAPH_ATTENTION_INFO_INIT);
  workspace_ = std::make_unique<Workspace>(info.workspace_bytes);
  add_up(has, info);
}

void RankedGraph::add_up(const heed_mpi_graph_info& graph,
                         const heed_mpi_graph_attention_info& plan) {
  const auto own = static_cast<double>(graph.own_edges);
  edges_ = static_cast<double>(graph.edges);
  most_edges_ = most_of(own, team().comm());
  inner_edges_ = sum_of(static_cast<double>(graph.inner_edges), team().comm());
  remote_rows_ = most_of(static_cast<double>(graph.remote_rows), team().comm());
  bytes_ = most_of(plan.step_bytes, team().comm());
  workspace_bytes_ = most_of(static_cast<double>(plan.workspace_bytes), team().comm());
}

heed_mpi_times RankedGraph::run_own() {
  check_mpi(heed_mpi_graph_attention_plan_run(plan_.get(), &args_, workspace_->get(),
                                              workspace_->bytes()));
  return described(heed_mpi_graph_attention_plan_times, plan_.get(), HEED_MPI_TIMES_INIT);
}

void RankedGraph::count(benchmark::State& state, const Ran& ran) const {
  state.counters["edges"] = edges_;
  state.counters["medges"] = edges_ / ran.seconds * 1e-6;
  state.counters["balance"] = most_edges_ * team().size() / edges_;
  state.counters["inner"] = inner_edges_ / edges_;
  state.counters["remote_rows"] = remote_rows_;
  state.counters["row_bytes"] = edge_bytes(workload_);
  state.counters["sent_mbytes"] = bytes_ * 1e-6;
  state.counters["workspace_mbytes"] = workspace_bytes_ * 1e-6;
}

void RankedGraph::promise(benchmark::State& state, const std::string& workload) {
  const std::vector<std::string>& all = kRankGraphWorkloads;
  if (std::find(all.begin(), all.end(), workload) != all.end())
    state.counters["speedup_target"] = 1.7;
}

void RankedGraph::gather() {
  gather_rows(team(), *out_, nodes_, whole_ != nullptr ? &*whole_->out : nullptr);
}

Accuracy RankedGraph::compare() {
  const Accuracy accuracy = check_accuracy(workload_, *all_edges_, *whole_);
  demand(accuracy, workload_.name);
  return accuracy;
}

}  // namespace heed::perf
