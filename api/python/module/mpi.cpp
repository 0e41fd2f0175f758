// heed.mpi.
#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/heed_mpi.h"
#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/gradients.hpp"
#include "api/python/module/graph.hpp"
#include "api/python/module/outputs.hpp"
#include "api/python/module/plan.hpp"

namespace heed::python {

// libheed_mpi, loaded while the program runs: the module is linked to no MPI.
//
// It has an engine of its own, that of the libheed which it is linked to. So contexts are made
// there, from what the caller's was asked for.

class MpiLibrary {
 public:
  /// Raises heed.UnsupportedError where it cannot be loaded, or is of another version.
  explicit MpiLibrary(const char* path);

  const std::string& path() const { return path_; }
  /// What its MPI says of itself.
  std::string mpi() const;

  /// Raises what stands for the status, with the message of the library.
  void check(heed_status status) const;
  /// A context of this engine.
  std::shared_ptr<heed_context> make_context(const heed_context_options& options) const;
  /// Collective. `communicator` is where its handle lies, which is of so many bytes.
  heed_mpi_attention_plan* make_plan(const void* communicator, std::size_t bytes,
                                     const heed_context* context,
                                     const heed_mpi_attention_desc& desc) const;

  /// Likewise.
  void attention_backward(const void* communicator, std::size_t bytes, const heed_context* context,
                          const heed_mpi_attention_backward_desc& desc,
                          const heed_attention_backward_args& args) const;
  heed_mpi_graph* make_graph(const void* communicator, std::size_t bytes,
                             const heed_context* context, const heed_mpi_graph_desc& desc) const;

  decltype(&heed_mpi_graph_destroy) graph_destroy = nullptr;
  decltype(&heed_mpi_graph_describe) graph_describe = nullptr;
  decltype(&heed_mpi_graph_nodes) graph_nodes = nullptr;
  decltype(&heed_mpi_graph_edges) graph_edges = nullptr;
  decltype(&heed_mpi_graph_attention) graph_attention = nullptr;
  decltype(&heed_mpi_place) place = nullptr;
  decltype(&heed_mpi_attention_plan_destroy) destroy = nullptr;
  decltype(&heed_mpi_attention_plan_describe) describe = nullptr;
  decltype(&heed_mpi_attention_plan_choice) choice = nullptr;
  decltype(&heed_mpi_attention_plan_times) times = nullptr;
  decltype(&heed_mpi_attention_plan_run) run = nullptr;

 private:
  template <class Function>
  void find(const char* name, Function& function) const;

  std::string path_;
  void* handle_;  // never closed: threads and MPI outlive it
  decltype(&heed_version_string) version_ = nullptr;
  decltype(&heed_context_create) context_create_ = nullptr;
  decltype(&heed_context_destroy) context_destroy_ = nullptr;
  decltype(&heed_last_error) heed_error_ = nullptr;
  decltype(&heed_mpi_last_error) mpi_error_ = nullptr;
  void *create_ = nullptr, *backward_ = nullptr;  // which functions depends on the MPI
  void* graph_create_ = nullptr;
  int (*library_version_)(char*, int*) = nullptr;
};

// ---- A rank's part of a problem of attention over ranks ----

constexpr const char* kMpiMaker = "heed.mpi.plan";

/// All that can go wrong on one rank alone happens here, where nobody waits for it.
struct MpiPart {
  nb::object query, key, value, out, given;  // the arguments, held
  Options options;
  Call call;
  std::int64_t all_keys = 0;
  heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  Vector<std::int64_t> query_positions, key_positions;
  Vector<std::int32_t> cu_seqlens_q, cu_seqlens_k;
  Vector<std::int32_t> key_lengths;  // of sequences, in a packed batch
  std::shared_ptr<heed_context> context;

  MpiPart(nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle g);
  MpiPart(const MpiPart&) = delete;
  MpiPart& operator=(const MpiPart&) = delete;

