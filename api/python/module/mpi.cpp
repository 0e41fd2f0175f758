// heed.mpi: attention over the ranks of MPI. All ranks refuse together: all that can go wrong on
// one rank alone happens in a step that the package lets them agree on; what is collective says so.
#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/heed_mpi.h"
#include "api/python/module/gradients.hpp"
#include "api/python/module/graph.hpp"
#include "api/python/module/plan.hpp"

namespace heed::python {
namespace {

// ---- libheed_mpi, loaded while the program runs: the module is linked to no MPI ----
//
// It has an engine of its own, the one of the libheed which it is linked to. So contexts are made
// there, from the options of the caller's.

/// Where the handle of an MPI communicator lies, and its bytes: an int, as MPICH has it, or a
/// pointer.
struct Communicator {
  const void* handle;
  std::size_t bytes;

  explicit Communicator(const nb::tuple& given)
      : handle(reinterpret_cast<const void*>(nb::cast<std::uintptr_t>(given[0]))),
        bytes(nb::cast<std::size_t>(given[1])) {}
};

#define HEED_MPI_FUNCTIONS(FUNCTION)         \
  FUNCTION(heed_mpi_place)                   \
  FUNCTION(heed_version_string)              \
  FUNCTION(heed_last_error)                  \
  FUNCTION(heed_context_create)              \
  FUNCTION(heed_context_destroy)             \
  FUNCTION(heed_mpi_last_error)              \
  FUNCTION(heed_mpi_attention_plan_create)   \
  FUNCTION(heed_mpi_attention_plan_destroy)  \
  FUNCTION(heed_mpi_attention_plan_describe) \
  FUNCTION(heed_mpi_attention_plan_choice)   \
  FUNCTION(heed_mpi_attention_plan_times)    \
  FUNCTION(heed_mpi_attention_plan_run)      \
  FUNCTION(heed_mpi_attention_backward)      \
  FUNCTION(heed_mpi_graph_create)            \
  FUNCTION(heed_mpi_graph_destroy)           \
  FUNCTION(heed_mpi_graph_describe)          \
  FUNCTION(heed_mpi_graph_nodes)             \
  FUNCTION(heed_mpi_graph_edges)             \
  FUNCTION(heed_mpi_graph_attention)

class MpiLibrary {
 public:
  /// Raises heed.UnsupportedError where it cannot be loaded, or is of another version.
  explicit MpiLibrary(const char* path) : path_(path), handle_(dlopen(path, RTLD_NOW)) {
    if (handle_ == nullptr) refuse_unsupported("{}", dlerror());
#define HEED_FIND(name) find(#name, name);
    HEED_MPI_FUNCTIONS(HEED_FIND)
#undef HEED_FIND
    find("MPI_Get_library_version", library_version_);
    if (std::strcmp(heed_version_string(), python_version()) != 0)
      refuse_unsupported("{} is of heed {}; this package is of heed {}", path,
                         heed_version_string(), python_version());
  }

  const std::string& path() const { return path_; }
  /// The name and version that its MPI tells.
  std::string mpi() const {
    std::string text(8192, '\0');  // MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI has 256
    int length = 0;
    library_version_(text.data(), &length);
    return text.c_str();
  }

  /// Raises what stands for the status, with the message of the library.
  void check(heed_status status) const { python::check(status, heed_mpi_last_error()); }
  /// A context of this engine, as the caller's is.
  std::shared_ptr<heed_context> make_context(nb::handle like) const {
    heed_context* context = nullptr;
    python::check(heed_context_create(hold_context(like).options, &context), heed_last_error());
    return {context, heed_context_destroy};
  }

