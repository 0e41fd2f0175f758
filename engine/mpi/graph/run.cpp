// A run: all ranks do the same in every step, from the first message to the last row of out.
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "engine/mpi/graph/plan.hpp"
#include "engine/runtime/structs.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed::mpi {
namespace {

using Plan = heed_mpi_graph_attention_plan;

/// How long this thread sleeps between two looks at MPI while another computes: messages travel
/// piece by piece, and a core that waits does not compute.
constexpr std::chrono::microseconds kBetweenLooks{20};

/// A thread that has ended when this does, whatever MPI says meanwhile.
struct Joined {
  std::thread thread;
  ~Joined() {
    if (thread.joinable()) thread.join();
  }
};

class Run : RankRun {
 public:
  Run(const Plan& plan, const heed_graph_attention_args& args, std::byte* workspace)
      : RankRun(plan.comm, workspace + plan.workspace.requests),
        plan_(plan),
        graph_(*plan.graph),
        desc_(plan.desc),
        args_(args),
        workspace_(workspace) {
    if (!graph_.alone) prefer_large_pages(at(plan.workspace.key.at), at(plan.workspace.query.at));
  }

  void run() {
    timed(plan_, [&] {
      if (graph_.alone)
        attempt([&] {
          heed_graph_attention_args args = args_;
          args.dropout_edges = places_from(0);
          check(heed_graph_attention_plan_run(plan_.whole.get(), &args, workspace_,
                                              plan_.call_bytes));
        });
      for (std::int64_t t = 0; t < desc_.steps && !graph_.alone; ++t) step(t);
      agree();
    });
  }

 private:
  std::byte* at(std::size_t offset) const { return after(workspace_, offset); }
  Tensor at(const Buffer& buffer) const { return {at(buffer.at), buffer.layout}; }
  /// Rows of own nodes in a step.
  struct Own {
    Tensor query, data, out;
    std::int64_t step;
    bool last;
  };

  Own own_of(std::int64_t t) const {
    const GraphWorkspace& space = plan_.workspace;
    const auto later = static_cast<std::size_t>(t % 2);
    Own own = {};
    own.query = plan_.projects() ? at(space.query) : tensor_of(args_.query, desc_.query);
    own.data = t == 0 ? tensor_of(args_.data, plan_.first.data)
                      : Tensor{at(space.next[1 - later].at), plan_.later.data};
    own.out = desc_.steps > 1 ? at(space.next[later]) : tensor_of(args_.out, desc_.out);
    own.step = t;
    own.last = t + 1 == desc_.steps;
    return own;
  }

  void step(std::int64_t t) {
    const Stage& stage = t == 0 ? plan_.first : plan_.later;
    const Own own = own_of(t);
    std::byte* const rows = at(plan_.workspace.key.at);
    std::byte* const packed = at(plan_.workspace.packed);
    attempt([&] {
      prepare(stage, own);
      plan_.halo.pack(rows, packed);
    });
    plan_.halo.begin(requests_, rows, packed);
    compute_meanwhile(stage, [&] { attempt([&] { call(graph_.inner, stage.inner, own); }); });
    wait([&] { requests_.wait(); });
    attempt([&] {
      plan_.halo.unpack(packed, rows);
      call(graph_.border, stage.border, own);
      // To the call in place these were nodes without edges.
      write_few(graph_.inner.in_place ? graph_.border : graph_.inner, own);
      if (own.last && desc_.steps > 1)
        copy(own.out, tensor_of(args_.out, desc_.out), outs(graph_.own_nodes()));
    });
  }

  // The extents of so many rows, or of one.
  Extent keys(std::int64_t rows = 1) const { return {1, desc_.heads, rows, desc_.features}; }
  Extent values() const { return {1, desc_.heads, 1, desc_.value_features}; }
  Extent outs(std::int64_t rows = 1) const {
    return {1, plan_.out_heads(), rows, desc_.value_features};
  }

