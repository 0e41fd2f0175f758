#include "engine/mpi/graph/plan.hpp"

#include <algorithm>
#include <climits>
#include <cstring>

#include "engine/runtime/structs.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed::mpi {
namespace {

GraphPlan make_graph_plan(const heed_context& context, const LocalGraph& graph,
                          const heed_graph_attention_desc& desc) {
  const heed_graph* const over = graph.get();
  return make<GraphPlan>(heed_graph_attention_plan_create, &context, over, &desc);
}

/// So many nodes without edges: for heed's checks, and for products of nodes alone.
LocalGraph unconnected(const heed_context& context, std::int64_t nodes) {
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.nodes = nodes;
  return make<LocalGraph>(heed_graph_create, &context, &desc);
}

/// Rows of such heads, side by side.
heed_layout rows_of(std::uint32_t dtype, std::int64_t heads, std::int64_t features) {
  return {dtype, HEED_STRIDES_EXPLICIT, 0, features, heads * features, 1};
}

/// With its strides said explicitly; a dtype of 0 is `real`.
heed_layout explicit_rows(const heed_layout& given, std::uint32_t real, std::int64_t heads,
                          std::int64_t features) {
  heed_layout layout = given;
  if (layout.dtype == HEED_DTYPE_DEFAULT) layout.dtype = real;
  const bool unset = given.stride_head == 0 && given.stride_row == 0 && given.stride_feature == 0;
  if (given.reserved == HEED_STRIDES_EXPLICIT || !unset) return layout;
  return rows_of(layout.dtype, heads, features);
}

double gathered_by(const GraphPlan& plan) {
  heed_graph_attention_info info = HEED_GRAPH_ATTENTION_INFO_INIT;
  if (plan != nullptr) check(heed_graph_attention_plan_describe(plan.get(), &info));
  return info.gathered_bytes;
}

/// Keys and values of a node side by side: where values begin, where the row ends, and the next.
struct KeyValueRow {
  std::int64_t value, end, stride;
};
KeyValueRow key_value_row(const heed_layout& key, std::int64_t keys, const heed_layout& value,
                          std::int64_t values) {
  const auto bytes = [](const heed_layout& layout) {
    return static_cast<std::int64_t>(bytes_of(layout.dtype));
  };
  KeyValueRow row = {};
  row.value = round_up(keys * bytes(key), bytes(value));
  row.end = row.value + values * bytes(value);
  row.stride = round_up(row.end, std::int64_t{HEED_WORKSPACE_ALIGNMENT});
  return row;
}

}  // namespace
}  // namespace heed::mpi

using namespace heed::mpi;
namespace mpi = heed::mpi;

heed_mpi_graph_attention_plan::heed_mpi_graph_attention_plan(const heed_context* context,
                                                             const heed_mpi_graph& over,
                                                             const heed_graph_attention_desc* given)
    : RankPlan("graph attention"), graph(over.ranks), comm(graph->comm) {
  comm.agreed([&] { read_desc(context, given); });
  compare();
  comm.agreed([&] {
    if (graph->alone) {
      whole = make_graph_plan(*context, graph->inner.graph, asked);
      workspace_bytes = call_bytes = std::max(workspace_of(whole), workspace_of(empty));
      gathered_bytes = gathered_by(whole);
      return;
    }
    plan_rows();
    plan_stage(*context, first, desc.data);
    if (desc.steps > 1) plan_stage(*context, later, rows_of(desc.out.dtype, 1, desc.width));
    gathered_bytes = gathered_by(first.inner) + gathered_by(first.border);
    plan_workspace();
  });
}

void heed_mpi_graph_attention_plan::read_desc(const heed_context* context,
                                              const heed_graph_attention_desc* given) {
  Communicator::check_thread();
  const heed_context& c = heed::required(context, "context");
  asked = desc = heed::read_struct(given, "desc");
  // heed's own checks, of options and of layouts.
  make_graph_plan(c, unconnected(c, graph->own_nodes()), asked);
  empty = make_graph_plan(c, unconnected(c, 0), asked);
  if (desc.value_features == 0) desc.value_features = desc.features;
  if (desc.steps == 0) desc.steps = 1;
  detail = std::to_string(desc.steps) + " steps";
  const std::uint32_t real = desc.out.dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  desc.query = explicit_rows(desc.query, real, desc.heads, desc.features);
  desc.key = explicit_rows(desc.key, real, desc.heads, desc.features);
  desc.value = explicit_rows(desc.value, real, desc.heads, desc.value_features);
  desc.data = explicit_rows(desc.data, real, 1, desc.width);
  desc.edge_data = explicit_rows(desc.edge_data, real, 1, desc.edge_width);
  desc.edge_bias = explicit_rows(desc.edge_bias, real, desc.heads, 1);
  desc.weights = explicit_rows(desc.weights, real, desc.heads, 1);
  desc.out = explicit_rows(desc.out, HEED_DTYPE_F32, out_heads(), desc.value_features);
  desc.lse = explicit_rows(desc.lse, real, desc.heads, 1);
}