  /// Calls a function without the GIL; the first argument of some is a communicator.
  template <class... Parameters, class... Given>
  void call(heed_status (*function)(Parameters...), Given... given) const {
    heed_status status = HEED_STATUS_OK;
    {
      const nb::gil_scoped_release released;
      status = function(given...);
    }
    check(status);
  }
  template <class... Parameters, class... Given>
  void call_over(Communicator over, heed_status (*function)(MPI_Comm, Parameters...),
                 Given... given) const {
    if (over.bytes != sizeof(int)) return call(function, handle_of<MPI_Comm>(over), given...);
    call(reinterpret_cast<heed_status (*)(int, Parameters...)>(reinterpret_cast<void*>(function)),
         handle_of<int>(over), given...);
  }

#define HEED_MEMBER(name) decltype(&::name) name = nullptr;
  HEED_MPI_FUNCTIONS(HEED_MEMBER)
#undef HEED_MEMBER

 private:
  static const char* python_version() { return ::heed_version_string(); }

  template <class Handle>
  static Handle handle_of(Communicator over) {
    Handle handle;
    std::memcpy(&handle, over.handle, sizeof handle);
    return handle;
  }

  /// In the library, or in what it is linked to.
  template <class Function>
  void find(const char* name, Function& function) const {
    void* const found = dlsym(handle_, name);
    if (found == nullptr) refuse_unsupported("{} has no {}", path_, name);
    function = reinterpret_cast<Function>(found);
  }

  std::string path_;
  void* handle_;  // never closed: threads and MPI outlive it
  int (*library_version_)(char*, int*) = nullptr;
};

nb::list rows_of(const MpiLibrary& library, std::uint32_t placement, nb::handle length, int ranks,
                 int rank) {
  heed_mpi_rows rows[2] = {};
  library.check(library.heed_mpi_place(placement, integer("length", length), ranks, rank, rows));
  nb::list all;
  for (const heed_mpi_rows& range : rows) all.append(nb::make_tuple(range.begin, range.count));
  return all;
}

/// Runs a step that may fail on one rank alone. By `agree`, of heed.mpi and collective, all ranks
/// raise what the first of them did.
template <class Step>
void agreed(nb::handle agree, Step&& step) {
  agree(nb::cpp_function(std::forward<Step>(step)));
}

// ---- A rank's part of a problem of attention over ranks ----

constexpr const char* kMpiMaker = "heed.mpi.plan";

void refuse_options(const Arguments& given) {
  for (const Argument& argument : kArguments) {
    const nb::handle option = given.*argument.place;
    if ((argument.uses & kAlone) != 0 && option.is_valid() && truth(option) != false)
      refuse_unsupported("{} is given, which is not supported over ranks", argument.name);
  }
}

/// The plan must be told which tensors are among the arguments: a rank without rows has no
/// addresses.
std::uint32_t tensors_of(const Call& call, const Arguments& given) {
  const bool masked = given.attn_mask.is_valid();
  const bool boolean = call.attn_mask.form.element == Element::kBool;
  std::uint32_t tensors = 0;
  for (const auto& [has, tensor] : {std::pair{masked && boolean, HEED_MPI_MASK},
                                    {given.bias.is_valid() || (masked && !boolean), HEED_MPI_BIAS},
                                    {call.args.alibi_slopes != nullptr, HEED_MPI_ALIBI_SLOPES},
                                    {call.args.sinks != nullptr, HEED_MPI_SINKS},
                                    {call.args.key_lengths != nullptr, HEED_MPI_KEY_LENGTHS},
                                    {call.args.score_weights != nullptr, HEED_MPI_SCORE_WEIGHTS}})
    if (has) tensors |= tensor;
  return tensors;
}

const std::int64_t* read_positions(const char* of, nb::handle from, std::int64_t rows,
                                   Vector<std::int64_t>& positions) {
  if (from.is_none()) return nullptr;
  positions = read_vector<std::int64_t>("placement", from);
  if (positions.count != rows)
    refuse("placement has {} positions; {} has {} rows", positions.count, of, rows);
  return positions.data;
}

struct MpiPart {
  nb::object held;  // the arguments
  Arguments given;
  Call call;
  heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  Vector<std::int64_t> query_positions, key_positions;
  Vector<std::int32_t> cu_seqlens_q, cu_seqlens_k;
  std::shared_ptr<heed_context> context;

