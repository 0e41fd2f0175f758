// struct_size of everything that graphs take and fill.
#include <cstddef>

#include "tests/api/graphs.hpp"
#include "tests/api/struct_sizes.hpp"

using namespace api_test;

TEST_CASE("struct_size of a graph's descriptor", "[struct_size][graph]") {
  const Context context = serial();
  const SmallGraph form;
  const auto call = [&](const heed_graph_desc* desc) {
    heed_graph* graph = untouched<heed_graph>();
    const heed_status status = heed_graph_create(context.get(), desc, &graph);
    if (status == HEED_STATUS_OK)
      heed_graph_destroy(graph);
    else
      CHECK(graph == untouched<heed_graph>());
    return status;
  };
  check_wrong_sizes(form.desc, "desc", call);
  check_every_size(form.desc, "desc", "448888844", call);
  check_longer(form.desc, "desc", call);
  heed_graph_desc shorter = form.desc;
  shorter.duplicates = 99;  // beyond the end of the shorter struct, so never read
  shorter.struct_size = offsetof(heed_graph_desc, duplicates);
  CHECK(call(&shorter) == HEED_STATUS_OK);
}

TEST_CASE("struct_size of attention over a graph", "[struct_size][graph]") {
  const Context context = serial();
  GraphForm form;
  form.no_edge_data();
  const Graph graph = make_graph(context, form.graph.desc);
  const auto call = [&](const heed_graph_attention_desc* desc) {
    heed_graph_attention_plan* plan = untouched<heed_graph_attention_plan>();
    const heed_status status =
        heed_graph_attention_plan_create(context.get(), graph.get(), desc, &plan);
    if (status == HEED_STATUS_OK)
      heed_graph_attention_plan_destroy(plan);
    else
      CHECK(plan == untouched<heed_graph_attention_plan>());
    return status;
  };
  check_wrong_sizes(form.desc, "desc", call);
  check_every_size(form.desc, "desc", "448888888884444LLLLLLLLLMMMMM", call);
  check_longer(form.desc, "desc", call);
  form.desc.w_edge_key.dtype = 99;  // beyond the end of a shorter struct, so never read
  form.desc.struct_size = offsetof(heed_graph_attention_desc, w_edge_key);
  CHECK(call(&form.desc) == HEED_STATUS_OK);
}

TEST_CASE("struct_size of arguments over a graph", "[struct_size][graph]") {
  const Context context = serial();
  GraphForm form;
  const Graph graph = make_graph(context, form.graph.desc);
  const auto call = [&](const heed_graph_attention_args* args) {
    return heed_graph_attention(context.get(), graph.get(), &form.desc, args);
  };
  check_wrong_sizes(form.args, "args", call);
  CHECK(form.outputs_untouched());
  check_every_size(form.args, "args", "44888888888888888888888", call);
  check_longer(form.args, "args", call);
  heed_graph_attention_args shorter = form.args;
  shorter.struct_size = offsetof(heed_graph_attention_args, out);
  forget_last_error();
  check_refusal(call(&shorter), HEED_STATUS_INVALID_ARGUMENT, {"args.out", "NULL"});
}

TEST_CASE("struct_size of what graphs fill", "[struct_size][graph]") {
  const Context context = serial();
  GraphForm form;
  const Graph graph = make_graph(context, form.graph.desc);
  const GraphPlan plan = make_plan(context, graph, form.desc);
  const heed_graph_info graph_info = HEED_GRAPH_INFO_INIT;
  const heed_graph_attention_info plan_info = HEED_GRAPH_ATTENTION_INFO_INIT;
  const auto of_graph = [&](heed_graph_info* info) {
    return heed_graph_describe(graph.get(), info);
  };
  const auto of_plan = [&](heed_graph_attention_info* info) {
    return heed_graph_attention_plan_describe(plan.get(), info);
  };
  check_wrong_info_sizes(graph_info, "44888888", of_graph);
  check_info_sizes(graph_info, of_graph);
  check_wrong_info_sizes(plan_info, "4488888", of_plan);
  check_info_sizes(plan_info, of_plan);
}
