// Refusals of graphs, of attention over them and of its gradients that are not of every field of a
// kind: arrays and their entries, which tensors there are and how wide, matrices, combiners.
#include "tests/api/other_forms.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

// ---- Graphs ----

using EdgeChange = ChangeOf<SmallGraph>;
void wide_rows(SmallGraph& form) { form.by_rows(), form.widen(); }
const EdgeChange kLists[] = {unchanged<SmallGraph>, &SmallGraph::widen};
const EdgeChange kRows[] = {&SmallGraph::by_rows, wide_rows};

/// An entry as int32 and int64; `index` only where both have it.
template <std::size_t n>
EdgeChange with_entry(std::int32_t (SmallGraph::*narrow)[n], std::int64_t (SmallGraph::*wide)[n],
                      int entry, std::int64_t index) {
  return [=](SmallGraph& form) {
    (form.*narrow)[entry] = static_cast<std::int32_t>(index);
    (form.*wide)[entry] = index;
  };
}
EdgeChange with_source(int entry, std::int64_t index) {
  return with_entry(&SmallGraph::sources, &SmallGraph::wide_sources, entry, index);
}
EdgeChange with_destination(int entry, std::int64_t index) {
  return with_entry(&SmallGraph::destinations, &SmallGraph::wide_destinations, entry, index);
}
EdgeChange with_offset(int entry, std::int64_t offset) {
  return with_entry(&SmallGraph::offsets, &SmallGraph::wide_offsets, entry, offset);
}

void no_nodes(SmallGraph& form) { form.no_edges(), form.desc.nodes = 0; }

std::string at(int entry, std::int64_t index) {
  return "[" + std::to_string(entry) + "] is " + std::to_string(index);
}

}  // namespace

TEST_CASE("graphs without edges, without nodes, and with duplicates are accepted",
          "[refused][graph]") {
  for (const EdgeChange& change : {EdgeChange(&SmallGraph::no_edges), EdgeChange(no_nodes),
                                   EdgeChange(with("desc.duplicates", HEED_DUPLICATES_KEEP)),
                                   EdgeChange(with("desc.source_nodes", 4))}) {
    SmallGraph form;
    change(form);
    hand_in(form, true, [](heed_status status) { CHECK(status == HEED_STATUS_OK); });
    CHECK(form.info.nodes == form.desc.nodes);
  }
}

TEST_CASE("nodes are counted by int32, and edges are given in one way", "[refused][graph]") {
  check_refused<SmallGraph>(
      {{"desc.nodes", -1, "must be 0 to 2147483647"},
       {"desc.nodes", INT64_MIN, "must be 0 to 2147483647"},
       {"desc.nodes", std::int64_t{1} << 31, "must be 0 to 2147483647"},
       {with("desc.nodes", 0), "desc.sources[0] is 3; desc.nodes is 0"},
       {"desc.source_nodes", -1, "must be 0 to 2147483647"},
       {"desc.source_nodes", std::int64_t{1} << 31, "must be 0 to 2147483647"},
       {with("desc.source_nodes", 3), "desc.sources[0] is 3; it must be 0 to 2"},
       {"desc.sources", kNull, "desc.edges is 6"},
       {with("desc.destinations", kNull),
        "desc.destinations and desc.offsets are both NULL; desc.edges is 6"},
       {with("desc.offsets", kGiven),
        "desc.destinations and desc.offsets are both given; give one of them"}});
}