  /// Copies rows of such an extent: one tensor has them side by side, the other at these places.
  static void gather(const Tensor& from, const std::vector<std::int32_t>& places, const Tensor& to,
                     const Extent& row) {
    for (std::size_t i = 0; i < places.size(); ++i)
      copy(from.from(0, places[i]), to.from(0, static_cast<std::int64_t>(i)), row);
  }
  static void scatter(const Tensor& from, const Tensor& to, const std::vector<std::int32_t>& places,
                      const Extent& row) {
    for (std::size_t i = 0; i < places.size(); ++i)
      copy(from.from(0, static_cast<std::int64_t>(i)), to.from(0, places[i]), row);
  }

  /// Brings own keys and values, projected where the plan projects, to their places among the rows
  /// that others send.
  void prepare(const Stage& stage, const Own& own) const {
    heed_graph_projections made = HEED_GRAPH_PROJECTIONS_INIT;
    made.key = args_.key, made.key_layout = desc_.key;
    made.value = args_.value, made.value_layout = desc_.value;
    if (stage.project != nullptr) {
      heed_graph_attention_args args = args_;
      if (graph_.own_nodes() > 0) args.data = own.data.data;
      args.edge_data = nullptr;  // its graph has no edges
      check(heed_graph_attention_plan_project(stage.project.get(), &args, at(plan_.workspace.calls),
                                              plan_.call_bytes, &made));
      copy(tensor_of(made.query, made.query_layout), own.query, keys(graph_.own_nodes()));
    }
    const GraphWorkspace& space = plan_.workspace;
    scatter(tensor_of(made.key, made.key_layout), at(space.key), graph_.own_rows, keys());
    scatter(tensor_of(made.value, made.value_layout), at(space.value), graph_.own_rows, values());
  }

  /// MPI may be called on this thread alone; so another one computes.
  template <class Function>
  void compute_meanwhile(const Stage& stage, Function&& function) {
    if (stage.inner == nullptr) return;
    if (plan_.halo.messages.empty()) return function();
    std::atomic<bool> done{false};
    Joined other;
    try {
      other.thread = std::thread([&] {
        function();
        done.store(true, std::memory_order_release);
      });
    } catch (const std::system_error&) {
      return function();  // no thread to be had: rows travel as far as MPI takes them by itself
    }
    while (!done.load(std::memory_order_acquire) && !requests_.progress())
      std::this_thread::sleep_for(kBetweenLooks);
  }

  /// The places that own edges were given at, from an edge on: dropout goes by them.
  const std::int64_t* places_from(std::int64_t edge) const {
    return desc_.dropout == 0 ? nullptr : graph_.places.data() + edge;
  }

  /// The rows of a call that is not in place.
  Own few(const Own& own) const {
    const auto& few = plan_.workspace.few;
    const Extent data = {1, 1, graph_.own_nodes(), desc_.width};
    return {at(few.query), contiguous(at(few.data.at), own.data.layout.dtype, data), at(few.out),
            own.step, own.last};
  }

  void call(const Share& share, const GraphPlan& plan, const Own& own) const {
    if (plan == nullptr) return;
    const GraphWorkspace& space = plan_.workspace;
    const Own used = share.in_place ? own : few(own);
    if (!share.in_place) {
      gather(own.query, share.nodes, used.query, keys());
      if (desc_.residual != 0) gather(own.data, share.nodes, used.data, {1, 1, 1, desc_.width});
    }
    heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
    args.query = used.query.data;
    args.key = at(space.key).data;
    args.value = at(space.value).data;
    if (desc_.residual != 0) args.data = used.data.data;
    if (share.edges > 0)
      args.edge_data = tensor_of(args_.edge_data, desc_.edge_data).from(0, share.first_edge).data;
    args.w_edge_key = args_.w_edge_key;
    args.w_edge_value = args_.w_edge_value;
    args.edge_bias = tensor_of(args_.edge_bias, desc_.edge_bias).from(0, share.first_edge).data;
    args.head_weights = args_.head_weights;
    args.score_weights = args_.score_weights;
    args.dropout_seed = args_.dropout_seed;
    args.dropout_offset = args_.dropout_offset;
    if (desc_.dropout != 0) args.dropout_offset += static_cast<std::uint64_t>(own.step);
    args.dropout_edges = places_from(share.first_edge);
    args.out = used.out.data;
    if (own.last && args_.lse != nullptr)
      args.lse = share.in_place ? args_.lse : at(space.few.lse).data;
    if (own.last)
      args.weights = tensor_of(args_.weights, desc_.weights).from(0, share.first_edge).data;
    check(heed_graph_attention_plan_run(plan.get(), &args, at(space.calls), plan_.call_bytes));
  }

