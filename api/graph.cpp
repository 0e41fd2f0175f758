// The C boundary of graphs and attention over them.
#include "engine/graph/graph.hpp"

#include "api/heed.h"
#include "api/shim.hpp"
#include "engine/graph/backward/plan.hpp"
#include "engine/graph/plan.hpp"
#include "engine/runtime/structs.hpp"

using heed::guarded;
using heed::required;

heed_status heed_graph_create(const heed_context* context, const heed_graph_desc* desc,
                              heed_graph** graph) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    heed_graph*& result = required(graph, "graph");
    const heed_graph_desc known = heed::read_struct(desc, "desc");
    heed::validate(known);
    if (c.checked) heed::audit_edges(known);
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
    known.reverse = g.reversible ? 1 : 0;
    known.nodes = g.nodes;
    known.edges = g.edges;
    known.edges_given = g.edges_given;
    known.isolated = g.isolated;
    known.most = g.most;
    known.bytes = g.all_bytes();
    known.source_nodes = g.source_nodes;
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_graph_attention_plan_create(const heed_context* context, const heed_graph* graph,
                                             const heed_graph_attention_desc* desc,
                                             heed_graph_attention_plan** plan) {
  return heed::create_plan(plan, context, graph, desc);
}

HEED_PLAN_FUNCTIONS(heed_graph_attention)

heed_status heed_graph_attention_plan_describe(const heed_graph_attention_plan* plan,
                                               heed_graph_attention_info* info) {
  return guarded([&] {
    const heed_graph_attention_plan& p = required(plan, "plan");
    heed_graph_attention_info known = HEED_GRAPH_ATTENTION_INFO_INIT;
    heed::describe_plan(p, known);
    known.threads = p.workers;
    known.tasks = p.graph->ranges.size();
    known.gathered_bytes = p.gathered_bytes;
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_graph_attention_plan_project(const heed_graph_attention_plan* plan,
                                              const heed_graph_attention_args* args,
                                              void* workspace, size_t workspace_bytes,
                                              heed_graph_projections* projections) {
  return guarded([&] {
    const heed_graph_attention_plan& p = required(plan, "plan");
    const auto known = heed::read_struct(args, "args");
    heed::checked_struct_size(projections, "projections");
    heed_graph_projections made;
    if (!p.context->checked) {
      made = heed::project_plan(p, known, workspace, workspace_bytes);
    } else {
      const heed::CheckedWorkspace lent(p.workspace_bytes(), workspace, workspace_bytes);
      lent.place_canaries();
      made = heed::project_plan(p, known, lent.get(), p.workspace_bytes());
      lent.check_canaries();
    }
    heed::write_struct(projections, made, "projections");
  });
}

heed_status heed_graph_attention(const heed_context* context, const heed_graph* graph,
                                 const heed_graph_attention_desc* desc,
                                 const heed_graph_attention_args* args) {
  return heed::run_once(args, context, graph, desc);
}

heed_status heed_graph_attention_backward_plan_create(
    const heed_context* context, const heed_graph* graph,
    const heed_graph_attention_backward_desc* desc, heed_graph_attention_backward_plan** plan) {
  return heed::create_plan(plan, context, graph, desc);
}

HEED_PLAN_FUNCTIONS(heed_graph_attention_backward)

heed_status heed_graph_attention_backward_plan_describe(
    const heed_graph_attention_backward_plan* plan, heed_graph_attention_info* info) {
  return guarded([&] {
    const heed_graph_attention_backward_plan& p = required(plan, "plan");
    heed_graph_attention_info known = HEED_GRAPH_ATTENTION_INFO_INIT;
    heed::describe_plan(p, known);
    known.threads = p.attention.workers;
    known.tasks = p.graph->ranges.size() + p.graph->outgoing.ranges.size();
    known.gathered_bytes = p.gathered_bytes;
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_graph_attention_backward(const heed_context* context, const heed_graph* graph,
                                          const heed_graph_attention_backward_desc* desc,
                                          const heed_graph_attention_backward_args* args) {
  return heed::run_once(args, context, graph, desc);
}
