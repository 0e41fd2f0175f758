// heed.mpi: attention over the ranks of MPI. The package sees to it that all ranks refuse together.
#include <memory>
#include <utility>

#include "api/python/module/bind.hpp"
#include "api/python/module/mpi_part.hpp"
#include "api/python/module/planned_call.hpp"
#include "api/python/module/workspaces.hpp"

namespace heed::python {
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

}  // namespace heed::python
