// The C boundary of graphs and attention over them.
#include "engine/graph/graph.hpp"

#include "api/heed.h"
#include "api/shim.hpp"
#include "engine/check/edges.hpp"
#include "engine/graph/attention.hpp"
#include "engine/graph/plan.hpp"
#include "engine/graph/verbose.hpp"
#include "engine/runtime/structs.hpp"

namespace {

using heed::guarded;
using heed::OwnedWorkspace;
using heed::required;

heed_graph_attention_plan plan_of(const heed_context& context, const heed_graph& graph,
                                  const heed_graph_attention_desc* desc) {
  return heed::make_plan(context, graph, heed::validate(graph, heed::read_struct(desc, "desc")));
}

void run(const heed_graph_attention_plan& plan, const heed_graph_attention_args* args,
         void* workspace, std::size_t bytes) {
  const heed_graph_attention_args known = heed::read_struct(args, "args");
  heed::run_between_checks(
      plan, known, plan.space.bytes, workspace, bytes, [&](void* memory, std::size_t size) {
        heed::run_and_tell(
            *plan.context, [&] { heed::run_attention(plan, known, memory, size); },
            [&](double seconds) { heed::print_run(plan, known, seconds); });
      });
}

std::size_t lent_bytes(const heed_graph_attention_plan& plan) {
  return heed::with_canaries(*plan.context, plan.space.bytes);
}

}  // namespace

heed_status heed_graph_create(const heed_context* context, const heed_graph_desc* desc,
                              heed_graph** graph) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    heed_graph*& result = required(graph, "graph");
    const heed_graph_desc known = heed::read_struct(desc, "desc");
    heed::validate(known);
    if (c.checked) heed::check_given_edges(known);
    result = heed::make_graph(c, known);
  });
}

void heed_graph_destroy(heed_graph* graph) {
  if (graph != nullptr) heed::release(graph);
}

heed_status heed_graph_describe(const heed_graph* graph, heed_graph_info* info) {
  return guarded([&] {
    const heed_graph& g = required(graph, "graph");
    heed_graph_info known = HEED_GRAPH_INFO_INIT;
    known.nodes = g.nodes;
    known.edges = g.edges;
    known.edges_given = g.edges_given;
    known.isolated = g.isolated;
    known.most = g.most;
    known.bytes = heed::bytes_of(g);
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_graph_attention_plan_create(const heed_context* context, const heed_graph* graph,
                                             const heed_graph_attention_desc* desc,
                                             heed_graph_attention_plan** plan) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    const heed_graph& g = required(graph, "graph");
    heed_graph_attention_plan*& result = required(plan, "plan");
    result = heed::make<heed_graph_attention_plan>(c.allocator, plan_of(c, g, desc));
    heed::share(c);
    heed::share(g);
  });
}

void heed_graph_attention_plan_destroy(heed_graph_attention_plan* plan) {
  if (plan == nullptr) return;
  const heed_context* const context = plan->context;
  const heed_graph* const graph = plan->graph;
  heed::destroy(context->allocator, plan);
  heed::release(graph);
  heed::release(context);
}

heed_status heed_graph_attention_plan_describe(const heed_graph_attention_plan* plan,
                                               heed_graph_attention_info* info) {
  return guarded([&] {
    const heed_graph_attention_plan& p = required(plan, "plan");
    heed_graph_attention_info known = HEED_GRAPH_ATTENTION_INFO_INIT;
    known.threads = p.workers;
    known.isa = p.context->kernels->f32.isa;
    known.executor = p.context->threads.name;
    known.tasks = p.graph->parts.size();
    known.workspace_bytes = lent_bytes(p);
    known.gathered_bytes = p.gathered_bytes;
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_graph_attention_plan_workspace(const heed_graph_attention_plan* plan,
                                                size_t* bytes) {
  return guarded([&] { required(bytes, "bytes") = lent_bytes(required(plan, "plan")); });
}

heed_status heed_graph_attention_plan_run(const heed_graph_attention_plan* plan,
                                          const heed_graph_attention_args* args, void* workspace,
                                          size_t workspace_bytes) {
  return guarded([&] { run(required(plan, "plan"), args, workspace, workspace_bytes); });
}

heed_status heed_graph_attention(const heed_context* context, const heed_graph* graph,
                                 const heed_graph_attention_desc* desc,
                                 const heed_graph_attention_args* args) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    const heed_graph_attention_plan plan = plan_of(c, required(graph, "graph"), desc);
    const std::size_t bytes = lent_bytes(plan);
    const OwnedWorkspace workspace(c.allocator, bytes);
    run(plan, args, workspace.get(), bytes);
  });
}
