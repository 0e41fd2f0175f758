// Graphs and attention over them: heed_graph_create, heed_graph_attention_plan_create and _run.
#include "tests/fuzz/attention.hpp"

using namespace heed_test;

namespace {

using Args = heed_graph_attention_args;

/// What of a problem a run did not get, it has not.
void forget(GraphProblem& p, const Args& known) {
  constexpr const heed_weights* Args::*kPrepared[] = {&Args::p_query, &Args::p_key, &Args::p_value};
  for (std::size_t of = 0; of < kGraphOut; ++of) {
    const bool matrix = of >= kGraphWQuery && of <= kGraphBValue;
    const bool prepared = matrix && known.*kPrepared[(of - kGraphWQuery) % 3] != nullptr;
    if (known.*graph_tensor(of).input == nullptr && !prepared) p.at(of).reset();
  }
  p.dropout_seed = known.dropout_seed;
  p.dropout_offset = known.dropout_offset;
  if (known.dropout_edges == nullptr) p.dropout_edges.clear();
}

void run(Draw& draw, const heed_graph_attention_plan* plan, GraphProblem& p) {
  draw_numbers(draw, p);
  p.run(fuzz_context(), [&](Args args) {
    const Outputs before = p.outputs();
    const bool damaged = draw.damage_pointers(args, kGraphObjects);
    const Versioned<Args> given(draw, args);
    const Args known = given.known();
    if (!ran(draw, plan, given.get(), !damaged && !given.odd()))
      return demand(same_bits(p.outputs(), before), "a refused call wrote an output");
    forget(p, known);
    const Expected want = p.expected();
    check_equal("out", *p.out, want.out);
    check_wanted("lse", p.lse, known.lse, want.lse);
    check_wanted("weights", p.weights, known.weights, want.weights);
  });
}

void plan(Draw& draw, const EdgeList& edges, const heed_graph* graph,
          heed_graph_attention_desc desc, bool damaged) {
  if (damaged) draw.damage(desc);
  const Versioned<heed_graph_attention_desc> given(draw, desc);
  const GraphPlan made = planned(damaged || given.odd(), graph, given.get());
  if (!made) return;
  heed_graph_attention_desc known = given.known();
  if (!small(known, edges) || !worth_running(draw, damaged)) return;
  GraphProblem problem(edges, known, draw.index(4));
  run(draw, made.get(), problem);
}

/// Sizes that the arrays do not have, such that they must be refused.
void damage(Draw& draw, bool rows, heed_graph_desc& desc) {
  const std::int64_t hostile = draw.hostile();
  if (draw.one_in(2)) {
    if (hostile < 0 || (hostile > INT32_MAX && !rows)) desc.nodes = hostile;
  } else if (hostile < 0 || hostile > std::int64_t{1} << 40) {
    desc.edges = hostile;
  }
  const auto type = static_cast<std::uint32_t>(draw.hostile());
  if (type > HEED_INDEX_I64 && draw.one_in(2)) desc.index_type = type;
  if (draw.one_in(2)) desc.duplicates = static_cast<std::uint32_t>(draw.hostile());
  if (draw.one_in(4)) desc.source_nodes = draw.one_in(2) ? draw.integer(-1, 20) : draw.hostile();
}

/// The edges that a graph was made of.
EdgeList counted(const heed_graph_desc& known, const GraphArrays& arrays) {
  EdgeList edges{known.nodes, {}, {}, false, known.source_nodes};
  for (std::int64_t e = 0; e < known.edges; ++e) {
    const auto at = static_cast<std::size_t>(e);
    std::int64_t to = 0;
    if (known.offsets == nullptr) to = arrays.ends[at];
    while (known.offsets != nullptr && arrays.ends[static_cast<std::size_t>(to) + 1] <= e) ++to;
    edges.add(arrays.sources[at], to);
  }
  edges.unique = known.duplicates == HEED_DUPLICATES_REMOVE ||
                 (known.duplicates == HEED_DUPLICATES_DEFAULT && known.offsets == nullptr);
  return edges;
}

/// A graph of arrays that are exactly as long as they say, some entries of which are hostile; NULL
/// if heed refuses it, which only a damaged one may be. `edges` becomes what it was made of.
Graph draw_graph(Draw& draw, EdgeList& edges, const GraphForm& form, bool damaged) {
  GraphArrays arrays(edges, form);
  const auto spoil = [&](std::vector<std::int64_t>& indices) {
    if (indices.empty() || !damaged || !draw.one_in(4)) return;
    const std::int64_t index = draw.one_in(2) ? draw.hostile() : draw.integer(-1, 20);
    const bool wide = form.index_type == HEED_INDEX_I64;
    indices[draw.index(indices.size())] = wide ? index : static_cast<std::int32_t>(index);
  };
  spoil(arrays.sources);
  spoil(arrays.ends);
  heed_graph_desc desc = arrays.desc();
  if (damaged && draw.one_in(2)) damage(draw, form.rows, desc);
  if (damaged) draw.damage_pointers(desc, {0, 8, 16, 48, 56});
  const Versioned<heed_graph_desc> given(draw, desc);
  Graph graph =
      made<heed_graph>(damaged || given.odd(), {"desc."}, fuzz_context().get(), given.get());
  if (!graph) return nullptr;
  edges = counted(given.known(), arrays);
  const heed_graph_info info = describe(graph);
  demand(info.nodes == edges.nodes && info.edges_given == edges.size(),
         "a graph describes other sizes");
  return graph;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const bool reverse = first.one_in(2);
  EdgeList list = draw_edges(first, Graphs::kSmall, reverse);
  const GraphForm form = draw_graph_form(first, list, reverse);
  EdgeList edges = list;
  const Graph graph = draw_graph(first, edges, form, false);
  if (!graph) return 0;
  const heed_graph_attention_desc valid = draw_graph_attention(first, edges, Graphs::kSmall);
  each_variant(first, [&](Draw& draw, bool damaged) {
    EdgeList others = list;
    if (damaged && draw.one_in(4)) return void(draw_graph(draw, others, form, true));
    plan(draw, edges, graph.get(), valid, damaged);
  });
  return 0;
}
