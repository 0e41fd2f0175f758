#include "tests/fuzz/drawn_graph.hpp"

#include "tests/fuzz/check.hpp"
#include "tests/fuzz/plan.hpp"

namespace heed_test {
namespace {

/// A graph of arrays that are exactly as long as they say, some entries of which are hostile; NULL
/// if heed refuses it. `edges` becomes what counts.
template <class Index_>
Graph draw_graph_of(Draw& draw, EdgeList& edges, bool damaged, bool reverse) {
  const GraphForm form = {draw.one_in(2), sizeof(Index_) == 8 ? std::uint32_t{HEED_INDEX_I64}
                                                              : draw.choice(HEED_INDEX_I32)};
  if (form.rows) edges = by_destination(edges);
  edges.unique = draw.one_in(2);
  GraphArrays<Index_> arrays(edges);
  const auto spoil = [&](std::vector<Index_>& indices) {
    indices.shrink_to_fit();
    if (indices.empty() || !damaged || !draw.one_in(4)) return;
    indices[static_cast<std::size_t>(draw.bits() % indices.size())] =
        static_cast<Index_>(draw.one_in(2) ? draw.hostile() : draw.integer(-1, 20));
  };
  spoil(arrays.sources);
  spoil(form.rows ? arrays.offsets : arrays.destinations);
  heed_graph_desc desc = arrays.desc(edges, form);
  desc.reverse = reverse ? 1 : 0;
  if (damaged && draw.one_in(2)) {  // sizes that the arrays do not have must be refused
    const std::int64_t hostile = draw.hostile();
    if (draw.one_in(2)) {
      if (hostile < 0 || hostile > INT32_MAX || !form.rows) desc.nodes = hostile;
    } else if (hostile < 0 || hostile > std::int64_t{1} << 40) {
      desc.edges = hostile;
    }
    const auto type = static_cast<std::uint32_t>(draw.hostile());
    if (type > HEED_INDEX_I64 && draw.one_in(2)) desc.index_type = type;
    desc.duplicates = draw.one_in(2) ? static_cast<std::uint32_t>(draw.hostile()) : desc.duplicates;
  }
  if (damaged) draw.damage_pointers(desc, {0, 8, 16, 48});
  const Versioned<heed_graph_desc> given(draw, desc);
  heed_graph* made = nullptr;
  const heed_status status = heed_graph_create(fuzz_context().get(), given.get(), &made);
  Graph graph(made);
  if (!planned(status, made, damaged || given.odd(), {"desc."})) return nullptr;
  // What was damaged and accepted says what it says now.
  const heed_graph_desc known = given.known();
  if (reverse && known.reverse == 0) return nullptr;  // a version that knows no gradients
  EdgeList counted{known.nodes, {}, {}, false};
  for (std::int64_t e = 0; e < known.edges; ++e) {
    const auto at = static_cast<std::size_t>(e);
    std::int64_t to = 0;
    if (known.offsets == nullptr) to = arrays.destinations[at];
    while (known.offsets != nullptr && arrays.offsets[static_cast<std::size_t>(to) + 1] <= e) ++to;
    counted.add(arrays.sources[at], to);
  }
  counted.unique = known.duplicates == HEED_DUPLICATES_REMOVE ||
                   (known.duplicates == HEED_DUPLICATES_DEFAULT && known.offsets == nullptr);
  edges = counted;
  const heed_graph_info info = describe(graph);
  demand(info.nodes == edges.nodes && info.edges_given == edges.size(),
         "a graph describes other sizes");
  return graph;
}

}  // namespace

EdgeList draw_edges(Draw& draw) {
  EdgeList edges;
  edges.nodes = draw.integer(0, 12);
  const std::int64_t count = edges.nodes == 0 ? 0 : draw.size(0);
  for (std::int64_t e = 0; e < count; ++e)
    edges.add(draw.integer(0, edges.nodes - 1), draw.integer(0, edges.nodes - 1));
  return edges;
}

Graph draw_graph(Draw& draw, EdgeList& edges, bool damaged, bool reverse) {
  return draw.one_in(2) ? draw_graph_of<std::int64_t>(draw, edges, damaged, reverse)
                        : draw_graph_of<std::int32_t>(draw, edges, damaged, reverse);
}

}  // namespace heed_test