TEST_CASE("an index out of range is refused, and named", "[refused][graph]") {
  for (const int entry : {0, 3, 5})
    for (const std::int64_t index : {-1, 4, 1000000, INT32_MIN, INT32_MAX}) {
      const std::string words = at(entry, index) + "; it must be 0 to 3";
      for (const EdgeChange& make : {kLists[0], kLists[1], kRows[0], kRows[1]})
        check_refused<SmallGraph>(make, {{with_source(entry, index), "desc.sources" + words}});
      for (const EdgeChange& make : kLists)
        check_refused<SmallGraph>(make,
                                  {{with_destination(entry, index), "desc.destinations" + words}});
    }
  // Indices that fit once their upper half is cut off.
  for (const std::int64_t index :
       {std::int64_t{1} << 32, (std::int64_t{1} << 33) + 2, -(std::int64_t{1} << 32) + 1})
    check_refused<SmallGraph>(
        &SmallGraph::widen,
        {{with_source(4, index), "desc.sources" + at(4, index) + "; it must be 0 to 3"},
         {with_destination(4, index), "desc.destinations" + at(4, index) + "; it must be 0 to 3"}});
}

TEST_CASE("of several entries out of range the first is named, whatever the threads",
          "[refused][graph]") {
  const std::size_t edges = 300000;
  std::vector<std::int32_t> nodes(edges, 1);
  for (std::size_t e = 70001; e < edges; e += 1000) nodes[e] = -5;
  for (const std::uint32_t threads : {1U, 2U, 4U})
    for (const std::string& executor : executors()) {
      if (executor == "serial" && threads > 1) continue;
      SmallGraph form;
      form.desc.nodes = 2;
      form.desc.edges = static_cast<std::int64_t>(edges);
      form.desc.sources = form.desc.destinations = nodes.data();
      check_refusal(one_call(make_context(nullptr, executor.c_str(), threads), form),
                    HEED_STATUS_INVALID_ARGUMENT, "desc.sources[70001] is -5; it must be 0 to 1");
    }
}

TEST_CASE("offsets that begin late, fall, or end elsewhere are refused, and named",
          "[refused][graph]") {
  struct Wrong {
    int entry;
    std::int64_t offset;
    const char* bound;
  };
  for (const EdgeChange& make : kRows)
    for (const Wrong& wrong :  // 0, 3, 5, 5, 6
         {Wrong{0, 1, "it must be 0"}, Wrong{0, -1, "it must be 0"},
          Wrong{2, 2, "it must be 3 to 6"}, Wrong{3, 4, "it must be 5 to 6"},
          Wrong{1, -3, "it must be 0 to 6"}, Wrong{2, 7, "it must be 3 to 6"},
          Wrong{4, 5, "the last must be desc.edges, 6"}, Wrong{4, 7, "it must be 5 to 6"},
          Wrong{4, 4, "it must be 5 to 6"}})
      check_refused<SmallGraph>(
          make, {{with_offset(wrong.entry, wrong.offset),
                  "desc.offsets" + at(wrong.entry, wrong.offset) + "; " + wrong.bound}});
  const std::int64_t cut = (std::int64_t{1} << 32) + 5;  // fits once its upper half is cut off
  check_refused<SmallGraph>(
      wide_rows, {{with_offset(2, cut), "desc.offsets" + at(2, cut) + "; it must be 3 to 6"}});
  // An offset for every node, and none too many: without nodes there is one.
  check_refused<SmallGraph>([](SmallGraph& form) { form.by_rows(), no_nodes(form); },
                            {{with_offset(0, 2), "desc.offsets[0] is 2; it must be 0"}});
}

// ---- Attention over graphs ----

namespace {

const GraphChange kShare = &GraphForm::share, kPerNode = &GraphForm::per_node;
const GraphChange kNoResidual = &GraphForm::no_residual, kNoEdgeData = &GraphForm::no_edge_data;

GraphChange combined(heed_combine how) {
  return [=](GraphForm& form) { form.combine(how); };
}

}  // namespace