  /// Reads a dict of arguments: of a call, or of its gradients.
  MpiPart(nb::object arguments, bool backward)
      : held(std::move(arguments)),
        given(read_arguments(kMpiMaker, held, kOfAttention | kOfRanks,
                             backward ? kBackward | kOut : kForward)) {
    refuse_options(given);
    if (backward) check_differentiable("heed.mpi.attention_backward", given);
    take_packed();
    read_tensors(call, given);
    check_floating("key", call.key.form);
    check_floating("value", call.value.form);
    if (packed() && call.desc.batch != 1)
      refuse(
          "query is {}, a batch of {}; with cu_seqlens_q it must be of 1, which has the rows of "
          "all sequences",
          text(call.query.form), call.desc.batch);
  }
  MpiPart(const MpiPart&) = delete;
  MpiPart& operator=(const MpiPart&) = delete;

  bool packed() const { return cu_seqlens_q.count > 0; }
  std::int64_t keys() const { return call.desc.key_length; }
  /// The types of what must be alike on all ranks.
  nb::dict types() const {
    return dict_of("query", name_of(call.query.form.element), "key", name_of(call.key.form.element),
                   "value", name_of(call.value.form.element));
  }

  /// With the keys that all ranks have together. `writes`: with memory for results.
  void finish(const MpiLibrary& library, std::int64_t keys, std::uint32_t placement,
              nb::handle positions_q, nb::handle positions_k, bool everywhere, bool writes) {
    call.all_keys = keys;
    read_scores(call, given);
    if (writes) call.make_outputs(given);
    desc.attention = &call.desc;
    desc.placement = placement;
    desc.queries = everywhere ? HEED_MPI_QUERIES_EVERYWHERE : HEED_MPI_QUERIES_SPLIT;
    desc.sequences = call.sequences;
    desc.cu_seqlens_q = cu_seqlens_q.data;
    desc.cu_seqlens_k = cu_seqlens_k.data;
    desc.tensors = tensors_of(call, given);
    desc.query_positions = read_positions("query", positions_q, call.rows, query_positions);
    desc.key_positions = read_positions("key", positions_k, call.desc.key_length, key_positions);
    if (given.head_ranks.is_valid())
      desc.head_ranks = count("head_ranks", given.head_ranks, ", or None for the plan to choose");
    if (given.flops_per_byte.is_valid()) {
      desc.flops_per_byte = number("flops_per_byte", given.flops_per_byte);
      if (!(desc.flops_per_byte > 0) || std::isinf(desc.flops_per_byte))
        refuse("flops_per_byte is {}; it must be finite and above 0", desc.flops_per_byte);
    }
    context = library.make_context(given.context);
  }

 private:
  /// Other functions here take a packed batch for one sequence: sequences are the library's.
  void take_packed() {
    if (given.cu_seqlens_q.is_valid() != given.cu_seqlens_k.is_valid())
      refuse("{} is given without {}; over ranks a packed batch has both",
             given.cu_seqlens_q.is_valid() ? "cu_seqlens_q" : "cu_seqlens_k",
             given.cu_seqlens_q.is_valid() ? "cu_seqlens_k" : "cu_seqlens_q");
    if (!given.cu_seqlens_q.is_valid()) return;
    cu_seqlens_q = read_vector<std::int32_t>("cu_seqlens_q", std::exchange(given.cu_seqlens_q, {}));
    cu_seqlens_k = read_vector<std::int32_t>("cu_seqlens_k", std::exchange(given.cu_seqlens_k, {}));
    if (cu_seqlens_q.count < 2)
      refuse("cu_seqlens_q has {} numbers; over ranks it must have two at least",
             cu_seqlens_q.count);
    if (cu_seqlens_k.count != cu_seqlens_q.count)
      refuse("cu_seqlens_k is for {} sequences, but cu_seqlens_q for {}", cu_seqlens_k.count - 1,
             cu_seqlens_q.count - 1);
    call.sequences = cu_seqlens_q.count - 1;
  }
};

// ---- heed.mpi.plan and heed.mpi.attention ----

class MpiPlan {
 public:
  /// Collective.
  MpiPlan(const MpiLibrary& library, const nb::tuple& over, const MpiPart& part)
      : library_(library),
        planned_(kMpiMaker, part.call, part.given),
        all_keys_(part.call.all_keys),
        sequences_(part.call.sequences),
        plan_(made(library, over, part)),
        workspaces_(info().workspace_bytes) {}
  ~MpiPlan() { free(); }
  MpiPlan(const MpiPlan&) = delete;
  MpiPlan& operator=(const MpiPlan&) = delete;