  /// Copies the results of a call that was not in place to where they belong.
  void write_few(const Share& share, const Own& own) const {
    const auto& few = plan_.workspace.few;
    scatter(at(few.out), own.out, share.nodes, outs());
    if (own.last && args_.lse != nullptr)
      scatter(at(few.lse), tensor_of(args_.lse, desc_.lse), share.nodes, {1, desc_.heads, 1, 1});
  }

  const Plan& plan_;
  const RankGraph& graph_;
  const heed_graph_attention_desc& desc_;
  const heed_graph_attention_args& args_;
  std::byte* const workspace_;
};

/// This rank's arguments. Throws an Error unless a run may have them, and the workspace is large
/// enough.
heed_graph_attention_args read_args(const Plan& plan, const heed_graph_attention_args* given,
                                    void* workspace, std::size_t bytes) {
  heed_graph_attention_args args = read_struct(given, "args");
  check_workspace(plan.workspace_bytes, workspace, bytes);
  std::byte* const calls = static_cast<std::byte*>(workspace) + plan.workspace.calls;
  const heed_graph_attention_desc& d = plan.desc;
  const std::uint32_t real = d.out.dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  const auto dtype = [&](const heed_matrix_layout& of) { return of.dtype == 0 ? real : of.dtype; };
  const bool nodes = plan.graph->own_nodes() > 0;
  const bool data = plan.projects() || d.residual != 0;
  const bool matrices = d.inputs == HEED_GRAPH_PER_NODE;
  if (args.dropout_edges != nullptr)
    fail(HEED_STATUS_UNSUPPORTED,
         "args.dropout_edges is given, which is not supported over ranks: edges have the numbers "
         "that heed_mpi_graph_edges gives");
  heed_graph_attention_args others = args;  // except for tensors that the empty graph has none of
  const auto check_rows = [](const char* field, auto& pointer, std::uint32_t type, bool used,
                             bool some, auto& other) {
    if (!used) return;
    check_tensor(field, pointer, type, some);
    if (!some) pointer = nullptr;
    other = nullptr;
  };
  check_rows("args.query", args.query, d.query.dtype, !plan.projects(), nodes, others.query);
  check_rows("args.key", args.key, d.key.dtype, !plan.projects(), nodes, others.key);
  check_rows("args.value", args.value, d.value.dtype, !plan.projects(), nodes, others.value);
  check_rows("args.data", args.data, d.data.dtype, data, nodes, others.data);
  check_rows("args.w_query", args.w_query, dtype(d.w_query), matrices, nodes, others.w_query);
  check_rows("args.w_key", args.w_key, dtype(d.w_key), matrices, nodes, others.w_key);
  check_rows("args.w_value", args.w_value, dtype(d.w_value), matrices, nodes, others.w_value);
  check_rows("args.edge_data", args.edge_data, d.edge_data.dtype, d.edge_width > 0,
             plan.graph->given() > 0, others.edge_data);
  check_rows("args.out", args.out, d.out.dtype, true, nodes, others.out);
  check(heed_graph_attention_plan_run(plan.empty.get(), &others, calls, plan.call_bytes));
  return args;
}

}  // namespace
}  // namespace heed::mpi

void heed_mpi_graph_attention_plan::run(const heed_graph_attention_args* given, void* workspace,
                                        std::size_t bytes) const {
  using namespace heed::mpi;
  const auto args = comm.agreed([&] { return read_args(*this, given, workspace, bytes); });
  compare_seeds(comm, desc.dropout, args);
  Run(*this, args, static_cast<std::byte*>(workspace)).run();
}
