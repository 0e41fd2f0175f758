// Refusals of graphs, of attention over them and of its gradients that are not of every field of a
// kind: arrays and their entries, which tensors there are and how wide, matrices, combiners.
#include "tests/api/refused.hpp"

using namespace api_test;

// ---- Graphs ----

TEST_CASE("nodes are counted by int32, edges are given in one way, and indices are named",
          "[refused][graph]") {
  // Offsets are 0, 3, 5, 5, 6; without nodes there is one. Some int64 indices fit once their upper
  // half is cut off.
  check_refused("graph", R"(
    desc.nodes = -1 | least | 2^31 => must be 0 to 2147483647
    desc.nodes = 0 => desc.sources[0] is 3; desc.nodes is 0
    desc.source_nodes = -1 | 2^31 => must be 0 to 2147483647
    desc.source_nodes = 3 => desc.sources[0] is 3; it must be 0 to 2
    desc.edges = -1 | least | -2^40 | 2^40+1 | most => must be 0 to 2^40
    desc.sources = NULL => ; desc.edges is 6
    desc.destinations = NULL
      => desc.destinations and desc.offsets are both NULL; desc.edges is 6
    desc.offsets = given => desc.destinations and desc.offsets are both given; give one of them
    desc.index_type = 3 | 99 | 4294967295 => must be a heed_index_type, 0 to 2
    desc.duplicates = 3 | 99 | 4294967295 => must be a heed_duplicates, 0 to 2
    desc.reverse = 2 | 99 | 4294967295 => must be a switch, 0 to 1
    no edges => ok
    no nodes => ok
    desc.duplicates = 2 => ok
    desc.source_nodes = 4 => ok
    with as it is | rows | wide | wide rows:
    desc.sources[0] | desc.sources[3] | desc.sources[5]
      = -1 | 4 | 1000000 | -2147483648 | 2147483647 => must be 0 to 3
    with as it is | wide:
    desc.destinations[0] | desc.destinations[3] | desc.destinations[5]
      = -1 | 4 | 1000000 | -2147483648 | 2147483647 => must be 0 to 3
    with wide:
    desc.sources[4] | desc.destinations[4] = 2^32 | 2^33+2 | -4294967295 => must be 0 to 3
    with rows | wide rows:
    desc.offsets[0] = 1 | -1 => must be 0
    desc.offsets[1] = -3 => must be 0 to 6
    desc.offsets[2] = 2 | 7 => must be 3 to 6
    desc.offsets[3] = 4 => must be 5 to 6
    desc.offsets[4] = 5 => ; the last must be desc.edges, 6
    desc.offsets[4] = 7 | 4 => must be 5 to 6
    with wide rows:
    desc.offsets[2] = 2^32+5 => must be 3 to 6
    with rows, no nodes:
    desc.offsets[0] = 2 => must be 0
  )");
}

TEST_CASE("of several entries out of range the first is named, whatever the threads",
          "[refused][graph]") {
  const std::size_t edges = 300000;
  std::vector<std::int32_t> nodes(edges, 1);
  for (std::size_t e = 70001; e < edges; e += 1000) nodes[e] = -5;
  for (const std::uint32_t threads : {1U, 2U, 4U})
    for (const std::string& executor : executors()) {
      if (executor == "serial" && threads > 1) continue;
      Form form("graph");
      auto& desc = form.at<heed_graph_desc>("desc");
      desc.nodes = 2;
      desc.edges = static_cast<std::int64_t>(edges);
      desc.sources = desc.destinations = nodes.data();
      check_refusal(form.call(make_context(nullptr, {executor.c_str(), threads})),
                    HEED_STATUS_INVALID_ARGUMENT, "desc.sources[70001] is -5; it must be 0 to 1");
    }
}

// ---- Attention over graphs ----