  void free() {
    if (plan_ != nullptr) library_.heed_mpi_attention_plan_destroy(std::exchange(plan_, nullptr));
  }

  /// Takes a dict of arguments; collective.
  nb::object run(nb::handle arguments, nb::handle agree) const {
    Arguments given;
    Call call;
    Workspaces::Workspace workspace;
    agreed(agree, [&] {
      check_there();
      given = read_arguments("Plan.__call__", arguments, kOfAttention, kOptions | kOut);
      call.all_keys = all_keys_;
      call.sequences = sequences_;
      planned_.read(call, given);
      workspace = workspaces_.take();
    });
    library_.call(library_.heed_mpi_attention_plan_run, plan_, &call.args, workspace.get(),
                  workspaces_.bytes());
    return call.result(given);
  }

  nb::dict describe() const {
    const heed_mpi_attention_info known = info();
    return dict_of("strategy", known.strategy, "ranks", known.ranks, "rank", known.rank,
                   "head_ranks", known.head_ranks, "rounds", known.rounds, "flops", known.flops,
                   "bytes", known.bytes, "workspace_bytes", known.workspace_bytes);
  }

  nb::list choices() const {
    const std::uint32_t count = info().choices;
    nb::list all;
    for (std::uint32_t i = 0; i < count; ++i) {
      heed_mpi_choice choice = HEED_MPI_CHOICE_INIT;
      library_.check(library_.heed_mpi_attention_plan_choice(plan_, i, &choice));
      all.append(dict_of("head_ranks", choice.head_ranks, "chosen", choice.chosen != 0, "flops",
                         choice.flops, "ring_bytes", choice.ring_bytes, "heads_bytes",
                         choice.heads_bytes, "cost", choice.cost));
    }
    return all;
  }

  nb::dict times() const {
    check_there();
    heed_mpi_times times = HEED_MPI_TIMES_INIT;
    library_.check(library_.heed_mpi_attention_plan_times(plan_, &times));
    return dict_of("run", times.run, "compute", times.compute, "wait", times.wait);
  }

 private:
  static heed_mpi_attention_plan* made(const MpiLibrary& library, const nb::tuple& over,
                                       const MpiPart& part) {
    heed_mpi_attention_plan* plan = nullptr;
    library.call_over(Communicator(over), library.heed_mpi_attention_plan_create,
                      part.context.get(), &part.desc, &plan);
    return plan;
  }

  void check_there() const {
    if (plan_ == nullptr) refuse("the plan has been freed");
  }
  heed_mpi_attention_info info() const {
    check_there();
    heed_mpi_attention_info info = HEED_MPI_ATTENTION_INFO_INIT;
    library_.check(library_.heed_mpi_attention_plan_describe(plan_, &info));
    return info;
  }