void heed_mpi_graph_attention_plan::compare() const {
  const Field fields[] = {mpi::whole("inputs", desc.inputs),
                          mpi::whole("heads", desc.heads),
                          mpi::whole("features", desc.features),
                          mpi::whole("value_features", desc.value_features),
                          mpi::whole("width", desc.width),
                          mpi::whole("edge_width", desc.edge_width),
                          mpi::whole("steps", desc.steps),
                          mpi::real("scale", desc.scale),
                          mpi::real("softcap", desc.softcap),
                          mpi::real("temperature", desc.temperature),
                          mpi::real("dropout", desc.dropout),
                          mpi::whole("hard", desc.hard),
                          mpi::whole("score", desc.score),
                          mpi::whole("activation", desc.activation),
                          mpi::real("slope", desc.slope),
                          mpi::whole("combine", desc.combine),
                          mpi::whole("residual", desc.residual),
                          mpi::whole("query.dtype", desc.query.dtype),
                          mpi::whole("key.dtype", desc.key.dtype),
                          mpi::whole("value.dtype", desc.value.dtype),
                          mpi::whole("data.dtype", desc.data.dtype),
                          mpi::whole("out.dtype", desc.out.dtype)};
  heed::mpi::compare(comm, fields);
}

void heed_mpi_graph_attention_plan::plan_rows() {
  const std::int64_t keys = desc.heads * desc.features;
  const std::int64_t values = desc.heads * desc.value_features;
  const KeyValueRow row = key_value_row(desc.key, keys, desc.value, values);
  const auto side_by_side = [&](const heed_layout& given, std::int64_t features) {
    const auto stride = row.stride / static_cast<std::int64_t>(bytes_of(given.dtype));
    return heed_layout{given.dtype, HEED_STRIDES_EXPLICIT, 0, features, stride, 1};
  };
  local.query = rows_of(desc.query.dtype, desc.heads, desc.features);
  local.key = side_by_side(desc.key, desc.features);
  local.value = side_by_side(desc.value, desc.value_features);
  local.out = rows_of(desc.out.dtype, out_heads(), desc.value_features);
  local.lse = rows_of(desc.lse.dtype, desc.heads, 1);
  workspace.value = static_cast<std::size_t>(row.value);
  row_bytes = static_cast<std::size_t>(row.stride);
  halo = Halo(*graph, static_cast<std::size_t>(row.end), row_bytes);
  sent_bytes = halo.sent_bytes() * static_cast<double>(desc.steps);
}

void heed_mpi_graph_attention_plan::plan_stage(const heed_context& context, Stage& stage,
                                               const heed_layout& data) {
  stage.data = data;
  heed_graph_attention_desc call = asked;
  call.steps = 1;
  if (projects()) {
    if (&stage == &later) call.data = data;
    stage.project = make_graph_plan(context, unconnected(context, graph->own_nodes()), call);
  }
  stage.inner = plan_share(context, graph->inner, call, data);
  stage.border = plan_share(context, graph->border, call, data);
}

GraphPlan heed_mpi_graph_attention_plan::plan_share(const heed_context& context, const Share& share,
                                                    heed_graph_attention_desc call,
                                                    const heed_layout& data) const {
  if (share.graph == nullptr) return nullptr;
  const bool in_place = share.in_place;
  call.inputs = HEED_GRAPH_PROJECTED;
  call.query = in_place ? query_layout() : local.query;
  call.key = local.key;
  call.value = local.value;
  call.out = in_place ? out_layout() : local.out;
  call.lse = in_place ? desc.lse : local.lse;
  call.width = desc.residual != 0 ? desc.width : 0;
  call.data = {};
  if (desc.residual != 0) call.data = in_place ? data : rows_of(data.dtype, 1, desc.width);
  call.w_query = call.w_key = call.w_value = heed_matrix_layout{};
  call.bias_dtype = 0;
  return make_graph_plan(context, share.graph, call);
}

void heed_mpi_graph_attention_plan::plan_workspace() {
  heed::Offsets offsets;
  const auto rows = [&](std::int64_t count, const heed_layout& layout) {
    return offsets.take(count, layout.stride_row,
                        static_cast<std::int64_t>(bytes_of(layout.dtype)));
  };
  const std::int64_t known = graph->rows();
  const std::int64_t own = graph->own_nodes();
  workspace.key_value = offsets.take(known, static_cast<std::int64_t>(row_bytes), 1);
  workspace.packed =
      offsets.take(halo.packed_rows(), static_cast<std::int64_t>(halo.row_bytes()), 1);
  workspace.query = rows(projects() ? own : 0, local.query);
  for (std::size_t& next : workspace.next) next = rows(desc.steps > 1 ? own : 0, local.out);
  const auto few =
      static_cast<std::int64_t>(std::min(graph->inner.nodes.size(), graph->border.nodes.size()));
  workspace.few.query = rows(few, local.query);
  workspace.few.out = rows(few, local.out);
  workspace.few.lse = rows(few, local.lse);
  if (desc.residual != 0) {
    const bool wider = bytes_of(first.data.dtype) < bytes_of(desc.out.dtype) && desc.steps > 1;
    const heed_layout& widest = wider ? later.data : first.data;
    workspace.few.data = rows(few, rows_of(widest.dtype, 1, desc.width));
  }
  call_bytes = workspace_of(empty);
  for (const Stage* stage : {&first, &later})
    for (const GraphPlan* plan : {&stage->project, &stage->inner, &stage->border})
      call_bytes = std::max(call_bytes, workspace_of(*plan));
  workspace.calls = offsets.take_bytes(call_bytes);
  workspace.requests =
      offsets.take(static_cast<std::int64_t>(halo.messages()), 1, sizeof(MPI_Request));
  workspace_bytes = offsets.end("the workspace", {{"nodes", known},
                                                  {"desc.heads", desc.heads},
                                                  {"desc.features", desc.features},
                                                  {"desc.value_features", desc.value_features}});
}