  bool packed() const { return cu_seqlens_q.count > 0; }
  /// The types of what must be alike on all ranks.
  nb::dict types() const;
  /// With the keys that all ranks have together. `writes`: with memory for results.
  void finish(const MpiLibrary& library, std::int64_t keys, std::uint32_t placement,
              nb::handle positions_q, nb::handle positions_k, bool everywhere,
              nb::handle head_ranks, nb::handle flops_per_byte, nb::handle where, bool writes);

 private:
  void take_packed();
  nb::handle packed_lengths_;  // as given
};

/// key_lengths of `sequences` sequences of a packed batch.
Vector<std::int32_t> read_packed_lengths(nb::handle from, std::int64_t sequences);

namespace {

/// Calls `function` without the GIL. The handle lies at `communicator`, and is of so many bytes: an
/// int, as MPICH has it, or a pointer.
template <class... Arguments>
heed_status collective(void* function, const void* communicator, std::size_t bytes,
                       Arguments... arguments) {
  const nb::gil_scoped_release released;
  const auto call = [&](auto handle) {
    std::memcpy(&handle, communicator, sizeof handle);
    return reinterpret_cast<heed_status (*)(decltype(handle), Arguments...)>(function)(
        handle, arguments...);
  };
  return bytes == sizeof(int) ? call(0) : call(MPI_Comm{});
}

}  // namespace

MpiLibrary::MpiLibrary(const char* path) : path_(path), handle_(dlopen(path, RTLD_NOW)) {
  if (handle_ == nullptr) refuse_unsupported("%s", dlerror());
  find("heed_mpi_place", place);
  find("heed_mpi_attention_plan_create", create_);
  find("heed_mpi_attention_plan_destroy", destroy);
  find("heed_mpi_attention_plan_describe", describe);
  find("heed_mpi_attention_plan_choice", choice);
  find("heed_mpi_attention_plan_times", times);
  find("heed_mpi_attention_plan_run", run);
  find("heed_mpi_attention_backward", backward_);
  find("heed_mpi_graph_create", graph_create_);
  find("heed_mpi_graph_destroy", graph_destroy);
  find("heed_mpi_graph_describe", graph_describe);
  find("heed_mpi_graph_nodes", graph_nodes);
  find("heed_mpi_graph_edges", graph_edges);
  find("heed_mpi_graph_attention", graph_attention);
  find("heed_mpi_last_error", mpi_error_);
  find("heed_context_create", context_create_);
  find("heed_context_destroy", context_destroy_);
  find("heed_last_error", heed_error_);
  find("heed_version_string", version_);
  find("MPI_Get_library_version", library_version_);
  if (std::strcmp(version_(), heed_version_string()) != 0)
    refuse_unsupported("%s is of heed %s; this package is of heed %s", path, version_(),
                       heed_version_string());
}

/// In the library, or in what it is linked to.
template <class Function>
void MpiLibrary::find(const char* name, Function& function) const {
  void* const found = dlsym(handle_, name);
  if (found == nullptr) refuse_unsupported("%s has no %s", path_.c_str(), name);
  function = reinterpret_cast<Function>(found);
}

std::string MpiLibrary::mpi() const {
  std::string text(8192, '\0');  // MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI has 256
  int length = 0;
  library_version_(text.data(), &length);
  return text.c_str();
}

void MpiLibrary::check(heed_status status) const { python::check(status, mpi_error_()); }

std::shared_ptr<heed_context> MpiLibrary::make_context(const heed_context_options& options) const {
  heed_context* context = nullptr;
  python::check(context_create_(&options, &context), heed_error_());
  return {context, context_destroy_};
}

heed_mpi_attention_plan* MpiLibrary::make_plan(const void* communicator, std::size_t bytes,
                                               const heed_context* context,
                                               const heed_mpi_attention_desc& desc) const {
  heed_mpi_attention_plan* plan = nullptr;
  check(collective(create_, communicator, bytes, context, &desc, &plan));
  return plan;
}

void MpiLibrary::attention_backward(const void* communicator, std::size_t bytes,
                                    const heed_context* context,
                                    const heed_mpi_attention_backward_desc& desc,
                                    const heed_attention_backward_args& args) const {
  check(collective(backward_, communicator, bytes, context, &desc, &args));
}

heed_mpi_graph* MpiLibrary::make_graph(const void* communicator, std::size_t bytes,
                                       const heed_context* context,
                                       const heed_mpi_graph_desc& desc) const {
  heed_mpi_graph* graph = nullptr;
  check(collective(graph_create_, communicator, bytes, context, &desc, &graph));
  return graph;
}

namespace {

void refuse_options(const Options& options) {
  for (const auto& [name, given] : {std::pair{"hard", options.hard},
                                    {"max_seqlen_q", options.max_seqlen_q},
                                    {"max_seqlen_k", options.max_seqlen_k},
                                    {"block_table", options.block_table},
                                    {"key_scales", options.key_scales},
                                    {"value_scales", options.value_scales},
                                    {"score_function", options.score_function},
                                    {"return_weights", options.return_weights},
                                    {"return_column_sums", options.return_column_sums}})
    if (given.is_valid() && given.ptr() != Py_False)
      refuse_unsupported("%s is given, which is not supported over ranks", name);
}

/// What the plan must be told of the tensors among the arguments.
std::uint32_t tensors_of(const heed_attention_args& args, const Options& options, bool boolean) {
  std::uint32_t tensors = 0;
  const auto bring = [&](bool given, std::uint32_t tensor) {
    if (given) tensors |= tensor;
  };
  // Of a rank without rows there are no addresses.
  const bool masked = options.attn_mask.is_valid();
  bring(masked && boolean, HEED_MPI_MASK);
  bring(options.bias.is_valid() || (masked && !boolean), HEED_MPI_BIAS);
  bring(args.alibi_slopes != nullptr, HEED_MPI_ALIBI_SLOPES);
  bring(args.sinks != nullptr, HEED_MPI_SINKS);
  bring(args.key_lengths != nullptr, HEED_MPI_KEY_LENGTHS);
  return tensors;
}

const std::int64_t* read_positions(const char* of, nb::handle from, std::int64_t rows,
                                   Vector<std::int64_t>& positions) {
  positions = read_vector<std::int64_t>("placement", from);
  if (positions.count != rows)
    refuse("placement has %lld positions; %s has %lld rows",
           static_cast<long long>(positions.count), of, static_cast<long long>(rows));
  return positions.data;
}

}  // namespace

Vector<std::int32_t> read_packed_lengths(nb::handle from, std::int64_t sequences) {
  Vector<std::int32_t> lengths = read_vector<std::int32_t>("key_lengths", from);
  if (lengths.count != sequences)
    refuse("key_lengths has %lld numbers; it must have one for each of the %lld sequences",
           static_cast<long long>(lengths.count), static_cast<long long>(sequences));
  return lengths;
}

MpiPart::MpiPart(nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle g)
    : query(nb::borrow(q)),
      key(nb::borrow(k)),
      value(nb::borrow(v)),
      out(nb::borrow(o)),
      given(nb::borrow(g)),
      options(read_options(kMpiMaker, given)) {
  refuse_options(options);
  take_packed();
  read_tensors(call, query, key, value, options);
  check_floating("key", call.key.form);
  check_floating("value", call.value.form);
  if (packed() && call.desc.batch != 1)
    refuse(
        "query is %s, a batch of %lld; with cu_seqlens_q it must be of 1, which has the rows of "
        "all sequences",
        text(call.query.form).c_str(), static_cast<long long>(call.desc.batch));
}

/// What follows takes a packed batch for one sequence: sequences are the library's.
void MpiPart::take_packed() {
  if (options.cu_seqlens_q.is_valid() != options.cu_seqlens_k.is_valid())
    refuse("%s is given without %s; over ranks a packed batch has both",
           options.cu_seqlens_q.is_valid() ? "cu_seqlens_q" : "cu_seqlens_k",
           options.cu_seqlens_q.is_valid() ? "cu_seqlens_k" : "cu_seqlens_q");
  if (!options.cu_seqlens_q.is_valid()) return;
  cu_seqlens_q = read_vector<std::int32_t>("cu_seqlens_q", std::exchange(options.cu_seqlens_q, {}));
  cu_seqlens_k = read_vector<std::int32_t>("cu_seqlens_k", std::exchange(options.cu_seqlens_k, {}));
  packed_lengths_ = std::exchange(options.key_lengths, {});
  if (cu_seqlens_q.count < 2)
    refuse("cu_seqlens_q has %lld numbers; over ranks it must have two at least",
           static_cast<long long>(cu_seqlens_q.count));
  if (cu_seqlens_k.count != cu_seqlens_q.count)
    refuse("cu_seqlens_k is for %lld sequences, but cu_seqlens_q for %lld",
           static_cast<long long>(cu_seqlens_k.count - 1),
           static_cast<long long>(cu_seqlens_q.count - 1));
}

nb::dict MpiPart::types() const {
  nb::dict said;
  said["query"] = name_of(call.query.form.element);
  said["key"] = name_of(call.key.form.element);
  said["value"] = name_of(call.value.form.element);
  return said;
}

void MpiPart::finish(const MpiLibrary& library, std::int64_t keys, std::uint32_t placement,
                     nb::handle positions_q, nb::handle positions_k, bool everywhere,
                     nb::handle head_ranks, nb::handle flops_per_byte, nb::handle where,
                     bool writes) {
  all_keys = keys;
  read_shard_scores(call, options, all_keys);
  if (writes) make_outputs(call, options, out.is_none() ? nb::handle() : nb::handle(out));
  desc.attention = &call.desc;
  desc.placement = placement;
  desc.queries = everywhere ? HEED_MPI_QUERIES_EVERYWHERE : HEED_MPI_QUERIES_SPLIT;
  if (packed()) {
    desc.sequences = cu_seqlens_q.count - 1;
    desc.cu_seqlens_q = cu_seqlens_q.data;
    desc.cu_seqlens_k = cu_seqlens_k.data;
    if (packed_lengths_.is_valid()) {
      key_lengths = read_packed_lengths(packed_lengths_, desc.sequences);
      call.args.key_lengths = key_lengths.data;
    }
  }
  desc.tensors = tensors_of(call.args, options, call.attn_mask.form.element == Element::kBool);
  if (!positions_q.is_none())
    desc.query_positions = read_positions("query", positions_q, call.rows, query_positions);
  if (!positions_k.is_none())
    desc.key_positions = read_positions("key", positions_k, call.desc.key_length, key_positions);
  if (!head_ranks.is_none()) desc.head_ranks = integer("head_ranks", head_ranks);
  if (!head_ranks.is_none() && desc.head_ranks < 1)
    refuse("head_ranks is %lld; it must be at least 1, or None for the plan to choose",
           static_cast<long long>(desc.head_ranks));
  if (!flops_per_byte.is_none()) {
    desc.flops_per_byte = number("flops_per_byte", flops_per_byte);
    if (!(desc.flops_per_byte > 0) || std::isinf(desc.flops_per_byte))
      refuse("flops_per_byte is %g; it must be finite and above 0", desc.flops_per_byte);
  }
  context = library.make_context(*hold_context(where).options);
}

// ---- heed.mpi: attention over the ranks of MPI. The package sees to it that all ranks refuse
// together ----

namespace {

/// A call that has been read, and memory for it.
struct Ready {
  nb::object query, key, value, out, tensors;  // the arguments, held
  Call call;
  Vector<std::int32_t> key_lengths;  // of sequences, in a packed batch
  Outputs outputs;
  std::unique_ptr<Workspace> workspace;
};

class MpiPlan {
 public:
  /// Collective.
  MpiPlan(const MpiLibrary& library, const MpiPart& part, const void* communicator,
          std::size_t bytes)
      : library_(library),
        planned_(part.call, part.options, part.all_keys),
        sequences_(part.desc.sequences),
        packed_lengths_(part.packed() && part.call.args.key_lengths != nullptr),
        plan_(library.make_plan(communicator, bytes, part.context.get(), part.desc)),
        workspaces_(info().workspace_bytes) {}
  ~MpiPlan() { free(); }
  MpiPlan(const MpiPlan&) = delete;
  MpiPlan& operator=(const MpiPlan&) = delete;

