#include "engine/graph/graph.hpp"
#include "engine/graph/problem.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

void check_sizes(const heed_graph_attention_desc& desc) {
  check_size("heads", desc.heads, 1);
  check_size("features", desc.features, 1);
  check_size("value_features", desc.value_features, 1);
  check_size("width", desc.width, 0);
  check_size("edge_width", desc.edge_width, 0);
  check_size("steps", desc.steps, 1);
}

/// A size that must be 0 if no tensor has it, and must not be otherwise.
void check_needed(const char* field, std::int64_t value, bool needed, const char* when) {
  if (needed && value == 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s is 0; it must be at least 1 with %s", field, when);
  if (!needed && value != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s is %lld; it must be 0 without %s", field,
         static_cast<long long>(value), when);
}

void check_options(const heed_graph_attention_desc& desc) {
  check_choice("inputs", desc.inputs, "a heed_graph_inputs", HEED_GRAPH_PER_NODE);
  check_choice("combine", desc.combine, "a heed_combine for graphs", HEED_COMBINE_MAX);
  check_choice("residual", desc.residual, "a switch", 1);
  const bool data = desc.inputs != HEED_GRAPH_PROJECTED || desc.residual != 0;
  check_needed("width", desc.width, data, "desc.inputs 1 or 2 or desc.residual");
  if (desc.inputs != HEED_GRAPH_SHARED && desc.bias_dtype != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.bias_dtype is %u; it must be 0 unless desc.inputs is HEED_GRAPH_SHARED (1)",
         desc.bias_dtype);
  if (desc.inputs == HEED_GRAPH_PROJECTED && desc.steps > 1)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.steps is %lld; it must be 0 or 1 with desc.inputs 0, whose queries, keys and values "
         "do not change",
         static_cast<long long>(desc.steps));
}

void resolve_widths(const heed_graph_attention_desc& desc, GraphProblem& p) {
  const auto width = [&](const char* field, std::int64_t features) {
    return (Size(desc.heads) * features)
        .checked("a row of all heads", {{"desc.heads", desc.heads}, {field, features}});
  };
  p.width = desc.width;
  p.keys_width = width("desc.features", desc.features);
  p.values_width = width("desc.value_features", desc.value_features);
  const std::int64_t row =
      desc.combine == HEED_COMBINE_CONCAT ? p.values_width : desc.value_features;
  if ((desc.residual != 0 || desc.steps > 1) && desc.width != row)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.width is %lld; with desc.%s it must be that of a row of out, %lld",
         static_cast<long long>(desc.width), desc.residual != 0 ? "residual" : "steps above 1",
         static_cast<long long>(row));
}

/// Refuses a layout that is not 0 although the problem has no such tensor.
void check_unused(const char* field, const heed_layout& given, bool used, const char* when) {
  const bool zero = given.dtype == 0 && given.reserved == 0 && given.stride_batch == 0 &&
                    given.stride_head == 0 && given.stride_row == 0 && given.stride_feature == 0;
  if (!used && !zero)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s is given; it must be 0 %s", field, when);
}

/// Checks that the fields of a descriptor share.
class Layouts {
 public:
  Layouts(const heed_graph_attention_desc& desc, GraphProblem& problem)
      : desc_(desc), p_(problem) {}

  void resolve() {
    const bool projected = p_.inputs == HEED_GRAPH_PROJECTED;
    const char* const not_projected = "unless desc.inputs is HEED_GRAPH_PROJECTED (0)";
    const char* const no_data = "where nothing has data";
    const char* const no_edges = "with desc.edge_width 0";
    p_.query =
        input("desc.query", desc_.query, nodes(p_.heads, p_.features), projected, not_projected);
    p_.key = input("desc.key", desc_.key, sources(p_.heads, p_.features), projected, not_projected);
    p_.value = input("desc.value", desc_.value, sources(p_.heads, p_.value_features), projected,
                     not_projected);
    p_.data = input("desc.data", desc_.data, nodes(1, p_.width), p_.has_data(), no_data);
    p_.edge_data = input("desc.edge_data", desc_.edge_data, edges(1, p_.edge_width),
                         p_.edge_width > 0, no_edges);
    p_.edge_bias =
        input_layout("desc.edge_bias", desc_.edge_bias, edges(p_.heads, 1).of, real(), true);
    p_.out = output_layout("desc.out", desc_.out, nodes(p_.out_heads(), p_.value_features).of,
                           ElementType::kF32, true);
    p_.lse = output_layout("desc.lse", desc_.lse, nodes(p_.heads, 1).of, real(), true);
    check_lse_type("desc.lse", desc_.lse);
    p_.weights = output_layout("desc.weights", desc_.weights, edges(p_.heads, 1).of, real(), true);
    resolve_matrices();
  }