TEST_CASE("rows of all heads over graphs fit an address", "[refused][graph]") {
  check_refused<GraphForm>(
      {{[](GraphForm& f) { f.desc.heads = f.desc.features = kMost; },
        "desc.heads is 1099511627776, desc.features is 1099511627776; a row of all heads "
        "overflows"},
       {[](GraphForm& f) { f.desc.heads = f.desc.value_features = kMost; },
        "desc.heads is 1099511627776, desc.value_features is 1099511627776; a row of all heads"}});
  check_refused<GraphForm>(kNoResidual, {{[](GraphForm& f) {
                                            f.no_edge_data();
                                            f.desc.heads = 1 << 20;
                                            f.desc.features = std::int64_t{1} << 38;
                                          },
                                          "desc. ... overflows an address"}});
}

TEST_CASE("the width of data", "[refused][graph]") {
  const char* const needed = "must be at least 1 with desc.inputs 1 or 2 or desc.residual";
  check_refused<GraphForm>(
      {{"desc.width", 0, needed}, {"desc.steps", 2, "must be 0 or 1 with desc.inputs 0"}});
  for (const std::int64_t width : {1, 5, 9, 11})
    for (const GraphChange& make : {GraphChange(unchanged<GraphForm>), kShare})
      check_refused<GraphForm>(
          make, {{"desc.width", width, "with desc.residual it must be that of a row of out, 10"}});
  check_refused<GraphForm>(combined(HEED_COMBINE_MEAN),
                           {{"desc.width", 10, "with desc.residual it must be ... 5"}});
  check_refused<GraphForm>(kNoResidual, {{"desc.width", 10, "must be 0 without"}});
  for (const GraphChange& make : {kShare, kPerNode})
    check_refused<GraphForm>(
        make, {{kNoResidual, std::string("desc.width is 0; it ") + needed},
               {[](GraphForm& f) {
                  f.desc.residual = 0;
                  f.desc.width = 4;
                  f.desc.steps = 2;
                },
                "desc.width is 4; with desc.steps above 1 it must be that of a row of out, 10"}});
  check_accepted<GraphForm>([](GraphForm& form) {
    form.share();
    form.all_float64();
    form.desc.steps = 3;
  });
}

TEST_CASE("layouts and types of tensors that there are not", "[refused][graph]") {
  const std::string unless_shared = "must be 0 unless desc.inputs is HEED_GRAPH_SHARED (1)";
  std::vector<Refusal<GraphForm>> made,
      projected = {{"desc.bias_dtype", HEED_DTYPE_F16, unless_shared}};
  for (const std::string name : {"query", "key", "value"}) {
    made.emplace_back(
        with("desc." + name + ".stride_row", 8),
        "desc." + name + " is given; it must be 0 unless desc.inputs is HEED_GRAPH_PROJECTED (0)");
    projected.emplace_back(with("desc.w_" + name + ".stride_in", 2),
                           "desc.w_" + name + " is given; it must be 0 with desc.inputs 0");
  }
  check_refused<GraphForm>(projected);
  check_refused<GraphForm>(kShare, made);
  check_refused<GraphForm>(kPerNode, made);
  check_refused<GraphForm>(kPerNode, {{"desc.bias_dtype", HEED_DTYPE_F32, unless_shared}});
  check_refused<GraphForm>(kNoResidual, {{with("desc.data.dtype", HEED_DTYPE_F32),
                                          "desc.data is given; it must be 0 where nothing has "
                                          "data"}});
  for (const std::string name : {"edge_data", "w_edge_key", "w_edge_value"})
    check_refused<GraphForm>(
        kNoEdgeData, {{with("desc." + name + (name[0] == 'w' ? ".stride_in" : ".stride_row"), 2),
                       "desc." + name + " is given; it must be 0 with desc.edge_width 0"}});
  for (const std::string name : {"w_edge_key", "w_edge_value", "w_query", "w_key", "w_value"})
    check_refused<GraphForm>(kShare,
                             {{"desc." + name + ".stride_matrix", 100, "must be 0: there is one"}});
}

TEST_CASE("outputs over graphs whose elements overlap", "[refused][graph]") {
  check_refused<GraphForm>({{[](GraphForm& f) { f.desc.out = {0, 0, 0, 5, 9, 1}; },
                             "desc.out.stride_row is 9; it must exceed 9"},
                            {[](GraphForm& f) { f.desc.weights = {0, 0, 0, 1, 1, 0}; },
                             "desc.weights.stride_ ... is 1; it must exceed"}});
}

