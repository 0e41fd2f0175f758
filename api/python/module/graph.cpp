#include "api/python/module/graph.hpp"

#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/pickling.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {

Graph::Graph(nb::handle context, const heed_graph_desc& desc) {
  const HeldContext held = hold_context(context);
  const double numbers = static_cast<double>(desc.nodes) + 16 * static_cast<double>(desc.edges);
  check(without_gil(numbers, {}, [&] { return heed_graph_create(held.context, &desc, &graph_); }));
  check(heed_graph_describe(graph_, &info_));
}

bool Indices::is_narrow(const char* name, nb::handle from) {
  if (nb::isinstance<nb::list>(from) || nb::isinstance<nb::tuple>(from)) return false;
  const Element element = read_array(name, from).form.element;
  if (element != Element::kI32 && element != Element::kI64)
    refuse("%s is %s; it must be int32 or int64", name, name_of(element));
  return element == Element::kI32;
}

std::uint32_t read_duplicates(nb::handle from) {
  if (from.is_none()) return HEED_DUPLICATES_DEFAULT;
  if (from.equal(nb::str("remove"))) return HEED_DUPLICATES_REMOVE;
  if (from.equal(nb::str("keep"))) return HEED_DUPLICATES_KEEP;
  refuse("duplicates is %s; it must be \"remove\", \"keep\" or None", nb::repr(from).c_str());
}

namespace {

/// What an edge list and rows have in common.
heed_graph_desc described(const Indices& indices, nb::handle source_nodes, nb::handle duplicates,
                          nb::handle reverse) {
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.index_type = indices.type;
  desc.duplicates = read_duplicates(duplicates);
  desc.reverse = flag("reverse", reverse) ? 1 : 0;
  if (source_nodes.is_none()) return desc;
  desc.source_nodes = integer("source_nodes", source_nodes);
  if (desc.source_nodes < 1)
    refuse("source_nodes is %lld; it must be at least 1, or None: edges lead from the nodes",
           static_cast<long long>(desc.source_nodes));
  if (desc.reverse != 0)
    refuse_unsupported("reverse is True; it must be False with source_nodes, which are %lld",
                       static_cast<long long>(desc.source_nodes));
  return desc;
}

void from_edges(Graph* self, nb::handle sources, nb::handle destinations, nb::handle nodes,
                nb::handle source_nodes, nb::handle duplicates, nb::handle reverse,
                nb::handle context) {
  const Indices indices({"sources", "destinations"}, {sources, destinations});
  if (indices.count(0) != indices.count(1))
    refuse("sources has %lld entries and destinations %lld; an edge is one of each",
           static_cast<long long>(indices.count(0)), static_cast<long long>(indices.count(1)));
  heed_graph_desc desc = described(indices, source_nodes, duplicates, reverse);
  desc.nodes = integer("nodes", nodes);
  desc.edges = indices.count(0);
  desc.sources = indices.data(0);
  desc.destinations = indices.data(1);
  new (self) Graph(context, desc);
}

Graph* from_csr(nb::handle offsets, nb::handle sources, nb::handle source_nodes,
                nb::handle duplicates, nb::handle reverse, nb::handle context) {
  const Indices indices({"offsets", "sources"}, {offsets, sources});
  if (indices.count(0) == 0)
    refuse("offsets is empty; it must hold one number more than there are nodes");
  heed_graph_desc desc = described(indices, source_nodes, duplicates, reverse);
  desc.nodes = indices.count(0) - 1;
  desc.edges = indices.count(1);
  desc.offsets = indices.data(0);
  desc.sources = indices.data(1);
  return new Graph(context, desc);
}

nb::dict describe(const Graph& graph) {
  const heed_graph_info& info = graph.info();
  nb::dict said;
  said["nodes"] = info.nodes;
  said["source_nodes"] = info.source_nodes;
  said["edges"] = info.edges;
  said["edges_given"] = info.edges_given;
  said["isolated"] = info.isolated;
  said["most"] = info.most;
  said["bytes"] = info.bytes;
  said["reverse"] = info.reverse != 0;
  return said;
}

nb::str representation(const Graph& graph) {
  const heed_graph_info& info = graph.info();
  if (info.source_nodes == 0)
    return nb::str("<heed.Graph: {} nodes, {} edges>").format(info.nodes, info.edges);
  return nb::str("<heed.Graph: {} nodes, {} source nodes, {} edges>")
      .format(info.nodes, info.source_nodes, info.edges);
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<Graph> graph(
      module, "Graph",
      R"(Directed edges from sources to destinations, over which destinations attend to sources.

Edges are checked and sorted once; the arrays are not needed afterwards. A self-loop is an edge like
any other. Any threads, calls and plans may use one graph.

    sources       [edges] of int32 or int64, each from 0 to nodes - 1; of PyTorch Geometric's
                  edge_index, edge_index[0]
    destinations  [edges], likewise; edge_index[1]
    nodes         how many there are
    source_nodes  edges lead from nodes of another kind, with numbers of their own: from 0 to
                  source_nodes - 1. Keys and values then have a row for each of these. Not with
                  reverse
    duplicates    what becomes of edges with the source and destination of an earlier one:
                  "remove" (the default here) or "keep", each counts (the default of from_csr)
    reverse       also sort edges by source, which heed.graph_attention_backward needs
    context       where to sort; the default one unless given

Row e of arrays over edges (edge_data, edge_bias, weights) belongs to the e-th edge given.

>>> import heed
>>> heed.Graph([0, 1, 2, 2], [1, 2, 0, 0], nodes=3)
<heed.Graph: 3 nodes, 3 edges>

In C: heed_graph_create.)");
  method(graph,
         "def __init__(self, sources: object, destinations: object, *, nodes: int, "
         "source_nodes: int | None = None, duplicates: str | None = None, reverse: bool = False, "
         "context: Context | None = None) -> None",
         &from_edges);
  function(
      graph,
      "def from_csr(offsets: object, sources: object, *, source_nodes: int | None = None, "
      "duplicates: str | None = None, reverse: bool = False, "
      "context: Context | None = None) -> Graph",
      &from_csr,
      R"(A graph from rows by destination: the edges offsets[n] to offsets[n + 1] - 1 end at node n.

    offsets  [nodes + 1], from 0 to the number of edges, never decreasing
    sources  [edges], of the same type

Everything else is as of heed.Graph.

>>> import heed
>>> heed.Graph.from_csr([0, 1, 1, 3], [2, 0, 1]).describe()["isolated"]
1

In C: heed_graph_create with offsets.)");
  method(graph, "def describe(self) -> dict[str, int]", &describe,
         "What it holds: nodes; source_nodes, or 0 where edges lead from the nodes; edges that "
         "count; edges_given, what arrays over edges have rows for; isolated, nodes without "
         "incoming edges; most, incoming edges of a node; bytes; reverse, whether edges are sorted "
         "by source too. In C: heed_graph_describe.");
  graph.def("__repr__", &representation);
  refuse_pickling(graph, "it lies as this computer reads it: pickle sources and destinations");
}

}  // namespace heed::python