  const MpiLibrary& library_;  // which is never freed
  Planned<Call> planned_;
  std::int64_t all_keys_;
  std::int64_t sequences_;
  heed_mpi_attention_plan* plan_;
  mutable Workspaces workspaces_;
};

// ---- heed.mpi.attention_backward ----

/// Computes the gradients of a part that is finished; collective.
nb::object gradients_of(MpiPart& part, const MpiLibrary& library, const nb::tuple& over,
                        nb::handle agree) {
  std::optional<AttentionGradients> back;
  agreed(agree, [&] { back.emplace(part.call, part.given); });
  heed_mpi_attention_backward_desc desc = HEED_MPI_ATTENTION_BACKWARD_DESC_INIT;
  desc.attention = &part.desc;
  desc.accumulate = back->desc.accumulate;
  desc.grad_out = back->desc.grad_out;
  desc.grad_lse = back->desc.grad_lse;
  desc.grad_query = back->desc.grad_query;
  desc.grad_key = back->desc.grad_key;
  desc.grad_value = back->desc.grad_value;
  desc.grad_bias = back->desc.grad_bias;
  // heed_mpi_gradients has their order, but score_weights come before the numbers here.
  constexpr std::uint32_t kHere = HEED_MPI_GRAD_SCALE;
  const std::uint32_t wanted = back->gradients.bits();
  desc.gradients = (wanted & (kHere - 1)) | (wanted >> 1U & ~(kHere - 1)) |
                   ((wanted & kHere) != 0 ? HEED_MPI_GRAD_SCORE_WEIGHTS : 0);
  // Where nothing is wanted, C would take the usual ones.
  if (desc.gradients != 0)
    library.call_over(Communicator(over), library.heed_mpi_attention_backward, part.context.get(),
                      &desc, &back->args);
  return back->result(part.given.query);
}

// ---- Graphs over ranks, and attention over them ----

class MpiGraph {
 public:
  /// Made of the edges that a rank brings, or of a file; collective.
  MpiGraph(const MpiLibrary& library, const nb::tuple& over, nb::handle agree, nb::handle sources,
           nb::handle destinations, nb::handle path, nb::handle nodes, nb::handle owners,
           nb::handle duplicates, nb::handle where)
      : library_(library) {
    heed_mpi_graph_desc desc = HEED_MPI_GRAPH_DESC_INIT;
    nb::object name;
    std::optional<Indices> indices;
    Vector<std::int32_t> ranks;
    agreed(agree, [&] {
      if (!path.is_none()) {
        if (nb::len(sources) + nb::len(destinations) > 0)
          refuse("sources and destinations are given beside path");
        PyObject* converted = nullptr;
        if (PyUnicode_FSConverter(path.ptr(), &converted) == 0) throw nb::python_error();
        name = nb::steal(converted);
        desc.path = PyBytes_AsString(converted);
      } else {
        if (nodes.is_none()) refuse("nodes is None; without a path it must be given");
        indices = read_edges(sources, destinations);
        desc.index_type = indices->type;
        desc.edges = indices->count(0);
        desc.sources = indices->data(0);
        desc.destinations = indices->data(1);
      }
      if (!nodes.is_none()) desc.nodes = integer("nodes", nodes);
      if (!owners.is_none()) {
        ranks = read_vector<std::int32_t>("owners", owners);
        if (nodes.is_none() || ranks.count != desc.nodes)
          refuse("owners has {} numbers; it must have one for each of the nodes, which are given",
                 ranks.count);
        desc.owners = ranks.data;
      }
      desc.duplicates = read_duplicates(unless_none(duplicates));
      context_ = library.make_context(where);
    });
    library_.call_over(Communicator(over), library_.heed_mpi_graph_create, context_.get(), &desc,
                       &graph_);
    library_.check(library_.heed_mpi_graph_describe(graph_, &info_));
  }
  ~MpiGraph() { free(); }
  MpiGraph(const MpiGraph&) = delete;
  MpiGraph& operator=(const MpiGraph&) = delete;

  void free() {
    if (graph_ != nullptr) library_.heed_mpi_graph_destroy(std::exchange(graph_, nullptr));
  }

  /// Takes a dict of arguments of this rank's rows; collective.
  nb::object attention(nb::handle arguments, nb::handle agree) const {
    Arguments given;
    GraphCall call;
    std::shared_ptr<heed_context> context = context_;
    agreed(agree, [&] {
      get();
      given = read_arguments("graph_attention", arguments, kOfGraphs, kForward);
      if (given.dropout_edges.is_valid())
        refuse_unsupported("dropout_edges is given, which is not supported over ranks");
      for (const Projection& row : GraphCall::kMatrixRows)
        if (const nb::handle matrix = given.*row.matrix.given;
            matrix.is_valid() && nb::isinstance<Weights>(matrix))
          refuse_unsupported(
              "{} is heed.Weights, which another engine has prepared; over ranks it must be an "
              "array",
              row.matrix.name);
      call.read(given, rows());
      call.make_outputs(given);
      if (given.context.is_valid()) context = library_.make_context(given.context);
    });
    library_.call(library_.heed_mpi_graph_attention, context.get(), get(), &call.desc, &call.args);
    return call.result(given);
  }

