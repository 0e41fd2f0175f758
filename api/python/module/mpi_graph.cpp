// Graphs over ranks, and attention over them. All that can go wrong on one rank alone happens in
// MpiEdges and MpiGraphCall, where nobody waits for it; what follows is collective.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/python/module/bind.hpp"
#include "api/python/module/graph_call.hpp"
#include "api/python/module/mpi_library.hpp"

namespace heed::python {
namespace {

/// The edges that a rank brings, or the file.
class MpiEdges {
 public:
  MpiEdges(const MpiLibrary& library, nb::handle sources, nb::handle destinations, nb::handle path,
           nb::handle nodes, nb::handle owners, nb::handle duplicates, nb::handle where)
      : held_(nb::make_tuple(sources, destinations, owners)) {
    if (!path.is_none()) {
      path_ = nb::borrow<nb::str>(path).c_str();
      desc_.path = path_.c_str();
    } else {
      indices_.emplace(Indices({"sources", "destinations"}, {sources, destinations}));
      if (indices_->count(0) != indices_->count(1))
        refuse("sources has %lld entries and destinations %lld; an edge is one of each",
               static_cast<long long>(indices_->count(0)),
               static_cast<long long>(indices_->count(1)));
      desc_.index_type = indices_->type;
      desc_.edges = indices_->count(0);
      desc_.sources = indices_->data(0);
      desc_.destinations = indices_->data(1);
    }
    if (!nodes.is_none()) desc_.nodes = integer("nodes", nodes);
    if (!owners.is_none()) {
      owners_ = read_vector<std::int32_t>("owners", owners);
      if (nodes.is_none() || owners_.count != desc_.nodes)
        refuse("owners has %lld numbers; it must have one for each of the nodes, which are given",
               static_cast<long long>(owners_.count));
      desc_.owners = owners_.data;
    }
    desc_.duplicates = read_duplicates(duplicates);
    context_ = library.make_context(*hold_context(where).options);
  }

  const heed_mpi_graph_desc& desc() const { return desc_; }
  const std::shared_ptr<heed_context>& context() const { return context_; }

 private:
  nb::object held_;
  std::string path_;
  std::optional<Indices> indices_;
  Vector<std::int32_t> owners_;
  heed_mpi_graph_desc desc_ = HEED_MPI_GRAPH_DESC_INIT;
  std::shared_ptr<heed_context> context_;
};

class MpiGraph {
 public:
  /// Collective.
  MpiGraph(const MpiLibrary& library, std::uintptr_t communicator, std::size_t bytes,
           const MpiEdges& edges)
      : library_(library),
        context_(edges.context()),
        graph_(library.make_graph(reinterpret_cast<const void*>(communicator), bytes,
                                  context_.get(), edges.desc())) {
    library_.check(library_.graph_describe(graph_, &info_));
  }
  ~MpiGraph() { free(); }
  MpiGraph(const MpiGraph&) = delete;
  MpiGraph& operator=(const MpiGraph&) = delete;

  void free() {
    if (graph_ != nullptr) library_.graph_destroy(std::exchange(graph_, nullptr));
  }

  const MpiLibrary& library() const { return library_; }
  const heed_mpi_graph* get() const {
    if (graph_ == nullptr) refuse("the graph has been freed");
    return graph_;
  }
  const std::shared_ptr<heed_context>& context() const { return context_; }
  /// Of this rank's rows, as of a graph of their own.
  heed_graph_info rows() const {
    heed_graph_info rows = HEED_GRAPH_INFO_INIT;
    rows.nodes = info_.own_nodes;
    rows.edges = info_.own_edges;
    rows.edges_given = info_.own_given;
    return rows;
  }

  nb::dict describe() const {
    nb::dict said;
    said["nodes"] = info_.nodes;
    said["edges"] = info_.edges;
    said["own_nodes"] = info_.own_nodes;
    said["own_given"] = info_.own_given;
    said["own_edges"] = info_.own_edges;
    said["inner_nodes"] = info_.inner_nodes;
    said["inner_edges"] = info_.inner_edges;
    said["remote_rows"] = info_.remote_rows;
    said["sent_rows"] = info_.sent_rows;
    said["senders"] = info_.senders;
    said["receivers"] = info_.receivers;
    said["bytes"] = info_.bytes;
    return said;
  }