TEST_CASE("sizes and choices over graphs have bounds, and rows of all heads fit an address",
          "[refused][graph]") {
  check_refused("graph attention", R"(
    desc.heads | desc.features = -1 | 0 | least | -2^40 | 2^40+1 | most
      => must be 1 to 2^40
    desc.edge_width = -1 | least | 2^40+1 | most => must be 0 to 2^40
    desc.value_features | desc.steps = -1 | 2^40+1 => must be 1 to 2^40
    desc.width = -1 | 2^40+1 => must be 0 to 2^40
    desc.inputs = 3 | 99 | 4294967295 => must be a heed_graph_inputs, 0 to 2
    desc.combine = 4 | 99 | 4294967295 => must be a heed_combine for graphs, 0 to 3
    desc.residual | desc.hard = 2 | 99 | 4294967295 => must be a switch, 0 to 1
    desc.heads desc.features = 2^40 => desc.heads is 1099511627776, desc.features is 1099511627776;
      a row of all heads overflows an address
    desc.heads desc.value_features = 2^40 => desc.heads is 1099511627776, desc.value_features is
      1099511627776; a row of all heads overflows an address
    with no residual:
    no edge data, desc.heads = 2^20, desc.features = 2^38 => desc. ... overflows an address
    strides of 1, desc.heads desc.value_features = 1, desc.combine = 2, desc.features = 4294901688,
      desc.edge_width = 4295032754
      => desc. ... desc.features is 4294901688 ... desc.edge_width is 4295032754 ... the workspace
      overflows an address
  )");
  check_refused("graph backward", R"(
    desc.accumulate = 2 | 99 | 4294967295 => must be a switch, 0 to 1
    desc.attention: desc.combine = 4 | 99 => must be a heed_combine for graphs, 0 to 3
    desc.attention: desc.features = -1 | 0 | 2^40+1 => must be 1 to 2^40
    desc.attention: desc.score = 4 => must be a heed_score, 0 to 3
    desc.attention: desc.activation = 1
      => must be 0 unless desc.score is HEED_SCORE_SUM (1) or HEED_SCORE_ADDITIVE (2)
  )");
}

TEST_CASE("the width of data", "[refused][graph]") {
  check_refused("graph attention", R"(
    desc.width = 0 => must be at least 1 with desc.inputs 1 or 2 or desc.residual
    desc.steps = 2 => must be 0 or 1 with desc.inputs 0, whose queries, keys and values do not
      change
    with as it is | share:
    desc.width = 1 | 5 | 9 | 11 => ; with desc.residual it must be that of a row of out, 10
    with share | per node:
    no residual => desc.width is 0; it must be at least 1 with desc.inputs 1 or 2 or desc.residual
    desc.residual = 0, desc.steps = 2, desc.width = 4
      => ; with desc.steps above 1 it must be that of a row of out, 10
    with share:
    float64 data, desc.steps = 3 => ok
    with mean:
    desc.width = 10 => ; with desc.residual it must be that of a row of out, 5
    with no residual:
    desc.width = 10 => must be 0 without desc.inputs 1 or 2 or desc.residual
  )");
}

TEST_CASE("layouts and types of tensors that there are not", "[refused][graph]") {
  std::string table =
      "desc.bias_dtype = f16 => must be 0 unless desc.inputs is HEED_GRAPH_SHARED "
      "(1)\n";
  for (const std::string which : {"query", "key", "value"})
    table += "desc.w_" + which + ".stride_in = 2 => desc.w_" + which +
             " is given; it must be 0 with desc.inputs 0\n";
  table += "with share | per node:\n";
  for (const std::string which : {"query", "key", "value"})
    table += "desc." + which + ".stride_row = 8 => desc." + which +
             " is given; it must be 0 unless desc.inputs is HEED_GRAPH_PROJECTED (0)\n";
  check_refused("graph attention", table);
  check_refused("graph attention", R"(
    with share:
    desc.w_edge_key.stride_matrix | desc.w_edge_value.stride_matrix | desc.w_query.stride_matrix
      | desc.w_key.stride_matrix | desc.w_value.stride_matrix = 100 => must be 0: there is one matrix
    with per node:
    desc.bias_dtype = f32 => must be 0 unless desc.inputs is HEED_GRAPH_SHARED (1)
    with no residual:
    desc.data.dtype = f32 => desc.data is given; it must be 0 where nothing has data
    with no edge data:
    desc.edge_data.stride_row = 2
      => desc.edge_data is given; it must be 0 with desc.edge_width 0
    desc.w_edge_key.stride_in = 2
      => desc.w_edge_key is given; it must be 0 with desc.edge_width 0
    desc.w_edge_value.stride_in = 2
      => desc.w_edge_value is given; it must be 0 with desc.edge_width 0
  )");
}