  void free() {
    if (plan_ != nullptr) library_.destroy(std::exchange(plan_, nullptr));
  }

  Ready* read(nb::handle query, nb::handle key, nb::handle value, nb::handle out,
              nb::handle tensors) const {
    check_there();
    auto ready = std::make_unique<Ready>();
    ready->query = nb::borrow(query), ready->key = nb::borrow(key);
    ready->value = nb::borrow(value), ready->out = nb::borrow(out);
    ready->tensors = nb::borrow(tensors);
    nb::dict others;
    others.update(nb::borrow<nb::dict>(tensors));
    nb::object lengths = take_lengths(others);
    ready->outputs = planned_.read(ready->call, kMpiMaker, {query, key, value, out, others});
    if (lengths.is_valid()) {
      ready->key_lengths = read_packed_lengths(lengths, sequences_);
      ready->call.args.key_lengths = ready->key_lengths.data;
    }
    ready->workspace.reset(new Workspace(workspaces_.take()));
    return ready.release();
  }

  /// Collective.
  nb::object run(const Ready& ready) const {
    heed_status status = HEED_STATUS_OK;
    {
      const nb::gil_scoped_release released;
      status = library_.run(plan_, &ready.call.args, ready.workspace->get(), workspaces_.bytes());
    }
    library_.check(status);
    return ready.outputs.result(ready.call.kind, ready.call.out_given, ready.query);
  }

