#include "engine/graph/backward/operands.hpp"
#include "engine/graph/graph.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"

namespace heed {
namespace {

void check_differentiable(const heed_graph& graph, const heed_graph_attention_desc& desc) {
  if (desc.hard != 0)
    fail(HEED_STATUS_UNSUPPORTED,
         "desc.hard is %u; it must be 0: hard attention is not differentiable", desc.hard);
  if (!graph.reversible)
    refuse("the graph was made with desc.reverse 0; gradients need 1, edges sorted by source too");
}

/// Gradients of edges and nodes from several steps are summed where they lie.
void check_steps(const GraphBackwardProblem& p) {
  const GraphProblem& of = p.attention;
  const auto check = [&](const char* field, const Layout& layout) {
    if (of.steps > 1 && layout.bytes > 0 && layout.bytes < real_bytes(of.float64))
      fail(HEED_STATUS_UNSUPPORTED,
           "%s has %lld bytes an element; with desc.attention->steps %lld it must have %lld or "
           "more, because the steps are summed there",
           field, lld(layout.bytes), lld(of.steps), lld(real_bytes(of.float64)));
  };
  check("desc.grad_edge_bias", p.grad_edge_bias);
  check("desc.grad_edge_data", p.grad_edge_data);
  if (of.inputs != HEED_GRAPH_PER_NODE) return;
  check("desc.grad_w_query", p.grad_w_query.layout);
  check("desc.grad_w_key", p.grad_w_key.layout);
  check("desc.grad_w_value", p.grad_w_value.layout);
}

void check_prepared(const char* field, const heed_weights* prepared) {
  if (prepared != nullptr)
    fail(HEED_STATUS_UNSUPPORTED, "%s is given; gradients need the matrix as it is, and its bias",
         field);
}

}  // namespace

GraphBackwardProblem validate(const heed_graph& graph,
                              const heed_graph_attention_backward_desc& desc) {
  if (desc.attention == nullptr) refuse("desc.attention is NULL");
  check_choice("accumulate", desc.accumulate, "a switch", 1);
  GraphBackwardProblem p{};
  p.accumulate = desc.accumulate != 0;
  const heed_graph_attention_desc attention = read_struct(desc.attention, "desc.attention");
  within("desc.attention", [&] {
    check_differentiable(graph, attention);
    p.attention = validate(graph, attention);
  });
  p.sums_bias = p.attention.heads > 1 && p.attention.edge_bias.strides.head == 0;
  resolve_layouts<kGraphBackwardOperands>(&desc, p.attention.float64, p);
  check_steps(p);
  return p;
}

GraphBackwardArgs::GraphBackwardArgs(const heed_graph_attention_backward_args& args)
    : given(args), attention{} {
  if (args.attention == nullptr) refuse("args.attention is NULL");
  attention = read_struct(args.attention, "args.attention");
  attention.out = attention.lse = attention.weights = nullptr;
}

void validate(const GraphBackwardProblem& p, const GraphBackwardArgs& args, Backend backend) {
  const heed_graph_attention_backward_args& given = args.given;
  const heed_graph_attention_args& of = args.attention;
  const GraphProblem& problem = p.attention;
  check_reserved("args.reserved", given.reserved);
  within("args.attention", [&] {
    check_prepared("args.p_query", of.p_query);
    check_prepared("args.p_key", of.p_key);
    check_prepared("args.p_value", of.p_value);
    validate_inputs(problem, of, backend);
  });
  check_pointers<kGraphBackwardOperands>(p, &given, problem.float64, {&of, "args.attention"});
}

}  // namespace heed
