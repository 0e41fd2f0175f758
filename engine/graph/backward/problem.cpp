#include "engine/graph/backward/problem.hpp"

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
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "the graph was made with desc.reverse 0; gradients need 1, edges sorted by source too");
}

/// Checks that the fields of a descriptor share.
class Gradients {
 public:
  Gradients(const heed_graph_attention_backward_desc& desc, GraphBackwardProblem& problem)
      : desc_(desc), p_(problem), of_(problem.attention) {}

  void resolve() {
    const Shape results = {1, of_.out_heads(), of_.nodes, of_.value_features};
    check_type("desc.grad_out", desc_.grad_out.dtype);
    p_.grad_out = input_layout("desc.grad_out", desc_.grad_out, results, real(), true);
    check_lse_type("desc.grad_lse", desc_.grad_lse);
    const Shape lse = {1, of_.heads, of_.nodes, 1};
    p_.grad_lse = input_layout("desc.grad_lse", desc_.grad_lse, lse, real(), true);
    const bool projected = of_.inputs == HEED_GRAPH_PROJECTED;
    const char* const not_projected = "unless desc.attention->inputs is HEED_GRAPH_PROJECTED (0)";
    p_.grad_query = rows("desc.grad_query", desc_.grad_query, of_.nodes, of_.heads, of_.features,
                         projected, not_projected);
    p_.grad_key = rows("desc.grad_key", desc_.grad_key, of_.nodes, of_.heads, of_.features,
                       projected, not_projected);
    p_.grad_value = rows("desc.grad_value", desc_.grad_value, of_.nodes, of_.heads,
                         of_.value_features, projected, not_projected);
    p_.grad_data = rows("desc.grad_data", desc_.grad_data, of_.nodes, 1, of_.width, of_.has_data(),
                        "where nothing has data");
    p_.grad_edge_data = rows("desc.grad_edge_data", desc_.grad_edge_data, of_.edges_given, 1,
                             of_.edge_width, of_.edge_width > 0, kNoEdges);
    const Shape biases = {1, p_.sums_bias ? 1 : of_.heads, of_.edges_given, 1};
    p_.grad_edge_bias =
        output_layout("desc.grad_edge_bias", desc_.grad_edge_bias, biases, real(), true);
    check_steps("desc.grad_edge_bias", p_.grad_edge_bias);
    check_steps("desc.grad_edge_data", p_.grad_edge_data);
    resolve_matrices();
  }

 private:
  static constexpr const char* kNoEdges = "with desc.attention->edge_width 0";

  ElementType real() const { return real_type(of_.float64); }

  /// Gradients are float64 where, and only where, the arithmetic is.
  void check_type(const char* field, std::uint32_t dtype) const {
    if (dtype != HEED_DTYPE_DEFAULT && (dtype == HEED_DTYPE_F64) != of_.float64)
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s.dtype is %u; it must %s, as out is", field, dtype,
           of_.float64 ? "be HEED_DTYPE_F64 (2)" : "not be HEED_DTYPE_F64 (2)");
  }

  /// What edges get from several steps is summed where it lies.
  void check_steps(const char* field, const Layout& layout) const {
    if (of_.steps > 1 && layout.bytes > 0 && layout.bytes < real_bytes(of_.float64))
      fail(HEED_STATUS_UNSUPPORTED,
           "%s has %lld bytes an element; with desc.attention->steps %lld it must have %lld or "
           "more, because the steps are summed there",
           field, static_cast<long long>(layout.bytes), static_cast<long long>(of_.steps),
           static_cast<long long>(real_bytes(of_.float64)));
  }

  void check_unused(const char* field, const heed_layout& given, bool used,
                    const char* when) const {
    if (!used && !is_unset(given))
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s is given; it must be 0 %s", field, when);
  }

  Layout rows(const char* field, const heed_layout& given, std::int64_t count, std::int64_t heads,
              std::int64_t features, bool used, const char* when) const {
    check_unused(field, given, used, when);
    if (!used) return {};
    check_type(field, given.dtype);
    return output_layout(field, given, {1, heads, count, features}, real(), true);
  }

  Matrix matrix(const char* field, const heed_matrix_layout& given, const Matrix& of, bool used,
                bool per_node, const char* when) const {
    const heed_layout layout = {given.dtype, given.reserved,  given.stride_matrix,
                                0,           given.stride_in, given.stride_out};
    check_unused(field, layout, used, when);
    if (!used) return {};
    if (!per_node) return check_matrix(field, given, 0, of.in, of.out, of_.float64, true);
    const Layout own =
        output_layout(field, layout, {of_.nodes, 1, of.in, of.out}, real(), false, kMatrixStrides);
    check_arithmetic(field, own.type, of_.float64);
    check_steps(field, own);
    return {own, of.in, of.in, of.out};
  }

  void resolve_matrices() {
    const bool made = of_.inputs != HEED_GRAPH_PROJECTED;
    const bool per_node = of_.inputs == HEED_GRAPH_PER_NODE;
    const char* const unless = "with desc.attention->inputs 0";
    p_.grad_w_query =
        matrix("desc.grad_w_query", desc_.grad_w_query, of_.w_query, made, per_node, unless);
    p_.grad_w_key = matrix("desc.grad_w_key", desc_.grad_w_key, of_.w_key, made, per_node, unless);
    p_.grad_w_value =
        matrix("desc.grad_w_value", desc_.grad_w_value, of_.w_value, made, per_node, unless);
    const bool edges = of_.edge_width > 0;
    p_.grad_w_edge_key = matrix("desc.grad_w_edge_key", desc_.grad_w_edge_key, of_.w_edge_key,
                                edges, false, kNoEdges);
    p_.grad_w_edge_value = matrix("desc.grad_w_edge_value", desc_.grad_w_edge_value,
                                  of_.w_edge_value, edges, false, kNoEdges);
  }

  const heed_graph_attention_backward_desc& desc_;
  GraphBackwardProblem& p_;
  const GraphProblem& of_;
};

