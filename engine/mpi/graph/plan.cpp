#include "engine/mpi/graph/plan.hpp"

#include <algorithm>
#include <climits>
#include <cstring>

#include "engine/runtime/structs.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed::mpi {
namespace {

/// A plan over so many nodes without edges: for heed's checks, and for products of nodes alone.
GraphPlan make_unconnected_plan(const heed_context& context, std::int64_t nodes,
                                const heed_graph_attention_desc& desc) {
  heed_graph_desc graph = HEED_GRAPH_DESC_INIT;
  graph.nodes = nodes;
  return make<heed_graph_attention_plan>(&context, make<heed_graph>(&context, &graph).get(), &desc);
}

/// Rows with such heads side by side.
heed_layout rows_of(std::uint32_t dtype, std::int64_t heads, std::int64_t features) {
  return {dtype, HEED_STRIDES_EXPLICIT, 0, features, heads * features, 1};
}

/// The layout with its strides said explicitly; a dtype of 0 becomes `real`.
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

}  // namespace
}  // namespace heed::mpi

using namespace heed::mpi;

heed_mpi_graph_attention_plan::heed_mpi_graph_attention_plan(const heed_context* context,
                                                             const heed_mpi_graph& over,
                                                             const heed_graph_attention_desc* given)
    : RankPlan("graph attention"), graph(over.ranks), comm(graph->comm) {
  comm.agreed([&] { read_desc(context, given); });
#define SAME(field) same(#field, desc.field)
  compare(comm, [&] {
    return std::vector<Field>{
        SAME(inputs),     SAME(heads),       SAME(features),  SAME(value_features),
        SAME(width),      SAME(edge_width),  SAME(steps),     SAME(scale),
        SAME(softcap),    SAME(temperature), SAME(dropout),   SAME(hard),
        SAME(score),      SAME(activation),  SAME(slope),     SAME(combine),
        SAME(residual),   SAME(query.dtype), SAME(key.dtype), SAME(value.dtype),
        SAME(data.dtype), SAME(out.dtype)};
  });
#undef SAME
  comm.agreed([&] {
    if (graph->alone) {
      whole = make<heed_graph_attention_plan>(context, graph->inner.graph.get(), &asked);
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
  // heed itself checks options and layouts.
  make_unconnected_plan(c, graph->own_nodes(), asked);
  empty = make_unconnected_plan(c, 0, asked);
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

void heed_mpi_graph_attention_plan::plan_rows() {
  const auto key_bytes = static_cast<std::int64_t>(bytes_of(desc.key.dtype));
  const auto value_bytes = static_cast<std::int64_t>(bytes_of(desc.value.dtype));
  const std::int64_t value = heed::round_up(desc.heads * desc.features * key_bytes, value_bytes);
  const std::int64_t end = value + desc.heads * desc.value_features * value_bytes;
  const std::int64_t stride = heed::round_up(end, std::int64_t{HEED_WORKSPACE_ALIGNMENT});
  workspace.key.layout = rows_of(desc.key.dtype, desc.heads, desc.features);
  workspace.key.layout.stride_row = stride / key_bytes;
  workspace.value.layout = rows_of(desc.value.dtype, desc.heads, desc.value_features);
  workspace.value.layout.stride_row = stride / value_bytes;
  workspace.value.at = static_cast<std::size_t>(value);  // in a row, which begins with the key
  workspace.query.layout = rows_of(desc.query.dtype, desc.heads, desc.features);
  for (Buffer& next : workspace.next)
    next.layout = rows_of(desc.out.dtype, out_heads(), desc.value_features);
  workspace.few.query.layout = workspace.query.layout;
  workspace.few.out.layout = workspace.next[0].layout;
  workspace.few.lse.layout = rows_of(desc.lse.dtype, desc.heads, 1);
  halo = Halo(*graph, static_cast<std::size_t>(end), static_cast<std::size_t>(stride));
  sent_bytes = halo.sent_bytes * static_cast<double>(desc.steps);
}

void heed_mpi_graph_attention_plan::plan_stage(const heed_context& context, Stage& stage,
                                               const heed_layout& data) {
  stage.data = data;
  heed_graph_attention_desc call = asked;
  call.steps = 1;
  if (projects()) {
    if (&stage == &later) call.data = data;
    stage.project = make_unconnected_plan(context, graph->own_nodes(), call);
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
  call.query = in_place ? query_layout() : workspace.few.query.layout;
  call.key = workspace.key.layout;
  call.value = workspace.value.layout;
  call.out = in_place ? out_layout() : workspace.few.out.layout;
  call.lse = in_place ? desc.lse : workspace.few.lse.layout;
  call.width = desc.residual != 0 ? desc.width : 0;
  call.data = {};
  if (desc.residual != 0) call.data = in_place ? data : rows_of(data.dtype, 1, desc.width);
  call.w_query = call.w_key = call.w_value = heed_matrix_layout{};
  call.bias_dtype = 0;
  return make<heed_graph_attention_plan>(&context, share.graph.get(), &call);
}

void heed_mpi_graph_attention_plan::plan_workspace() {
  heed::Offsets offsets;
  const auto take = [&](Buffer& buffer, std::int64_t rows) {
    buffer.at = offsets.take(rows, buffer.layout.stride_row,
                             static_cast<std::int64_t>(bytes_of(buffer.layout.dtype)));
  };
  const std::int64_t known = graph->rows();
  const std::int64_t own = graph->own_nodes();
  take(workspace.key, known);
  workspace.value.at += workspace.key.at;
  workspace.packed = offsets.take(halo.packed_rows, static_cast<std::int64_t>(halo.bytes), 1);
  take(workspace.query, projects() ? own : 0);
  for (Buffer& next : workspace.next) take(next, desc.steps > 1 ? own : 0);
  const auto few =
      static_cast<std::int64_t>(std::min(graph->inner.nodes.size(), graph->border.nodes.size()));
  take(workspace.few.query, few);
  take(workspace.few.out, few);
  take(workspace.few.lse, few);
  if (desc.residual != 0) {
    const bool wider = bytes_of(first.data.dtype) < bytes_of(desc.out.dtype) && desc.steps > 1;
    workspace.few.data.layout = rows_of((wider ? later : first).data.dtype, 1, desc.width);
    take(workspace.few.data, few);
  }
  call_bytes = workspace_of(empty);
  for (const Stage* stage : {&first, &later})
    for (const GraphPlan* plan : {&stage->project, &stage->inner, &stage->border})
      call_bytes = std::max(call_bytes, workspace_of(*plan));
  workspace.calls = offsets.take_bytes(call_bytes);
  workspace.requests =
      offsets.take(static_cast<std::int64_t>(halo.messages.size()), 1, sizeof(MPI_Request));
  workspace_bytes = offsets.end("the workspace", {{"nodes", known},
                                                  {"desc.heads", desc.heads},
                                                  {"desc.features", desc.features},
                                                  {"desc.value_features", desc.value_features}});
}