 private:
  struct Sizes {
    Shape of;
  };
  Sizes nodes(std::int64_t heads, std::int64_t features) const {
    return {{1, heads, p_.nodes, features}};
  }
  Sizes sources(std::int64_t heads, std::int64_t features) const {
    return {{1, heads, p_.sources, features}};
  }
  Sizes edges(std::int64_t heads, std::int64_t features) const {
    return {{1, heads, p_.edges_given, features}};
  }
  ElementType real() const { return real_type(p_.float64); }

  Layout input(const char* field, const heed_layout& given, const Sizes& sizes, bool used,
               const char* unless) const {
    check_unused(field, given, used, unless);
    if (!used) return {};
    const Layout layout = input_layout(field, given, sizes.of, real(), true);
    check_arithmetic(field, layout.type, p_.float64);
    return layout;
  }

  /// One matrix, or one per node.
  Matrix matrix(const char* field, const heed_matrix_layout& given, std::int64_t in,
                std::int64_t out, bool used, bool per_node, const char* unless) const {
    const heed_layout layout = {given.dtype, given.reserved,  given.stride_matrix,
                                0,           given.stride_in, given.stride_out};
    check_unused(field, layout, used, unless);
    if (!used) return {};
    if (!per_node) return check_matrix(field, given, 0, in, out, p_.float64);
    const Layout nodes =
        input_layout(field, layout, {p_.nodes, 1, in, out}, real(), false, kMatrixStrides);
    check_arithmetic(field, nodes.type, p_.float64);
    return {nodes, in, in, out};
  }

  void resolve_matrices() {
    const bool made = p_.inputs != HEED_GRAPH_PROJECTED;
    const bool per_node = p_.inputs == HEED_GRAPH_PER_NODE;
    const std::int64_t keys = p_.keys_width;
    const std::int64_t values = p_.values_width;
    const char* const unless = "with desc.inputs 0";
    p_.w_query = matrix("desc.w_query", desc_.w_query, p_.width, keys, made, per_node, unless);
    p_.w_key = matrix("desc.w_key", desc_.w_key, p_.width, keys, made, per_node, unless);
    p_.w_value = matrix("desc.w_value", desc_.w_value, p_.width, values, made, per_node, unless);
    p_.bias = check_vector("desc.bias_dtype", desc_.bias_dtype, p_.float64);
    const bool edges = p_.edge_width > 0;
    const char* const no_edges = "with desc.edge_width 0";
    p_.w_edge_key =
        matrix("desc.w_edge_key", desc_.w_edge_key, p_.edge_width, keys, edges, false, no_edges);
    p_.w_edge_value = matrix("desc.w_edge_value", desc_.w_edge_value, p_.edge_width, values, edges,
                             false, no_edges);
  }

  const heed_graph_attention_desc& desc_;
  GraphProblem& p_;
};

}  // namespace

GraphProblem validate(const heed_graph& graph, const heed_graph_attention_desc& given) {
  heed_graph_attention_desc desc = given;
  if (desc.value_features == 0) desc.value_features = desc.features;
  if (desc.steps == 0) desc.steps = 1;
  check_sizes(desc);
  check_options(desc);
  GraphProblem p{};
  p.inputs = static_cast<heed_graph_inputs>(desc.inputs);
  p.combine = static_cast<heed_combine>(desc.combine);
  p.residual = desc.residual != 0;
  p.float64 = desc.out.dtype == HEED_DTYPE_F64;
  p.nodes = graph.nodes;
  p.sources = graph.sources();
  if (graph.source_nodes > 0 && p.inputs != HEED_GRAPH_PROJECTED)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.inputs is %u; it must be HEED_GRAPH_PROJECTED (0) for a graph with source_nodes, "
         "%lld",
         desc.inputs, static_cast<long long>(graph.source_nodes));
  p.edges_given = graph.edges_given;
  p.heads = desc.heads;
  p.features = desc.features;
  p.value_features = desc.value_features;
  p.edge_width = desc.edge_width;
  p.steps = desc.steps;
  static_cast<Scaling&>(p) = resolve_scaling(desc.scale, desc.softcap, desc.temperature, desc.hard,
                                             desc.features, p.float64);
  resolve_widths(desc, p);
  Layouts(desc, p).resolve();
  return p;
}

}  // namespace heed