  nb::dict describe() const {
    return dict_of("nodes", info_.nodes, "edges", info_.edges, "own_nodes", info_.own_nodes,
                   "own_given", info_.own_given, "own_edges", info_.own_edges, "inner_nodes",
                   info_.inner_nodes, "inner_edges", info_.inner_edges, "remote_rows",
                   info_.remote_rows, "sent_rows", info_.sent_rows, "senders", info_.senders,
                   "receivers", info_.receivers, "bytes", info_.bytes);
  }

  /// The numbers of own nodes.
  nb::object nodes() const {
    const Output rows = numbers(info_.own_nodes);
    library_.check(library_.heed_mpi_graph_nodes(get(), numbers_of(rows)));
    return rows.object;
  }
  /// The sources and destinations of own edges, and which of the given edges they are.
  nb::object edges() const {
    const Output of[] = {numbers(info_.own_given), numbers(info_.own_given),
                         numbers(info_.own_given)};
    library_.check(library_.heed_mpi_graph_edges(get(), numbers_of(of[0]), numbers_of(of[1]),
                                                 numbers_of(of[2])));
    return nb::make_tuple(of[0].object, of[1].object, of[2].object);
  }

 private:
  const heed_mpi_graph* get() const {
    if (graph_ == nullptr) refuse("the graph has been freed");
    return graph_;
  }
  /// This rank's rows, described as a graph of their own.
  heed_graph_info rows() const {
    heed_graph_info rows = HEED_GRAPH_INFO_INIT;
    rows.nodes = info_.own_nodes;
    rows.edges = info_.own_edges;
    rows.edges_given = info_.own_given;
    return rows;
  }
  static Output numbers(std::int64_t count) { return make_array({}, Element::kI64, {count}); }
  static std::int64_t* numbers_of(const Output& made) {
    return static_cast<std::int64_t*>(made.array.data);
  }

  const MpiLibrary& library_;  // which is never freed
  std::shared_ptr<heed_context> context_;
  heed_mpi_graph* graph_ = nullptr;
  heed_mpi_graph_info info_ = HEED_MPI_GRAPH_INFO_INIT;
};

/// Lets a with statement free the object, collectively, at its end.
template <class Type>
void bind_freed(nb::class_<Type>& type) {
  type.def("free", &Type::free,
           R"(Gives back its communicator and memory; collective.

What nobody holds is freed too. Once MPI has been finalized there is nothing to free.
In C: heed_mpi_attention_plan_destroy, heed_mpi_graph_destroy.)")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> typing.Self"))
      .def(
          "__exit__", [](Type& self, const nb::args&) { self.free(); },
          nb::sig("def __exit__(self, *error: object) -> None"));
}

}  // namespace