  nb::dict describe() const {
    const heed_mpi_attention_info known = info();
    nb::dict said;
    said["strategy"] = known.strategy;
    said["ranks"] = known.ranks;
    said["rank"] = known.rank;
    said["head_ranks"] = known.head_ranks;
    said["rounds"] = known.rounds;
    said["flops"] = known.flops;
    said["bytes"] = known.bytes;
    said["workspace_bytes"] = known.workspace_bytes;
    return said;
  }

  nb::list choices() const {
    const std::uint32_t count = info().choices;
    nb::list all;
    for (std::uint32_t i = 0; i < count; ++i) {
      heed_mpi_choice choice = HEED_MPI_CHOICE_INIT;
      library_.check(library_.choice(plan_, i, &choice));
      nb::dict said;
      said["head_ranks"] = choice.head_ranks;
      said["chosen"] = choice.chosen != 0;
      said["flops"] = choice.flops;
      said["ring_bytes"] = choice.ring_bytes;
      said["heads_bytes"] = choice.heads_bytes;
      said["cost"] = choice.cost;
      all.append(said);
    }
    return all;
  }

  nb::dict times() const {
    check_there();
    heed_mpi_times times = HEED_MPI_TIMES_INIT;
    library_.check(library_.times(plan_, &times));
    nb::dict said;
    said["run"] = times.run;
    said["compute"] = times.compute;
    said["wait"] = times.wait;
    return said;
  }

