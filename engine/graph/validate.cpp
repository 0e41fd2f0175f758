#include "engine/graph/graph.hpp"
#include "engine/graph/operands.hpp"
#include "engine/projection/weights.hpp"
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

void check_options(const heed_graph_attention_desc& desc) {
  check_choice("inputs", desc.inputs, "a heed_graph_inputs", HEED_GRAPH_PER_NODE);
  check_choice("combine", desc.combine, "a heed_combine for graphs", HEED_COMBINE_MAX);
  check_choice("residual", desc.residual, "a switch", 1);
  const bool data = desc.inputs != HEED_GRAPH_PROJECTED || desc.residual != 0;
  if (data && desc.width == 0)
    refuse("desc.width is 0; it must be at least 1 with desc.inputs 1 or 2 or desc.residual");
  if (!data && desc.width != 0)
    refuse("desc.width is %lld; it must be 0 without desc.inputs 1 or 2 or desc.residual",
           lld(desc.width));
  if (desc.inputs != HEED_GRAPH_SHARED && desc.bias_dtype != 0)
    refuse("desc.bias_dtype is %u; it must be 0 unless desc.inputs is HEED_GRAPH_SHARED (1)",
           desc.bias_dtype);
  if (desc.inputs == HEED_GRAPH_PROJECTED && desc.steps > 1)
    refuse(
        "desc.steps is %lld; it must be 0 or 1 with desc.inputs 0, whose queries, keys and values "
        "do not change",
        lld(desc.steps));
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
    refuse("desc.width is %lld; with desc.%s it must be that of a row of out, %lld",
           lld(desc.width), desc.residual != 0 ? "residual" : "steps above 1", lld(row));
}

void check_matrices(const GraphProblem& p, const heed_graph_attention_args& args, Backend backend) {
  const struct {
    GivenMatrix given;
    const Matrix& matrix;
  } all[] = {{HEED_GIVEN_MATRIX(args, query), p.w_query},
             {HEED_GIVEN_MATRIX(args, key), p.w_key},
             {HEED_GIVEN_MATRIX(args, value), p.w_value}};
  for (const auto& [given, matrix] : all) {
    if (p.shares_matrices()) {
      check_given(given, matrix, p.float64, {backend, false});
    } else if (given.p != nullptr) {
      refuse("%s is given; it must be NULL %s", given.p_field, kSharesMatrices.unless);
    } else if (!p.is_projected()) {
      check_tensor(given.w_field, given.w, matrix.layout, "nodes", p.nodes);
    }
  }
}

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
  if (graph.source_nodes > 0 && !p.is_projected())
    refuse(
        "desc.inputs is %u; it must be HEED_GRAPH_PROJECTED (0) for a graph with source_nodes, "
        "%lld",
        desc.inputs, lld(graph.source_nodes));
  p.edges_given = graph.edges_given;
  p.heads = desc.heads;
  p.features = desc.features;
  p.value_features = desc.value_features;
  p.edge_width = desc.edge_width;
  p.steps = desc.steps;
  static_cast<Scaling&>(p) = resolve_scaling(ScoreFields::of(desc), p.float64);
  p.dropout = resolve_dropout(desc.dropout, p.hard);
  resolve_widths(desc, p);
  resolve_layouts<kGraphOperands>(&desc, p.float64, p);
  p.bias = check_vector("desc.bias_dtype", desc.bias_dtype, p.float64);
  return p;
}

void validate_inputs(const GraphProblem& p, const heed_graph_attention_args& args,
                     Backend backend) {
  check_reserved("args.reserved", args.reserved);
  check_inputs<kGraphOperands>(p, &args, p.float64);
  check_matrices(p, args, backend);
  check_seeds(p.dropout, args.dropout_seed, args.dropout_offset);
  if (p.divides_by_norms() && args.w_edge_key != nullptr)
    refuse("args.w_edge_key is given; it must be NULL with desc.score HEED_SCORE_COSINE (3)");
  if (p.edge_width > 0 && args.w_edge_key == nullptr && args.w_edge_value == nullptr)
    refuse("args.w_edge_key and args.w_edge_value are NULL; desc.edge_width is %lld",
           lld(p.edge_width));
}

void validate(const GraphProblem& p, const heed_graph_attention_args& args, Backend backend) {
  validate_inputs(p, args, backend);
  check_outputs<kGraphOperands>(p, &args, p.float64);
}

}  // namespace heed