  /// To memory for own nodes.
  void nodes(std::uintptr_t to) const {
    library_.check(library_.graph_nodes(get(), reinterpret_cast<std::int64_t*>(to)));
  }
  /// For own edges.
  void edges(std::uintptr_t sources, std::uintptr_t destinations, std::uintptr_t given) const {
    library_.check(library_.graph_edges(get(), reinterpret_cast<std::int64_t*>(sources),
                                        reinterpret_cast<std::int64_t*>(destinations),
                                        reinterpret_cast<std::int64_t*>(given)));
  }

 private:
  const MpiLibrary& library_;  // which is never freed
  std::shared_ptr<heed_context> context_;
  heed_mpi_graph* graph_;
  heed_mpi_graph_info info_ = HEED_MPI_GRAPH_INFO_INIT;
};

/// Of this rank's rows.
class MpiGraphCall {
 public:
  MpiGraphCall(const MpiGraph& graph, const nb::tuple& parts, nb::object out, nb::handle where)
      : graph_(graph), arguments_(nb::none(), parts, std::move(out)), context_(graph.context()) {
    graph.get();
    for (int i = 0; i < GraphCall::kMatrices; ++i)
      if (nb::isinstance<Weights>(arguments_.parameter(i)))
        refuse_unsupported(
            "%s is heed.Weights, which another engine has prepared; over ranks it "
            "must be an array",
            kGraphMatrices[i].name);
    call_.read(arguments_, graph.rows());
    call_.make_outputs(arguments_);
    if (!where.is_none()) context_ = graph.library().make_context(*hold_context(where).options);
  }

  /// Collective.
  nb::object run() const {
    heed_status status = HEED_STATUS_OK;
    {
      const nb::gil_scoped_release released;
      status =
          graph_.library().graph_attention(context_.get(), graph_.get(), &call_.desc, &call_.args);
    }
    graph_.library().check(status);
    return call_.result(arguments_);
  }

 private:
  const MpiGraph& graph_;
  GraphArguments arguments_;
  GraphCall call_;
  std::shared_ptr<heed_context> context_;
};

}  // namespace

void bind_mpi_graph(nb::module_& module) {
  nb::class_<MpiEdges>(module, "MpiEdges", "Edges that a rank brings; see heed.mpi.")
      .def(nb::init<const MpiLibrary&, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle,
                    nb::handle, nb::handle>(),
           nb::arg("library"), nb::arg("sources").none(), nb::arg("destinations").none(),
           nb::arg("path").none(), nb::arg("nodes").none(), nb::arg("owners").none(),
           nb::arg("duplicates").none(), nb::arg("context").none(),
           nb::sig("def __init__(self, library: MpiLibrary, sources: object, destinations: object, "
                   "path: object, nodes: object, owners: object, duplicates: object, "
                   "context: Context | None) -> None"));
  nb::class_<MpiGraph>(module, "MpiGraph", "A graph of libheed_mpi; see heed.mpi.")
      .def(nb::init<const MpiLibrary&, std::uintptr_t, std::size_t, const MpiEdges&>(),
           nb::keep_alive<1, 2>(), nb::arg("library"), nb::arg("communicator"), nb::arg("bytes"),
           nb::arg("edges"),
           nb::sig("def __init__(self, library: MpiLibrary, communicator: int, bytes: int, "
                   "edges: MpiEdges) -> None"))
      .def("describe", &MpiGraph::describe, nb::sig("def describe(self) -> dict[str, int]"))
      .def("nodes", &MpiGraph::nodes, nb::arg("to"))
      .def("edges", &MpiGraph::edges, nb::arg("sources"), nb::arg("destinations"), nb::arg("given"))
      .def("free", &MpiGraph::free);
  nb::class_<MpiGraphCall>(module, "MpiGraphCall", "A call that has been read; see heed.mpi.")
      .def(nb::init<const MpiGraph&, const nb::tuple&, nb::object, nb::handle>(),
           nb::keep_alive<1, 2>(), nb::arg("graph"), nb::arg("parts"), nb::arg("out").none(),
           nb::arg("context").none(),
           nb::sig("def __init__(self, graph: MpiGraph, parts: tuple[object, ...], out: object, "
                   "context: Context | None) -> None"))
      .def("run", &MpiGraphCall::run, nb::sig("def run(self) -> typing.Any"));
}

}  // namespace heed::python