TEST_CASE("tensors over graphs are given where the problem has them, and only there",
          "[refused][graph]") {
  const std::string shared = "must be NULL unless desc.inputs is HEED_GRAPH_SHARED (1)\n";
  std::string prepared;
  for (const std::string name : {"query", "key", "value"}) {
    prepared += "args.b_" + name + " = given => " + shared;
    prepared += "args.w_" + name + " = NULL, args.p_" + name + " = given => " + shared;
  }
  check_refused("graph attention", "with as it is | per node:\n" + prepared);
  check_refused("graph attention", R"(
    args.w_query | args.w_key | args.w_value = given => must be NULL with desc.inputs 0
    args.w_edge_key args.w_edge_value = NULL
      => args.w_edge_key and args.w_edge_value are NULL; desc.edge_width is 2
    args.w_edge_key | args.w_edge_value | args.edge_bias = NULL => ok
    desc.value_features = 3, desc.width = 6, args.w_edge_value = own => ok
    rows => ok
    desc.out = [0 5 9 1] => desc.out.stride_row is 9; it must exceed 9, or elements of the
      output overlap
    desc.weights = [0 1 1 0] => desc.weights.stride_ ... is 1; it must exceed 1, or elements of
      the output overlap
    with share | per node:
    args.query | args.key | args.value = given
      => must be NULL unless desc.inputs is HEED_GRAPH_PROJECTED (0)
    with per node:
    args.w_query | args.w_key | args.w_value = NULL => ; its tensor has elements
    with no residual:
    args.data = given => must be NULL with desc.inputs 0 and desc.residual 0
    with no edge data:
    args.edge_data | args.w_edge_key | args.w_edge_value = given
      => must be NULL with desc.edge_width 0
    with cosine:
    args.w_edge_key = given => must be NULL with desc.score HEED_SCORE_COSINE (3)
    with weighted:
    args.head_weights = NULL => ; its tensor has elements
    with as it is | mean | maximum:
    args.head_weights = given => must be NULL unless desc.combine is HEED_COMBINE_WEIGHTED (1)
  )");
}

// ---- Gradients over graphs ----

TEST_CASE("what is not differentiable over graphs is refused", "[refused][backward][graph]") {
  check_refused("graph backward", R"(
    desc.attention: desc.hard = 1
      => (unsupported) must be 0: hard attention is not differentiable
    graph.reverse = 0
      => desc.attention: the graph was made with desc.reverse 0; gradients need 1, edges
      sorted by source too
    with share:
    args.attention: args.p_query | args.attention: args.p_key | args.attention: args.p_value = given
      => (unsupported) ; gradients need the matrix as it is, and its bias
  )");
}

TEST_CASE("gradients of what a graph's problem does not have are refused",
          "[refused][backward][graph]") {
  std::string table;
  for (const std::string name : {"edge_bias", "w_edge_key", "w_edge_value"})
    table += "args.attention->" + name + " = NULL => args.grad_" + name +
             " is given; it must be NULL without args.attention->" + name + "\n";
  check_refused("graph backward", table);
  check_refused("graph backward", R"(
    no residual, args.grad_data = own
      => args.grad_data is given; it must be NULL without args.attention->data
    no edge data, args.grad_edge_data = own
      => args.grad_edge_data is given; it must be NULL without args.attention->edge_data
    args.grad_w_query = given => must be NULL without args.attention->w_query
    args.grad_b_value = given => must be NULL without args.attention->b_value
    args.grad_head_weights = given => must be NULL without args.attention->head_weights
    args.grad_score_weights = given => must be NULL without args.attention->score_weights
    desc.grad_w_query.dtype = f32
      => desc.grad_w_query is given; it must be 0 with desc.attention->inputs 0
    with share:
    args.grad_query = given => must be NULL without args.attention->query
    args.attention->b_key = NULL
      => args.grad_b_key is given; it must be NULL without args.attention->b_key
    desc.grad_query.dtype = f32 => desc.grad_query is given; it must be 0 unless
      desc.attention->inputs is HEED_GRAPH_PROJECTED (0)
    desc.grad_w_key.stride_matrix = 5 => must be 0: there is one matrix
  )");
}

TEST_CASE("steps sum what edges and nodes' matrices get where it lies",
          "[refused][backward][graph]") {
  check_refused("graph backward", R"(
    with share, desc.attention->steps = 3:
    desc.grad_edge_bias.dtype = f16 => (unsupported)
      desc.grad_edge_bias has 2 bytes an element; with desc.attention->steps 3 it must have 4 or
      more, because the steps are summed there
    desc.grad_edge_data.dtype = bf16 => (unsupported)
      desc.grad_edge_data has 2 bytes an element; with desc.attention->steps 3 it must have 4 or
      more, because the steps are summed there
    with per node, desc.attention->steps = 2:
    desc.grad_w_value.dtype = f16 => (unsupported)
      desc.grad_w_value has 2 bytes an element; with desc.attention->steps 2 it must have 4 or
      more, because the steps are summed there
  )");
}
