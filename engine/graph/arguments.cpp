// Checks the arguments of a run.
#include "engine/graph/problem.hpp"
#include "engine/projection/given.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

void check_no_pointer(const char* field, const void* pointer, const char* when) {
  if (pointer != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s is given; it must be NULL %s", field, when);
}

constexpr const char* kNodes = "nodes";

/// A tensor of so many rows that must be given if, and only if, the problem has it.
void check_used(const char* field, const void* pointer, const Layout& layout, bool used,
                const SizeField& rows, const char* when) {
  if (!used) check_no_pointer(field, pointer, when);
  if (used) check_tensor(field, pointer, layout, {rows});
}
/// One that may be NULL, too.
void check_optional(const char* field, const void* pointer, const Layout& layout, bool used,
                    const char* when) {
  if (!used) check_no_pointer(field, pointer, when);
  if (used) check_pointer(field, pointer, layout, false);
}

void check_nodes(const GraphProblem& p, const heed_graph_attention_args& args) {
  const SizeField nodes = {kNodes, p.nodes};
  const SizeField sources = {kNodes, p.sources};
  const bool projected = p.inputs == HEED_GRAPH_PROJECTED;
  const char* const when = "unless desc.inputs is HEED_GRAPH_PROJECTED (0)";
  check_used("args.query", args.query, p.query, projected, nodes, when);
  check_used("args.key", args.key, p.key, projected, sources, when);
  check_used("args.value", args.value, p.value, projected, sources, when);
  check_used("args.data", args.data, p.data, p.has_data(), nodes,
             "with desc.inputs 0 and desc.residual 0");
}

void check_matrices(const GraphProblem& p, const heed_graph_attention_args& args, Backend backend) {
  const struct {
    GivenMatrix given;
    const Matrix& matrix;
  } all[] = {
      {{"args.w_query", args.w_query, "args.b_query", args.b_query, "args.p_query", args.p_query},
       p.w_query},
      {{"args.w_key", args.w_key, "args.b_key", args.b_key, "args.p_key", args.p_key}, p.w_key},
      {{"args.w_value", args.w_value, "args.b_value", args.b_value, "args.p_value", args.p_value},
       p.w_value}};
  for (const auto& [given, matrix] : all) {
    if (p.inputs == HEED_GRAPH_SHARED) {
      check_given(given, matrix, p.bias, p.float64, {backend, false});
      continue;
    }
    const char* const when = "unless desc.inputs is HEED_GRAPH_SHARED (1)";
    check_no_pointer(given.b_field, given.b, when);
    check_no_pointer(given.p_field, given.p, when);
    if (p.inputs == HEED_GRAPH_PROJECTED) {
      check_no_pointer(given.w_field, given.w, "with desc.inputs 0");
    } else {
      check_tensor(given.w_field, given.w, matrix.layout, {{kNodes, p.nodes}});
    }
  }
}

void check_edges(const GraphProblem& p, const heed_graph_attention_args& args) {
  const bool wide = p.edge_width > 0;
  const char* const when = "with desc.edge_width 0";
  check_used("args.edge_data", args.edge_data, p.edge_data, wide, {"edges", p.edges_given}, when);
  check_optional("args.w_edge_key", args.w_edge_key, p.w_edge_key.layout, wide, when);
  check_optional("args.w_edge_value", args.w_edge_value, p.w_edge_value.layout, wide, when);
  if (wide && args.w_edge_key == nullptr && args.w_edge_value == nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.w_edge_key and args.w_edge_value are NULL; desc.edge_width is %lld",
         static_cast<long long>(p.edge_width));
  check_pointer("args.edge_bias", args.edge_bias, p.edge_bias, false);
}

void check_head_weights(const GraphProblem& p, const heed_graph_attention_args& args) {
  const Layout real = {real_type(p.float64), real_bytes(p.float64), {}};
  check_used("args.head_weights", args.head_weights, real, p.combine == HEED_COMBINE_WEIGHTED,
             {"heads", p.heads}, "unless desc.combine is HEED_COMBINE_WEIGHTED (1)");
}

void check_outputs(const GraphProblem& p, const heed_graph_attention_args& args) {
  check_tensor("args.out", args.out, p.out, {{kNodes, p.nodes}});
  check_pointer("args.lse", args.lse, p.lse, false);
  check_pointer("args.weights", args.weights, p.weights, false);
  if (p.hard && args.lse != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.lse is given; it must be NULL with desc.hard, which has no denominator");
}

}  // namespace

void validate_inputs(const GraphProblem& p, const heed_graph_attention_args& args,
                     Backend backend) {
  check_reserved("args.reserved", args.reserved);
  check_nodes(p, args);
  check_matrices(p, args, backend);
  check_edges(p, args);
  check_head_weights(p, args);
}

void validate(const GraphProblem& p, const heed_graph_attention_args& args, Backend backend) {
  validate_inputs(p, args, backend);
  check_outputs(p, args);
}

}  // namespace heed
