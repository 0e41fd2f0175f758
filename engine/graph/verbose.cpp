#include "engine/graph/plan.hpp"
#include "engine/runtime/error.hpp"
#include "engine/tensor/heads.hpp"

namespace heed {
namespace {

const char* name_of(heed_graph_inputs inputs) {
  switch (inputs) {
    case HEED_GRAPH_PROJECTED:
      return "projected";
    case HEED_GRAPH_SHARED:
      return "shared";
    case HEED_GRAPH_PER_NODE:
      return "per-node";
  }
  return "?";
}

Text options_of(const GraphProblem& p, const heed_graph_attention_args& args) {
  Text text;
  if (p.inputs == HEED_GRAPH_PROJECTED) {
    text.add(" %s,%s,%s->%s", name_of(p.query.type), name_of(p.key.type), name_of(p.value.type),
             name_of(p.out.type));
  } else {
    text.add(" %s->%s width=%lld", name_of(p.data.type), name_of(p.out.type),
             static_cast<long long>(p.width));
  }
  if (p.edge_width > 0) text.add(" edge_width=%lld", static_cast<long long>(p.edge_width));
  if (p.softcap > 0) text.add(" softcap=%g", p.softcap);
  text.add_if(args.edge_bias != nullptr, " bias");
  if (p.temperature != 1) text.add(" temperature=%g", p.temperature);
  text.add_if(p.hard, " hard");
  text.add_if(p.residual, " residual");
  if (p.steps > 1) text.add(" steps=%lld", static_cast<long long>(p.steps));
  text.add_if(args.lse != nullptr, " lse");
  text.add_if(args.weights != nullptr, " weights");
  return text;
}

}  // namespace

void print_graph(const char* what, const heed_graph_attention_plan& plan, const GraphProblem& p,
                 const heed_graph_attention_args& args, std::size_t tasks, double gathered_bytes,
                 double seconds) noexcept {
  const heed_context& c = *plan.context;
  const double bytes = gathered_bytes * static_cast<double>(p.steps);
  tell(
      "%s N%lld E%lld H%lld D%lld Dv%lld %s scale %.6g %s%s, %s %s x%u, "
      "%zu tasks, %.3f ms, %.2f GB/s gathered",
      what, static_cast<long long>(p.nodes), static_cast<long long>(plan.graph->edges),
      static_cast<long long>(p.heads), static_cast<long long>(p.features),
      static_cast<long long>(p.value_features), name_of(p.inputs), p.scale, name_of(p.combine),
      options_of(p, args).c_str(), c.kernels->f32.isa, c.threads.name, plan.workers, tasks,
      seconds * 1e3, seconds > 0 ? bytes / seconds * 1e-9 : 0.0);
}

void print_run(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
               double seconds) noexcept {
  print_graph("graph", plan, plan.problem, args, plan.graph->parts.size(), plan.gathered_bytes,
              seconds);
}

}  // namespace heed