TEST_CASE("tensors over graphs are given where the problem has them, and only there",
          "[refused][graph]") {
  const std::string projected = "must be NULL unless desc.inputs is HEED_GRAPH_PROJECTED (0)";
  const std::string shared = "must be NULL unless desc.inputs is HEED_GRAPH_SHARED (1)";
  const std::string no_edges = "must be NULL with desc.edge_width 0";
  const Weights good[] = {prepared(serial(), 10, 6), prepared(serial(), 10, 10)};
  const auto also = [&](const heed_weights* heed_graph_attention_args::*p, bool value) {
    return [=, &good](GraphForm& form) { form.args.*p = good[value ? 1 : 0].get(); };
  };
  using Args = heed_graph_attention_args;
  std::vector<Refusal<GraphForm>> of_matrices;
  for (const auto& [name, p] :
       {std::pair("query", &Args::p_query), {"key", &Args::p_key}, {"value", &Args::p_value}}) {
    for (const GraphChange& make : {kShare, kPerNode})
      check_refused<GraphForm>(make, {{std::string("args.") + name, kGiven, projected}});
    const std::string w = std::string("args.w_") + name, b = std::string("args.b_") + name;
    check_refused<GraphForm>(kPerNode, {{w, kNull, "its tensor has elements"}});
    check_refused<GraphForm>({{w, kGiven, "must be NULL with desc.inputs 0"}});
    const bool value = name[0] == 'v';
    for (const GraphChange& make : {GraphChange(unchanged<GraphForm>), kPerNode})
      check_refused<GraphForm>(
          make, {{b, kGiven, shared},
                 {[&, w, give = also(p, value)](GraphForm& f) { set(f, w, kNull), give(f); },
                  std::string("args.p_") + name + " is given; it " + shared}});
  }
  check_refused<GraphForm>(
      kNoResidual, {{"args.data", kGiven, "must be NULL with desc.inputs 0 and desc.residual 0"}});
  check_refused<GraphForm>(kNoEdgeData, {{"args.edge_data", kGiven, no_edges},
                                         {"args.w_edge_key", kGiven, no_edges},
                                         {"args.w_edge_value", kGiven, no_edges}});
  for (const char* const name : {"args.w_edge_key", "args.w_edge_value", "args.edge_bias"})
    check_accepted<GraphForm>(with(name, kNull));
  check_refused<GraphForm>(
      {{[](GraphForm& f) { f.args.w_edge_key = f.args.w_edge_value = nullptr; },
        "args.w_edge_key and args.w_edge_value are NULL; desc.edge_width is 2"}});
  check_accepted<GraphForm>([](GraphForm& form) {
    form.desc.value_features = 3;
    form.desc.width = 6;
    form.args.w_edge_value = form.args.w_edge_key;
  });
  check_refused<GraphForm>(combined(HEED_COMBINE_WEIGHTED),
                           {{"args.head_weights", kNull, "its tensor has elements"}});
  for (const GraphChange& make :
       {GraphChange(unchanged<GraphForm>), combined(HEED_COMBINE_MEAN), combined(HEED_COMBINE_MAX)})
    check_refused<GraphForm>(make,
                             {{"args.head_weights", kGiven,
                               "must be NULL unless desc.combine is HEED_COMBINE_WEIGHTED (1)"}});
  check_accepted<GraphForm>([](GraphForm& form) { form.graph.by_rows(); });
}

// ---- Gradients over graphs ----

