// The C boundary of graphs over MPI.
#include <memory>

#include "api/heed_mpi.h"
#include "engine/mpi/graph/graph.hpp"
#include "engine/mpi/graph/plan.hpp"
#include "engine/mpi/memory.hpp"
#include "engine/runtime/guarded.hpp"
#include "engine/runtime/structs.hpp"

namespace {

using heed::guarded;
using heed::required;
using heed::mpi::RankGraph;
using Plan = heed_mpi_graph_attention_plan;

const RankGraph& ranks_of(const heed_mpi_graph* graph) { return *required(graph, "graph").ranks; }

}  // namespace

heed_status heed_mpi_graph_create(MPI_Comm communicator, const heed_context* context,
                                  const heed_mpi_graph_desc* desc, heed_mpi_graph** graph) {
  return guarded([&] {
    const auto made = std::make_shared<const RankGraph>(communicator, context, desc);
    made->comm.agreed([&] { required(graph, "graph") = new heed_mpi_graph{made}; });
  });
}

void heed_mpi_graph_destroy(heed_mpi_graph* graph) { delete graph; }

heed_status heed_mpi_graph_describe(const heed_mpi_graph* graph, heed_mpi_graph_info* info) {
  return guarded([&] { heed::write_struct(info, ranks_of(graph).describe(), "info"); });
}

heed_status heed_mpi_graph_nodes(const heed_mpi_graph* graph, int64_t* nodes) {
  return guarded([&] {
    const RankGraph& g = ranks_of(graph);
    if (g.own_nodes() > 0) required(nodes, "nodes");
    for (const std::int32_t row : g.own_rows) *nodes++ = g.known[static_cast<std::size_t>(row)];
  });
}

heed_status heed_mpi_graph_edges(const heed_mpi_graph* graph, int64_t* sources,
                                 int64_t* destinations, int64_t* given) {
  return guarded([&] {
    const RankGraph& g = ranks_of(graph);
    for (const heed::mpi::Edge& edge : g.edges) {
      if (sources != nullptr) *sources++ = g.known[static_cast<std::size_t>(edge.source)];
      if (destinations != nullptr)
        *destinations++ = g.known[static_cast<std::size_t>(edge.destination)];
      if (given != nullptr) *given++ = edge.given;
    }
  });
}

heed_status heed_mpi_graph_attention_plan_create(const heed_context* context,
                                                 const heed_mpi_graph* graph,
                                                 const heed_graph_attention_desc* desc,
                                                 heed_mpi_graph_attention_plan** plan) {
  return guarded([&] {
    auto made = std::make_unique<Plan>(context, required(graph, "graph"), desc);
    made->graph->comm.agreed([&] { required(plan, "plan"); });
    *plan = made.release();
  });
}

void heed_mpi_graph_attention_plan_destroy(heed_mpi_graph_attention_plan* plan) { delete plan; }

heed_status heed_mpi_graph_attention_plan_describe(const heed_mpi_graph_attention_plan* plan,
                                                   heed_mpi_graph_attention_info* info) {
  return guarded([&] {
    const Plan& p = required(plan, "plan");
    heed_mpi_graph_attention_info known = HEED_MPI_GRAPH_ATTENTION_INFO_INIT;
    known.ranks = p.graph->comm.size();
    known.rank = p.graph->comm.rank();
    known.steps = p.desc.steps;
    known.step_bytes = p.halo.sent_bytes();
    known.gathered_bytes = p.gathered_bytes;
    known.workspace_bytes = p.workspace.bytes;
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_mpi_graph_attention_plan_workspace(const heed_mpi_graph_attention_plan* plan,
                                                    size_t* bytes) {
  return guarded([&] { required(bytes, "bytes") = required(plan, "plan").workspace.bytes; });
}

heed_status heed_mpi_graph_attention_plan_run(const heed_mpi_graph_attention_plan* plan,
                                              const heed_graph_attention_args* args,
                                              void* workspace, size_t workspace_bytes) {
  return guarded([&] { heed::mpi::run(required(plan, "plan"), args, workspace, workspace_bytes); });
}

heed_status heed_mpi_graph_attention_plan_times(const heed_mpi_graph_attention_plan* plan,
                                                heed_mpi_times* times) {
  return guarded([&] { heed::write_struct(times, required(plan, "plan").times, "times"); });
}

heed_status heed_mpi_graph_attention(const heed_context* context, const heed_mpi_graph* graph,
                                     const heed_graph_attention_desc* desc,
                                     const heed_graph_attention_args* args) {
  return guarded([&] {
    const Plan plan(context, required(graph, "graph"), desc);
    heed::mpi::Memory workspace;
    plan.graph->comm.agreed([&] { workspace = heed::mpi::allocate(plan.workspace.bytes); });
    heed::mpi::run(plan, args, workspace.get(), plan.workspace.bytes);
  });
}
