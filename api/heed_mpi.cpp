// The C boundary of attention over MPI, and over graphs.
#include "api/heed_mpi.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "engine/mpi/graph/plan.hpp"
#include "engine/mpi/plan.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"

namespace {

using heed::guarded;
using heed::required;
using heed::mpi::RankGraph;
using GraphPlan = heed_mpi_graph_attention_plan;

// Plans of all operations.

template <class Plan, class... Given>
void create(Plan** plan, const Given&... given) {
  auto made = std::make_unique<Plan>(given...);
  made->comm.agreed([&] { required(plan, "plan"); });
  *plan = made.release();
}

// NOLINTBEGIN(bugprone-macro-parentheses): they are parts of names
/// The functions that are the same for all operations.
#define HEED_MPI_PLAN_FUNCTIONS(operation, Args)                                                \
  void operation##_plan_destroy(operation##_plan* plan) { delete plan; }                        \
  heed_status operation##_plan_workspace(const operation##_plan* plan, size_t* bytes) {         \
    return guarded([&] { required(bytes, "bytes") = required(plan, "plan").workspace_bytes; }); \
  }                                                                                             \
  heed_status operation##_plan_run(const operation##_plan* plan, const Args* args,              \
                                   void* workspace, size_t workspace_bytes) {                   \
    return guarded([&] { required(plan, "plan").run(args, workspace, workspace_bytes); });      \
  }                                                                                             \
  heed_status operation##_plan_times(const operation##_plan* plan, heed_mpi_times* times) {     \
    return guarded([&] { heed::write_struct(times, required(plan, "plan").times, "times"); });  \
  }
// NOLINTEND(bugprone-macro-parentheses)

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Memory allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  Memory memory(std::aligned_alloc(HEED_WORKSPACE_ALIGNMENT, bytes));
  if (memory == nullptr)
    heed::fail(HEED_STATUS_OUT_OF_MEMORY, "the workspace needs %zu bytes, which are not to be had",
               bytes);
  return memory;
}

template <class Plan, class Args, class... Given>
void run_once(const Args* args, const Given&... given) {
  const Plan plan(given...);
  Memory workspace;
  plan.comm.agreed([&] { workspace = allocate(plan.workspace_bytes); });
  plan.run(args, workspace.get(), plan.workspace_bytes);
}

// Plans of dense attention and its gradients.

heed_status describe(const heed::mpi::Plan* plan, heed_mpi_attention_info* info) {
  return guarded([&] {
    const heed::mpi::Plan& p = required(plan, "plan");
    heed_mpi_attention_info known = HEED_MPI_ATTENTION_INFO_INIT;
    known.choices = static_cast<uint32_t>(p.choices.size());
    known.strategy = p.strategy();
    known.ranks = p.comm.size();
    known.rank = p.comm.rank();
    known.head_ranks = p.head_ranks;
    for (const heed::mpi::Round& round : p.rounds)
      known.rounds += std::any_of(round.calls.begin(), round.calls.end(),
                                  [](const heed::mpi::Call& c) { return c.keys.count > 0; });
    known.flops = p.flops;
    known.bytes = p.sent_bytes;
    known.workspace_bytes = p.workspace_bytes;
    heed::write_struct(info, known, "info");
  });
}

heed_status tell_choice(const heed::mpi::Plan* plan, uint32_t index, heed_mpi_choice* choice) {
  return guarded([&] {
    const heed::mpi::Plan& p = required(plan, "plan");
    if (index >= p.choices.size())
      heed::fail(HEED_STATUS_INVALID_ARGUMENT, "index is %u; it must be below info.choices, %zu",
                 index, p.choices.size());
    heed::write_struct(choice, p.choices[index], "choice");
  });
}

const RankGraph& ranks_of(const heed_mpi_graph* graph) { return *required(graph, "graph").ranks; }

}  // namespace

const char* heed_mpi_last_error(void) { return heed::last_error(); }

heed_status heed_mpi_place(uint32_t placement, int64_t length, int ranks, int rank,
                           heed_mpi_rows rows[2]) {
  return guarded([&] {
    using heed::lld;
    using heed::refuse;
    required(rows, "rows");
    if (placement > HEED_MPI_ZIGZAG)
      refuse("placement is %u; it must be HEED_MPI_CONTIGUOUS (0) or HEED_MPI_ZIGZAG (1)",
             placement);
    if (length < 0 || length > std::int64_t{1} << 40)
      refuse("length is %lld; it must be 0 to 2^40", lld(length));
    if (ranks < 1) refuse("ranks is %d; it must be at least 1", ranks);
    if (rank < 0 || rank >= ranks) refuse("rank is %d; it must be 0 to ranks - 1", rank);
    heed::mpi::place(placement, length, ranks, rank, rows);
  });
}

