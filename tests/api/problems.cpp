#include "tests/api/problems.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace api_test {

std::vector<unsigned char> expected(const Kind& kind) {
  const std::unique_ptr<Form> problem = kind.problem();
  const Context context = serial();
  heed_test::require_ok(problem->prepare(context));
  heed_test::require_ok(problem->call(context));
  if (problem->untouched()) throw std::runtime_error("a call that succeeds writes nothing");
  return problem->outputs();
}

// ---- The list ----------------------------------------------------------------------------------

namespace {

std::function<void(Form&)> changes(const std::string& text) {
  return [text](Form& form) { form.apply(text); };
}

const char* const kLargeAttention =
    "desc.query_length desc.key_length = 240, desc.features desc.value_features = 32, "
    "desc.alignment = 0, desc.causal = 2, desc.weights_point desc.sum_columns desc.weight_rows = "
    "0, "
    "args.mask args.bias args.key_lengths args.alibi_slopes args.sinks args.weight_rows args.lse "
    "args.weights args.column_sums = NULL";
/// One head, so that splits of its rows are tasks of their own.
const char* const kLargeBackward =
    "desc.attention->batch desc.attention->query_heads desc.attention->key_heads = 1, "
    "desc.attention->query_length = 2100, desc.attention->key_length = 120, "
    "args.attention->key_lengths = {120}";
const char* const kLargeBlock =
    "desc.attention->query_length desc.attention->key_length = 120, "
    "desc.attention->features desc.attention->value_features = 20, desc.attention->causal = 1, "
    "desc.attention->key_heads = 4, desc.width_query desc.width_key desc.width_out = 80, "
    "args.attention->key_lengths = {120 2}";
const char* const kLargeBlockBackward =
    "desc.block->attention->query_length desc.block->attention->key_length = 120, "
    "desc.block->attention->features desc.block->attention->value_features = 20, "
    "desc.block->attention->causal = 1, desc.block->attention->alignment = 0, "
    "desc.block->attention->key_heads = 4, "
    "desc.block->width_query desc.block->width_key desc.block->width_out = 80, "
    "args.block->attention->key_lengths = {120 2}";

/// A hub that is cut into pieces, and for gradients one that many edges lead from.
void enlarge(heed_graph_desc& graph) {
  constexpr int kNodes = 60;
  static const std::vector<std::int32_t> ends = [] {
    std::vector<std::int32_t> both;
    for (int e = 0; e < 20000; ++e) both.push_back(e * 7919 % 4001 % kNodes);
    for (int e = 0; e < 20000; ++e) both.push_back(e % 20 == 0 ? e * 31 % kNodes : 7);
    return both;
  }();
  graph.nodes = kNodes;
  graph.edges = 20000;
  graph.sources = ends.data();
  graph.destinations = ends.data() + 20000;
  graph.duplicates = HEED_DUPLICATES_KEEP;
}
void enlarge_graph(Form& f) {
  f.apply("no residual, no edge data");
  enlarge(f.at<heed_graph_desc>("graph"));
}

/// Over unsorted rows of int64.
const std::string kStepsOverRows =
    "share, graph.index_type = 2, graph.sources = {1 3 1 2 3 0}, graph.destinations = NULL, "
    "graph.offsets = {0 3 5 5 6}, ";

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"dense", "dense", changes(kLargeAttention), false, true},
      {"dense with everything", "dense", changes("desc.softcap = 30")},
      {"dense, packed queries", "dense", changes("pack_queries")},
      {"dense, packed keys", "dense", changes("pack_keys, args.cu_seqlens_k = {0 5 10}")},
      {"dense, float64", "dense", changes("float64")},
      {"dense, 16 bits", "dense", changes("16 bits")},
      {"dense, hard", "dense", changes("hard")},
      {"backward", "backward", changes(kLargeBackward), false, true},
      {"backward with everything", "backward", changes("desc.attention->softcap = 30, functions")},
      {"backward, packed", "backward", changes("pack_queries, pack_keys")},
      {"backward, float64", "backward", changes("float64")},
      {"backward, 16 bits", "backward", changes("16 bits")},
      {"block of prepared matrices", "block", changes(kLargeBlock), true, true},
      {"block", "block", changes("")},
      {"block, float64", "block", changes("float64")},
      {"block, weighted", "block", changes("weighted")},
      {"block that keeps", "block", changes("keep")},
      {"gradients of a block", "block backward", changes(kLargeBlockBackward), false, true},
      {"gradients of a block of prepared matrices", "block backward", changes(""), true},
      {"gradients of a block, kept", "block backward", changes("keep")},
      {"gradients of a block, one input", "block backward", changes("one input")},
      {"gradients of a block, float64", "block backward", changes("float64")},
      {"gradients of a block, weighted", "block backward", changes("weighted")},
      {"graph", "graph attention", enlarge_graph, false, true},
      {"graph with everything", "graph attention", changes("desc.softcap = 20")},
      {"graph, float64", "graph attention", changes("float64")},
      {"graph, hard", "graph attention", changes("hard")},
      {"graph, mean", "graph attention", changes("mean")},
      {"graph, prepared", "graph attention", changes("share"), true},
      {"graph, steps of shared matrices", "graph attention",
       changes(kStepsOverRows + "desc.steps = 3")},
      {"graph, matrices of nodes", "graph attention", changes("per node")},
      {"gradients over a graph", "graph backward", enlarge_graph, false, true},
      {"gradients over a graph with everything", "graph backward",
       changes("desc.attention->softcap = 20")},
      {"gradients over a graph, float64", "graph backward", changes("float64")},
      {"gradients over a graph, weighted", "graph backward", changes("weighted")},
      {"gradients over a graph, steps of shared matrices", "graph backward",
       changes(kStepsOverRows + "desc.attention->steps = 3")},
      {"gradients over a graph, matrices of nodes", "graph backward", changes("per node")},
  };
  return all;
}

const std::vector<Kind>& unplanned_kinds() {
  static const std::vector<Kind> all = {
      {"merge", "merge",
       changes("desc.batch = 2, desc.heads = 4, desc.rows = 500, desc.features = 64"), false, true},
      {"rotate", "rotate",
       changes("desc.batch = 2, desc.heads = 4, desc.rows = 96, desc.features = 32")},
      {"project", "project",
       changes("desc.batch = 2, desc.rows = 96, prepared.in = 128, prepared.out = 128"), false,
       true},
      {"matrix", "matrix", changes("desc.in = 128, desc.out = 128")},
      {"edges", "graph",
       [](Form& f) {
         auto& graph = f.at<heed_graph_desc>("desc");
         enlarge(graph);
         graph.reverse = 1;
       }},
  };
  return all;
}

std::vector<Kind> large_kinds() {
  std::vector<Kind> large;
  for (const Kind& kind : kinds())
    if (kind.large) large.push_back(kind);
  return large;
}

}  // namespace api_test