/// The pointers of a run's gradients, by the input that each needs.
struct GradientPointer {
  const char* field;
  const void* gradient;
  const Layout& layout;
  const char* of_field;
  const void* of;
};

void check_prepared(const char* field, const heed_weights* prepared) {
  if (prepared != nullptr)
    fail(HEED_STATUS_UNSUPPORTED, "%s is given; gradients need the matrix as it is, and its bias",
         field);
}

}  // namespace

GraphBackwardProblem validate(const heed_graph& graph,
                              const heed_graph_attention_backward_desc& desc) {
  if (desc.attention == nullptr) fail(HEED_STATUS_INVALID_ARGUMENT, "desc.attention is NULL");
  check_choice("accumulate", desc.accumulate, "a switch", 1);
  GraphBackwardProblem p{};
  p.accumulate = desc.accumulate != 0;
  const heed_graph_attention_desc attention = read_struct(desc.attention, "desc.attention");
  within("desc.attention", [&] {
    check_differentiable(graph, attention);
    p.attention = validate(graph, attention);
  });
  p.sums_bias = p.attention.heads > 1 && p.attention.edge_bias.strides.head == 0;
  Gradients(desc, p).resolve();
  return p;
}

GraphBackwardArgs::GraphBackwardArgs(const heed_graph_attention_backward_args& args)
    : given(args), attention{} {
  if (args.attention == nullptr) fail(HEED_STATUS_INVALID_ARGUMENT, "args.attention is NULL");
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
  check_tensor("args.grad_out", given.grad_out, p.grad_out, {{"nodes", problem.nodes}});
  check_pointer("args.grad_lse", given.grad_lse, p.grad_lse, false);
  const Layout real = {real_type(problem.float64), real_bytes(problem.float64), {}};
  // Tensors without elements may be NULL, and have gradients.
  const auto has = [&](bool has) -> const void* { return has ? &problem : nullptr; };
  const void* const projected = has(problem.inputs == HEED_GRAPH_PROJECTED);
  const void* const made = has(problem.inputs != HEED_GRAPH_PROJECTED);
  const GradientPointer all[] = {
      {"args.grad_query", given.grad_query, p.grad_query, "query", projected},
      {"args.grad_key", given.grad_key, p.grad_key, "key", projected},
      {"args.grad_value", given.grad_value, p.grad_value, "value", projected},
      {"args.grad_data", given.grad_data, p.grad_data, "data", has(problem.has_data())},
      {"args.grad_w_query", given.grad_w_query, p.grad_w_query.layout, "w_query", made},
      {"args.grad_w_key", given.grad_w_key, p.grad_w_key.layout, "w_key", made},
      {"args.grad_w_value", given.grad_w_value, p.grad_w_value.layout, "w_value", made},
      {"args.grad_b_query", given.grad_b_query, real, "b_query", of.b_query},
      {"args.grad_b_key", given.grad_b_key, real, "b_key", of.b_key},
      {"args.grad_b_value", given.grad_b_value, real, "b_value", of.b_value},
      {"args.grad_edge_data", given.grad_edge_data, p.grad_edge_data, "edge_data",
       has(problem.edge_width > 0)},
      {"args.grad_w_edge_key", given.grad_w_edge_key, p.grad_w_edge_key.layout, "w_edge_key",
       of.w_edge_key},
      {"args.grad_w_edge_value", given.grad_w_edge_value, p.grad_w_edge_value.layout,
       "w_edge_value", of.w_edge_value},
      {"args.grad_edge_bias", given.grad_edge_bias, p.grad_edge_bias, "edge_bias", of.edge_bias},
      {"args.grad_head_weights", given.grad_head_weights, real, "head_weights", of.head_weights}};
  for (const GradientPointer& one : all) {
    if (one.gradient == nullptr) continue;
    if (one.of == nullptr)
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s is given; it must be NULL without args.attention->%s",
           one.field, one.of_field);
    check_alignment(one.field, one.gradient, one.layout.bytes);
  }
}

}  // namespace heed