TEST_CASE("what is not differentiable over graphs is refused", "[refused][backward][graph]") {
  check_refused<GraphBackwardForm>({
      {[](GraphBackwardForm& f) { f.layer.desc.hard = 1; },
       "desc.attention: desc.hard is 1; it must be 0: hard attention is not differentiable",
       HEED_STATUS_UNSUPPORTED},
      {[](GraphBackwardForm& f) { f.graph.desc.reverse = 0; },
       "desc.attention: the graph was made with desc.reverse 0; gradients need 1"},
  });
  for (const std::string which : {"query", "key", "value"})
    check_refused<GraphBackwardForm>(
        &GraphBackwardForm::share,
        {{with("args.attention: args.p_" + which, kGiven),
          "args.attention: args.p_" + which +
              " is given; gradients need the matrix as it is, and its bias",
          HEED_STATUS_UNSUPPORTED}});
}

TEST_CASE("gradients of what a graph's problem does not have are refused",
          "[refused][backward][graph]") {
  const std::string without = "must be NULL without args.attention->";
  check_refused<GraphBackwardForm>({
      {[](GraphBackwardForm& f) { f.layer.args.edge_bias = nullptr; },
       "args.grad_edge_bias is given; it " + without + "edge_bias"},
      {[](GraphBackwardForm& f) { f.layer.args.w_edge_key = nullptr; },
       "args.grad_w_edge_key is given; it " + without + "w_edge_key"},
      {[](GraphBackwardForm& f) { f.layer.args.w_edge_value = nullptr; },
       "args.grad_w_edge_value is given; it " + without + "w_edge_value"},
      {[](GraphBackwardForm& f) { f.layer.no_residual(); },
       "args.grad_data is given; it " + without + "data"},
      {[](GraphBackwardForm& f) { f.layer.no_edge_data(); },
       "args.grad_edge_data is given; it " + without + "edge_data"},
      {"args.grad_w_query", kGiven, without + "w_query"},
      {"args.grad_b_value", kGiven, without + "b_value"},
      {"args.grad_head_weights", kGiven, without + "head_weights"},
      {with("desc.grad_w_query.dtype", 1),
       "desc.grad_w_query is given; it must be 0 with desc.attention->inputs 0"},
  });
  check_refused<GraphBackwardForm>(
      &GraphBackwardForm::share,
      {{"args.grad_query", kGiven, without + "query"},
       {with("args.attention: args.b_key", kNull),
        "args.grad_b_key is given; it " + without + "b_key"},
       {with("desc.grad_query.dtype", 1),
        "desc.grad_query is given; it must be 0 unless desc.attention->inputs is "
        "HEED_GRAPH_PROJECTED (0)"},
       {"desc.grad_w_key.stride_matrix", 5, "must be 0: there is one"}});
  for (const std::string optional : {"lse", "query", "key", "value", "data", "edge_data",
                                     "w_edge_key", "w_edge_value", "edge_bias"})
    check_accepted<GraphBackwardForm>(with("args.grad_" + optional, kNull));
}

TEST_CASE("steps sum what edges and nodes' matrices get where it lies",
          "[refused][backward][graph]") {
  const auto steps = [](GraphBackwardForm& form) { form.share(), form.layer.desc.steps = 3; };
  check_accepted<GraphBackwardForm>(steps);
  check_refused<GraphBackwardForm>(
      steps, {{with("desc.grad_edge_bias.dtype", HEED_DTYPE_F16),
               "desc.grad_edge_bias has 2 bytes an element; with desc.attention->steps 3 it must "
               "have 4 or more, because the steps are summed there",
               HEED_STATUS_UNSUPPORTED},
              {with("desc.grad_edge_data.dtype", HEED_DTYPE_BF16),
               "desc.grad_edge_data has 2 bytes an element", HEED_STATUS_UNSUPPORTED}});
  check_refused<GraphBackwardForm>(
      [](GraphBackwardForm& form) { form.per_node(), form.layer.desc.steps = 2; },
      {{with("desc.grad_w_value.dtype", HEED_DTYPE_F16), "desc.grad_w_value has 2 bytes an element",
        HEED_STATUS_UNSUPPORTED}});
}
