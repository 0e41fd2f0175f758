// heed.mpi: attention over the ranks of MPI. The package sees to it that all ranks refuse together.
#include <cmath>
#include <memory>
#include <utility>

#include "api/python/module/bind.hpp"
#include "api/python/module/mpi_library.hpp"
#include "api/python/module/planned_call.hpp"
#include "api/python/module/workspaces.hpp"

namespace heed::python {
namespace {

constexpr const char* kMaker = "heed.mpi.plan";

void refuse_options(const Options& options) {
  for (const auto& [name, given] : {std::pair{"hard", options.hard},
                                    {"cu_seqlens_q", options.cu_seqlens_q},
                                    {"cu_seqlens_k", options.cu_seqlens_k},
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
std::uint32_t tensors_of(const heed_attention_args& args) {
  std::uint32_t tensors = 0;
  const auto bring = [&](const void* given, std::uint32_t tensor) {
    if (given != nullptr) tensors |= tensor;
  };
  bring(args.mask, HEED_MPI_MASK);
  bring(args.bias, HEED_MPI_BIAS);
  bring(args.alibi_slopes, HEED_MPI_ALIBI_SLOPES);
  bring(args.sinks, HEED_MPI_SINKS);
  bring(args.key_lengths, HEED_MPI_KEY_LENGTHS);
  return tensors;
}

/// A rank's part of a problem. All that can go wrong on one rank alone happens here, where nobody
/// waits for it.
struct Part {
  nb::object query, key, value, out, given;  // the arguments, held
  Options options;
  Call call;
  std::int64_t all_keys = 0;
  heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  Vector<std::int64_t> query_positions, key_positions;
  std::shared_ptr<heed_context> context;

  Part(nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle g)
      : query(nb::borrow(q)),
        key(nb::borrow(k)),
        value(nb::borrow(v)),
        out(nb::borrow(o)),
        given(nb::borrow(g)),
        options(read_options(kMaker, given)) {
    refuse_options(options);
    read_tensors(call, query, key, value, options);
    check_floating("key", call.key.form);
    check_floating("value", call.value.form);
  }

  /// The types of what must be alike on all ranks.
  nb::dict types() const {
    nb::dict said;
    said["query"] = name_of(call.query.form.element);
    said["key"] = name_of(call.key.form.element);
    said["value"] = name_of(call.value.form.element);
    return said;
  }

  /// With the keys that all ranks have together.
  void finish(const MpiLibrary& library, std::int64_t keys, std::uint32_t placement,
              nb::handle positions_q, nb::handle positions_k, bool everywhere,
              nb::handle head_ranks, nb::handle flops_per_byte, nb::handle where) {
    all_keys = keys;
    read_shard_scores(call, options, all_keys);
    make_outputs(call, options, out.is_none() ? nb::handle() : nb::handle(out));
    desc.attention = &call.desc;
    desc.placement = placement;
    desc.queries = everywhere ? HEED_MPI_QUERIES_EVERYWHERE : HEED_MPI_QUERIES_SPLIT;
    desc.tensors = tensors_of(call.args);
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

  static const std::int64_t* read_positions(const char* of, nb::handle from, std::int64_t rows,
                                            Vector<std::int64_t>& positions) {
    positions = read_vector<std::int64_t>("placement", from);
    if (positions.count != rows)
      refuse("placement has %lld positions; %s has %lld rows",
             static_cast<long long>(positions.count), of, static_cast<long long>(rows));
    return positions.data;
  }
};

/// A call that has been read, and memory for it.
struct Ready {
  nb::object query, key, value, out, tensors;  // the arguments, held
  Call call;
  Outputs outputs;
  std::unique_ptr<Workspace> workspace;
};

class MpiPlan {
 public:
  /// Collective.
  MpiPlan(const MpiLibrary& library, const Part& part, const void* communicator, std::size_t bytes)
      : library_(library),
        planned_(part.call, part.options, part.all_keys),
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
    ready->outputs = planned_.read(ready->call, kMaker, {query, key, value, out, tensors});
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

  const MpiLibrary& library_;  // which is never freed
  PlannedCall planned_;
  heed_mpi_attention_plan* plan_;
  mutable Workspaces workspaces_;
};

nb::list place(const MpiLibrary& library, std::uint32_t placement, std::int64_t length, int ranks,
               int rank) {
  heed_mpi_rows rows[2] = {};
  library.check(library.place(placement, length, ranks, rank, rows));
  nb::list all;
  for (const heed_mpi_rows& range : rows) all.append(nb::make_tuple(range.begin, range.count));
  return all;
}

MpiPlan* plan(const MpiLibrary& library, std::uintptr_t communicator, std::size_t bytes,
              const Part& part) {
  return new MpiPlan(library, part, reinterpret_cast<const void*>(communicator), bytes);
}

}  // namespace

void bind_mpi(nb::module_& module) {
  nb::class_<MpiLibrary>(module, "MpiLibrary", "libheed_mpi; see heed.mpi.")
      .def(nb::init<const char*>(), nb::arg("path"))
      .def_prop_ro("path",
                   [](const MpiLibrary& library) { return nb::str(library.path().c_str()); })
      .def_prop_ro("mpi", [](const MpiLibrary& library) { return nb::str(library.mpi().c_str()); })
      .def("place", &place, nb::arg("placement"), nb::arg("length"), nb::arg("ranks"),
           nb::arg("rank"),
           nb::sig("def place(self, placement: int, length: int, ranks: int, rank: int) -> "
                   "list[tuple[int, int]]"))
      .def("plan", &plan, nb::arg("communicator"), nb::arg("bytes"), nb::arg("part"),
           nb::keep_alive<0, 1>(),
           nb::sig("def plan(self, communicator: int, bytes: int, part: MpiPart) -> MpiPlan"));
  nb::class_<Part>(module, "MpiPart", "What a rank brings; see heed.mpi.")
      .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(),
           nb::arg("query").none(), nb::arg("key").none(), nb::arg("value").none(),
           nb::arg("out").none(), nb::arg("options"),
           nb::sig("def __init__(self, query: object, key: object, value: object, out: object, "
                   "options: object) -> None"))
      .def_prop_ro("rows", [](const Part& part) { return part.call.rows; })
      .def_prop_ro("keys", [](const Part& part) { return part.call.desc.key_length; })
      .def("types", &Part::types, nb::sig("def types(self) -> dict[str, str]"))
      .def("finish", &Part::finish, nb::arg("library"), nb::arg("all_keys"), nb::arg("placement"),
           nb::arg("query_positions").none(), nb::arg("key_positions").none(),
           nb::arg("everywhere"), nb::arg("head_ranks").none(), nb::arg("flops_per_byte").none(),
           nb::arg("context").none(),
           nb::sig("def finish(self, library: MpiLibrary, all_keys: int, placement: int, "
                   "query_positions: object, key_positions: object, everywhere: bool, "
                   "head_ranks: object, flops_per_byte: object, context: object) -> None"));
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

}  // namespace heed::python