 private:
  void check_there() const {
    if (plan_ == nullptr) refuse("the plan has been freed");
  }
  heed_mpi_attention_info info() const {
    check_there();
    heed_mpi_attention_info info = HEED_MPI_ATTENTION_INFO_INIT;
    library_.check(library_.describe(plan_, &info));
    return info;
  }

  /// Those of sequences, which the rest takes for one.
  nb::object take_lengths(nb::dict& tensors) const {
    constexpr const char* kName = "key_lengths";
    if (sequences_ == 0) return {};
    const bool given = tensors.contains(kName) && !nb::handle(tensors[kName]).is_none();
    if (given && !packed_lengths_) refuse_type("%s is given, but the plan was made without", kName);
    if (!given && packed_lengths_) refuse_type("the plan was made with %s: give it", kName);
    if (!given) return {};
    nb::object lengths = tensors[kName];
    tensors[kName] = nb::none();
    return lengths;
  }

  const MpiLibrary& library_;  // which is never freed
  PlannedCall planned_;
  std::int64_t sequences_;
  bool packed_lengths_;
  heed_mpi_attention_plan* plan_;
  mutable Workspaces workspaces_;
};

nb::list place(const MpiLibrary& library, std::uint32_t placement, nb::handle length, int ranks,
               int rank) {
  heed_mpi_rows rows[2] = {};
  library.check(library.place(placement, integer("length", length), ranks, rank, rows));
  nb::list all;
  for (const heed_mpi_rows& range : rows) all.append(nb::make_tuple(range.begin, range.count));
  return all;
}

MpiPlan* plan(const MpiLibrary& library, std::uintptr_t communicator, std::size_t bytes,
              const MpiPart& part) {
  return new MpiPlan(library, part, reinterpret_cast<const void*>(communicator), bytes);
}

}  // namespace

void bind_mpi(nb::module_& module) {
  nb::class_<MpiLibrary>(module, "MpiLibrary", "libheed_mpi; see heed.mpi.")
      .def(nb::init<const char*>(), nb::arg("path"))
      .def_prop_ro("path",
                   [](const MpiLibrary& library) { return nb::str(library.path().c_str()); })
      .def_prop_ro("mpi", [](const MpiLibrary& library) { return nb::str(library.mpi().c_str()); })
      .def("place", &place, nb::arg("placement"), nb::arg("length").none(), nb::arg("ranks"),
           nb::arg("rank"),
           nb::sig("def place(self, placement: int, length: int, ranks: int, rank: int) -> "
                   "list[tuple[int, int]]"))
      .def("plan", &plan, nb::arg("communicator"), nb::arg("bytes"), nb::arg("part"),
           nb::keep_alive<0, 1>(),
           nb::sig("def plan(self, communicator: int, bytes: int, part: MpiPart) -> MpiPlan"));
  nb::class_<MpiPart>(module, "MpiPart", "What a rank brings; see heed.mpi.")
      .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(),
           nb::arg("query").none(), nb::arg("key").none(), nb::arg("value").none(),
           nb::arg("out").none(), nb::arg("options"),
           nb::sig("def __init__(self, query: object, key: object, value: object, out: object, "
                   "options: object) -> None"))
      .def_prop_ro("rows", [](const MpiPart& part) { return part.call.rows; })
      .def_prop_ro("keys", [](const MpiPart& part) { return part.call.desc.key_length; })
      .def("types", &MpiPart::types, nb::sig("def types(self) -> dict[str, str]"))
      .def("finish", &MpiPart::finish, nb::arg("library"), nb::arg("all_keys"),
           nb::arg("placement"), nb::arg("query_positions").none(), nb::arg("key_positions").none(),
           nb::arg("everywhere"), nb::arg("head_ranks").none(), nb::arg("flops_per_byte").none(),
           nb::arg("context").none(), nb::arg("writes"),
           nb::sig("def finish(self, library: MpiLibrary, all_keys: int, placement: int, "
                   "query_positions: object, key_positions: object, everywhere: bool, "
                   "head_ranks: object, flops_per_byte: object, context: object, writes: bool) -> "
                   "None"));
  bind_mpi_backward(module);
  bind_mpi_graph(module);
  nb::class_<Ready>(module, "MpiCall", "A call that has been read; see heed.mpi.");
  nb::class_<MpiPlan>(module, "MpiPlan", "A plan of libheed_mpi; see heed.mpi.")
      .def("read", &MpiPlan::read, nb::arg("query").none(), nb::arg("key").none(),
           nb::arg("value").none(), nb::arg("out").none(), nb::arg("tensors"),
           nb::sig("def read(self, query: object, key: object, value: object, out: object, "
                   "tensors: object) -> MpiCall"))
      .def("run", &MpiPlan::run, nb::arg("call"),
           nb::sig("def run(self, call: MpiCall) -> typing.Any"))
      .def("describe", &MpiPlan::describe, nb::sig("def describe(self) -> dict[str, object]"))
      .def("choices", &MpiPlan::choices, nb::sig("def choices(self) -> list[dict[str, object]]"))
      .def("times", &MpiPlan::times, nb::sig("def times(self) -> dict[str, float]"))
      .def("free", &MpiPlan::free);
}