void bind_mpi(nb::module_& module) {
  nb::class_<MpiLibrary>(module, "MpiLibrary", "libheed_mpi; see heed.mpi.")
      .def(nb::init<const char*>(), nb::arg("path"))
      .def_prop_ro("path",
                   [](const MpiLibrary& library) { return nb::str(library.path().c_str()); })
      .def_prop_ro("mpi", [](const MpiLibrary& library) { return nb::str(library.mpi().c_str()); })
      .def("place", &rows_of, nb::arg(), nb::arg().none(), nb::arg(), nb::arg(),
           nb::sig("def place(self, placement: int, length: int, ranks: int, rank: int, /) -> "
                   "list[tuple[int, int]]"));
  nb::class_<MpiPart>(module, "MpiPart", "What a rank brings; see heed.mpi.")
      .def(nb::init<nb::object, bool>(),
           nb::sig("def __init__(self, arguments: object, backward: bool, /) -> None"))
      .def_prop_ro("keys", &MpiPart::keys)
      .def("types", &MpiPart::types, nb::sig("def types(self) -> dict[str, str]"))
      .def("finish", &MpiPart::finish, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
           nb::arg().none(), nb::arg(), nb::arg(),
           nb::sig("def finish(self, library: MpiLibrary, all_keys: int, placement: int, "
                   "query_positions: object, key_positions: object, everywhere: bool, "
                   "writes: bool, /) -> None"))
      .def("gradients", &gradients_of,
           nb::sig("def gradients(self, library: MpiLibrary, over: tuple[int, int], "
                   "agree: object, /) -> typing.Any"));
  nb::class_<MpiGraph> graph(module, "MpiGraph", "A graph of libheed_mpi; see heed.mpi.");
  graph
      .def(nb::init<const MpiLibrary&, const nb::tuple&, nb::handle, nb::handle, nb::handle,
                    nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(),
           nb::keep_alive<1, 2>(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
           nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
           nb::arg().none(),
           nb::sig("def __init__(self, library: MpiLibrary, over: tuple[int, int], agree: object, "
                   "sources: object, destinations: object, path: object, nodes: object, "
                   "owners: object, duplicates: object, context: Context | None, /) -> None"))
      .def("_attention", &MpiGraph::attention,
           nb::sig("def _attention(self, arguments: object, agree: object, /) -> typing.Any"))
      .def("describe", &MpiGraph::describe, nb::sig("def describe(self) -> dict[str, int]"),
           "What this rank has of it: nodes and edges of all ranks; of this one own_nodes, "
           "own_given, what arrays over edges have rows for, own_edges that count, inner_nodes "
           "and inner_edges, computed while rows travel, remote_rows that come and sent_rows that "
           "go in every step, senders and receivers of them, bytes. In C: "
           "heed_mpi_graph_describe.")
      .def("nodes", &MpiGraph::nodes,
           nb::sig("def nodes(self) -> numpy.typing.NDArray[numpy.int64]"),
           "Which nodes this rank has, ascending: its rows. In C: heed_mpi_graph_nodes.")
      .def("edges", &MpiGraph::edges,
           nb::sig("def edges(self) -> tuple[numpy.typing.NDArray[numpy.int64], ...]"),
           "Which edges this rank has rows of: sources and destinations, and given: each was the "
           "so-many-th of those that all ranks brought, in order of ranks, or that the file has. "
           "In C: heed_mpi_graph_edges.");
  bind_freed(graph);
  nb::class_<MpiPlan> plan(module, "MpiPlan", "A plan of libheed_mpi; see heed.mpi.");
  plan.def(nb::init<const MpiLibrary&, const nb::tuple&, const MpiPart&>(), nb::keep_alive<1, 2>(),
           nb::sig("def __init__(self, library: MpiLibrary, over: tuple[int, int], "
                   "part: MpiPart, /) -> None"))
      .def("_run", &MpiPlan::run,
           nb::sig("def _run(self, arguments: object, agree: object, /) -> typing.Any"))
      .def("describe", &MpiPlan::describe, nb::sig("def describe(self) -> dict[str, object]"),
           "How it computes: strategy (\"ring\", \"heads\", \"grid\" or \"everywhere\"), ranks, "
           "rank, head_ranks that share heads, rounds, flops, bytes that this rank sends in a "
           "call, workspace_bytes. In C: heed_mpi_attention_plan_describe.")
      .def("choices", &MpiPlan::choices, nb::sig("def choices(self) -> list[dict[str, object]]"),
           "What each number of head_ranks would cost the rank that it costs most: head_ranks, "
           "chosen, flops, ring_bytes, heads_bytes and cost. In C: "
           "heed_mpi_attention_plan_choice.")
      .def("times", &MpiPlan::times, nb::sig("def times(self) -> dict[str, float]"),
           "Seconds that the latest call took on this rank: run, from call to return; compute and "
           "wait, of those. All 0 before the first call. In C: heed_mpi_attention_plan_times.");
  bind_freed(plan);
}

}  // namespace heed::python