heed_status heed_mpi_attention_plan_create(MPI_Comm communicator, const heed_context* context,
                                           const heed_mpi_attention_desc* desc,
                                           heed_mpi_attention_plan** plan) {
  return guarded([&] { create(plan, communicator, context, desc); });
}

HEED_MPI_PLAN_FUNCTIONS(heed_mpi_attention, heed_attention_args)

heed_status heed_mpi_attention_plan_describe(const heed_mpi_attention_plan* plan,
                                             heed_mpi_attention_info* info) {
  return describe(plan, info);
}

heed_status heed_mpi_attention_plan_choice(const heed_mpi_attention_plan* plan, uint32_t index,
                                           heed_mpi_choice* choice) {
  return tell_choice(plan, index, choice);
}

heed_status heed_mpi_attention(MPI_Comm communicator, const heed_context* context,
                               const heed_mpi_attention_desc* desc,
                               const heed_attention_args* args) {
  return guarded([&] { run_once<heed_mpi_attention_plan>(args, communicator, context, desc); });
}

heed_status heed_mpi_attention_backward_plan_create(MPI_Comm communicator,
                                                    const heed_context* context,
                                                    const heed_mpi_attention_backward_desc* desc,
                                                    heed_mpi_attention_backward_plan** plan) {
  return guarded([&] { create(plan, communicator, context, desc); });
}

HEED_MPI_PLAN_FUNCTIONS(heed_mpi_attention_backward, heed_attention_backward_args)

heed_status heed_mpi_attention_backward_plan_describe(const heed_mpi_attention_backward_plan* plan,
                                                      heed_mpi_attention_info* info) {
  return describe(plan, info);
}

heed_status heed_mpi_attention_backward_plan_choice(const heed_mpi_attention_backward_plan* plan,
                                                    uint32_t index, heed_mpi_choice* choice) {
  return tell_choice(plan, index, choice);
}

heed_status heed_mpi_attention_backward(MPI_Comm communicator, const heed_context* context,
                                        const heed_mpi_attention_backward_desc* desc,
                                        const heed_attention_backward_args* args) {
  return guarded(
      [&] { run_once<heed_mpi_attention_backward_plan>(args, communicator, context, desc); });
}

// ---- Graphs ------------------------------------------------------------------------------------

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
    const auto node = [&](std::int32_t row) { return g.known[static_cast<std::size_t>(row)]; };
    if (sources != nullptr) std::transform(g.sources.begin(), g.sources.end(), sources, node);
    if (destinations != nullptr)
      std::transform(g.destinations.begin(), g.destinations.end(), destinations, node);
    if (given != nullptr) std::copy(g.places.begin(), g.places.end(), given);
  });
}

heed_status heed_mpi_graph_attention_plan_create(const heed_context* context,
                                                 const heed_mpi_graph* graph,
                                                 const heed_graph_attention_desc* desc,
                                                 heed_mpi_graph_attention_plan** plan) {
  return guarded([&] { create(plan, context, required(graph, "graph"), desc); });
}

HEED_MPI_PLAN_FUNCTIONS(heed_mpi_graph_attention, heed_graph_attention_args)

heed_status heed_mpi_graph_attention_plan_describe(const heed_mpi_graph_attention_plan* plan,
                                                   heed_mpi_graph_attention_info* info) {
  return guarded([&] {
    const GraphPlan& p = required(plan, "plan");
    heed_mpi_graph_attention_info known = HEED_MPI_GRAPH_ATTENTION_INFO_INIT;
    known.ranks = p.comm.size();
    known.rank = p.comm.rank();
    known.steps = p.desc.steps;
    known.step_bytes = p.halo.sent_bytes;
    known.gathered_bytes = p.gathered_bytes;
    known.workspace_bytes = p.workspace_bytes;
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_mpi_graph_attention(const heed_context* context, const heed_mpi_graph* graph,
                                     const heed_graph_attention_desc* desc,
                                     const heed_graph_attention_args* args) {
  return guarded([&] { run_once<GraphPlan>(args, context, required(graph, "graph"), desc); });
}