// ---- heed.mpi.attention_backward ----

namespace {

/// Gradients of a part that is finished. Collective is `run` alone.
class MpiGradients {
 public:
  MpiGradients(MpiPart& part, nb::handle out, nb::handle lse, nb::handle grad_out,
               nb::handle grad_lse, nb::tuple wanted, nb::handle accumulate)
      : part_(part),
        held_(nb::make_tuple(out, lse, grad_out, grad_lse, wanted)),
        gradients_(checked(part), {out, lse, grad_out, grad_lse, wanted, accumulate}, dense_, args_,
                   part.all_keys) {
    desc_.attention = &part.desc;
    desc_.accumulate = dense_.accumulate;
    desc_.grad_out = dense_.grad_out;
    desc_.grad_lse = dense_.grad_lse;
    desc_.grad_query = dense_.grad_query;
    desc_.grad_key = dense_.grad_key;
    desc_.grad_value = dense_.grad_value;
    desc_.grad_bias = dense_.grad_bias;
    constexpr const char* kNames[] = {"grad_query", "grad_key",        "grad_value",
                                      "grad_bias",  "grad_sinks",      "grad_alibi_slopes",
                                      "grad_scale", "grad_temperature"};
    for (std::size_t i = 0; i < std::size(kNames); ++i)  // heed_mpi_gradients has their order
      if (is_wanted(kNames[i], wanted[i])) desc_.gradients |= 1U << i;
  }

  nb::object run(const MpiLibrary& library, std::uintptr_t communicator, std::size_t bytes) const {
    // Of nothing C would take the usual ones.
    if (desc_.gradients != 0)
      library.attention_backward(reinterpret_cast<const void*>(communicator), bytes,
                                 part_.context.get(), desc_, args_);
    return gradients_.named(part_.call, part_.query);
  }

 private:
  static Call& checked(MpiPart& part) {
    check_differentiable("heed.mpi.attention_backward", part.call, part.options);
    return part.call;
  }

  MpiPart& part_;
  nb::object held_;
  heed_attention_backward_desc dense_ = HEED_ATTENTION_BACKWARD_DESC_INIT;
  heed_attention_backward_args args_ = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  heed_mpi_attention_backward_desc desc_ = HEED_MPI_ATTENTION_BACKWARD_DESC_INIT;
  AttentionGradients gradients_;
};

}  // namespace

void bind_mpi_backward(nb::module_& module) {
  nb::class_<MpiGradients>(module, "MpiGradients", "Gradients that a rank brings; see heed.mpi.")
      .def(nb::init<MpiPart&, nb::handle, nb::handle, nb::handle, nb::handle, nb::tuple,
                    nb::handle>(),
           nb::keep_alive<1, 2>(), nb::arg("part"), nb::arg("out").none(), nb::arg("lse").none(),
           nb::arg("grad_out").none(), nb::arg("grad_lse").none(), nb::arg("wanted"),
           nb::arg("accumulate").none(),
           nb::sig("def __init__(self, part: MpiPart, out: object, lse: object, grad_out: object, "
                   "grad_lse: object, wanted: tuple[object, ...], accumulate: object) -> None"))
      .def("run", &MpiGradients::run, nb::arg("library"), nb::arg("communicator"), nb::arg("bytes"),
           nb::sig("def run(self, library: MpiLibrary, communicator: int, bytes: int) -> "
                   "typing.Any"));
}

// Graphs over ranks, and attention over them. All that can go wrong on one rank alone happens in
// MpiEdges and MpiGraphCall, where nobody waits for it; what follows is collective.

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
