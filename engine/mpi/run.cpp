// A run: what all ranks do, from the first message to the last row of out.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/mpi/plan.hpp"
#include "engine/mpi/requests.hpp"
#include "engine/runtime/tell.hpp"

namespace heed::mpi {
namespace {

using Plan = heed_mpi_attention_plan;

/// Seconds that one thing took.
class Clock {
 public:
  template <class Function>
  void time(Function&& function) {
    const auto start = std::chrono::steady_clock::now();
    function();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
};

class Run {
 public:
  Run(const Plan& plan, const heed_attention_args& args, std::byte* workspace)
      : plan_(plan),
        problem_(plan.problem),
        args_(args),
        workspace_(workspace),
        requests_(plan.comm, workspace + plan.workspace.requests),
        inputs_(inputs_of(problem_, args)) {}

  void run() {
    Clock all;
    all.time([&] { work(); });
    plan_.times.run = all.seconds();
    plan_.times.compute = compute_.seconds();
    plan_.times.wait = wait_.seconds();
    if (plan_.verbose) print();
  }

 private:
  void work() {
    const bool shared = plan_.head_ranks > 1;
    if (shared)
      wait_.time([&] { inputs_ = plan_.exchange.gather(requests_, inputs_, exchange_memory()); });
    attempt([&] { pack(); });
    for (std::size_t n = 0; n < plan_.rounds.size(); ++n) compute_round(n);
    if (shared) {
      attempt([&] { write_all(plan_.exchange.results(exchange_memory())); });
      wait_.time([&] { plan_.exchange.scatter(requests_, exchange_memory()); });
    }
    if (problem_.everywhere()) wait_.time([&] { gather_results(); });
    if (status_ != HEED_STATUS_OK) set_last_error(error_.message);
    wait_.time([&] { plan_.comm.agree(status_); });
    compute_.time([&] { status_ = guarded([&] { write_out(); }); });
    wait_.time([&] { plan_.comm.agree(status_); });
  }

  std::byte* exchange_memory() const { return workspace_ + plan_.workspace.exchange; }

  /// A rank that fails goes on to send and receive, so that no other waits for ever.
  template <class Function>
  void attempt(Function&& function) {
    if (status_ != HEED_STATUS_OK) return;
    compute_.time([&] { status_ = guarded(function); });
    if (status_ != HEED_STATUS_OK) {
      error_.status = status_;
      std::snprintf(error_.message, sizeof error_.message, "%s", last_error());
    }
  }

  void pack() {
    for (const Packed& packed : plan_.packed) {
      std::byte* const parcel = workspace_ + plan_.workspace.buffers[0] + packed.offset;
      const std::int64_t rows = packed.keys.count;
      copy(inputs_.key.from(0, packed.keys.row), plan_.keys_in(parcel, rows),
           plan_.extent_of_keys(rows));
      copy(inputs_.value.from(0, packed.keys.row), plan_.values_in(parcel, rows),
           plan_.extent_of_values(rows));
    }
  }

  void compute_round(std::size_t n) {
    const Round& round = plan_.rounds[n];
    std::byte* const here = workspace_ + plan_.workspace.buffers[n % 2];
    std::byte* const there = workspace_ + plan_.workspace.buffers[(n + 1) % 2];
    for (const Message& m : round.receives)
      requests_.receive(there + m.offset, m.bytes, m.rank, m.tag);
    for (const Message& m : round.sends) requests_.send(here + m.offset, m.bytes, m.rank, m.tag);
    for (const Call& call : round.calls) {
      attempt([&] { compute(call, n == 0 ? nullptr : here + call.parcel); });
      requests_.progress();
    }
    wait_.time([&] { requests_.wait(); });
  }

  std::int64_t problems() const { return problem_.desc.batch * plan_.heads; }
  std::byte* out_of(const Slice& slice, std::byte* merged) const {
    const std::int64_t elements = problems() * slice.queries.row * problem_.desc.value_features;
    return merged + plan_.workspace.out +
           static_cast<std::size_t>(elements) * bytes_of(problem_.real());
  }
  double* lse_of(const Slice& slice, std::byte* merged) const {
    return reinterpret_cast<double*>(merged + plan_.workspace.lse) + problems() * slice.queries.row;
  }

  /// `of` heads of all: those of this rank.
  const void* heads_of(const void* numbers) const {
    if (numbers == nullptr) return nullptr;
    return static_cast<const std::byte*>(numbers) +
           static_cast<std::size_t>(plan_.first_head()) * bytes_of(problem_.real());
  }

  /// Where the mask or bias of a call begins.
  template <class T>
  static const T* at(const T* data, const heed_score_layout& layout, std::size_t bytes,
                     const Call& call, const Span& queries) {
    if (data == nullptr) return nullptr;
    const std::int64_t elements =
        queries.row * layout.stride_row + call.keys.position * layout.stride_key;
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(data) +
                                      elements * static_cast<std::int64_t>(bytes));
  }

  /// The key lengths of the whole sequences, as a span of them sees these.
  const std::int32_t* lengths_of(const Span& keys) const {
    if (args_.key_lengths == nullptr) return nullptr;
    auto* const lengths = reinterpret_cast<std::int32_t*>(workspace_ + plan_.workspace.lengths);
    for (std::int64_t b = 0; b < problem_.desc.batch; ++b)
      lengths[b] = static_cast<std::int32_t>(
          std::clamp<std::int64_t>(args_.key_lengths[b] - keys.position, 0, keys.count));
    return lengths;
  }

  void compute(const Call& call, std::byte* parcel) {
    const Slice& slice = plan_.slices[call.slice];
    const heed_attention_desc& d = problem_.desc;
    heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
    args.query = inputs_.query.from(0, slice.queries.row).data;
    args.key = parcel == nullptr ? inputs_.key.from(0, call.keys.row).data
                                 : plan_.keys_in(parcel, call.keys.count).data;
    args.value = parcel == nullptr ? inputs_.value.from(0, call.keys.row).data
                                   : plan_.values_in(parcel, call.keys.count).data;
    args.mask = at(args_.mask, d.mask, 1, call, slice.queries);
    args.bias = at(static_cast<const std::byte*>(args_.bias), d.bias, bytes_of(d.bias.dtype), call,
                   slice.queries);
    args.key_lengths = lengths_of(call.keys);
    args.alibi_slopes = heads_of(args_.alibi_slopes);
    if (call.first && has_sinks()) args.sinks = heads_of(args_.sinks);
    std::byte* const merged = out_of(slice, workspace_);
    double* const merged_lse = lse_of(slice, workspace_);
    args.out = call.first ? merged : workspace_ + plan_.workspace.part_out;
    args.lse = call.first ? static_cast<void*>(merged_lse) : workspace_ + plan_.workspace.part_lse;
    check(heed_attention_plan_run(call.plan, &args, workspace_ + plan_.workspace.dense,
                                  plan_.dense_bytes));
    if (call.first) return;
    const void* const outs[] = {merged, args.out};
    const void* const lses[] = {merged_lse, args.lse};
    merge(slice, 2, outs, lses,
          {{merged, plain(problem_.real())}, {lse_bytes(merged_lse), plain(HEED_DTYPE_F64)}});
  }

  /// A sink counts once: where queries are everywhere, on the first rank.
  bool has_sinks() const { return !problem_.everywhere() || plan_.comm.rank() == 0; }

  static heed_layout plain(std::uint32_t dtype) { return {dtype, 0, 0, 0, 0, 0}; }
  static std::byte* lse_bytes(double* lse) { return reinterpret_cast<std::byte*>(lse); }

  /// Parts of a slice that lie side by side, merged to where `to` is.
  void merge(const Slice& slice, std::size_t parts, const void* const* outs,
             const void* const* lses, const Results& to) const {
    heed_merge_desc desc = HEED_MERGE_DESC_INIT;
    desc.batch = problem_.desc.batch;
    desc.heads = plan_.heads;
    desc.rows = slice.queries.count;
    desc.features = problem_.desc.value_features;
    desc.part_out = plain(problem_.real());
    desc.part_lse = plain(HEED_DTYPE_F64);
    desc.out = to.out.layout;
    desc.lse = to.lse.layout;
    check(heed_merge(plan_.context, &desc, parts, outs, lses, to.out.data, to.lse.data));
  }

  /// Rows that attend nothing on this rank, but perhaps a sink.
  void clear(const Slice& slice) const {
    const std::int64_t heads = plan_.heads;
    const std::int64_t rows = slice.queries.count;
    const std::int64_t elements = problems() * rows * problem_.desc.value_features;
    std::fill_n(out_of(slice, workspace_),
                static_cast<std::size_t>(elements) * bytes_of(problem_.real()), std::byte{0});
    double* lse = lse_of(slice, workspace_);
    const void* const sinks = has_sinks() ? heads_of(args_.sinks) : nullptr;
    for (std::int64_t p = 0; p < problems(); ++p, lse += rows) {
      double sink = -std::numeric_limits<double>::infinity();
      if (sinks != nullptr)
        sink = problem_.float64 ? static_cast<const double*>(sinks)[p % heads]
                                : static_cast<const float*>(sinks)[p % heads];
      std::fill_n(lse, rows, sink);
    }
  }

  /// The results of all slices, converted.
  void write_all(const Results& to) const {
    for (const Slice& slice : plan_.slices) {
      if (!slice.attended) clear(slice);
      const void* const outs[] = {out_of(slice, workspace_)};
      const void* const lses[] = {lse_of(slice, workspace_)};
      merge(slice, 1, outs, lses, rows_of(to, slice));
    }
  }

  static Results rows_of(const Results& all, const Slice& slice) {
    const std::int64_t row = slice.queries.row;
    Results rows = {all.out.from(0, row), all.lse};
    if (all.lse.data != nullptr) rows.lse = all.lse.from(0, row);
    return rows;
  }

  /// Everybody's results of the same rows, one rank's after the other's.
  void gather_results() {
    for (const Slice& slice : plan_.slices)
      if (!slice.attended) clear(slice);
    const int units = Communicator::units(plan_.workspace.part_out - plan_.workspace.out);
    mpi::check(MPI_Allgather(workspace_ + plan_.workspace.out, units, plan_.comm.unit(),
                             workspace_ + plan_.workspace.gathered, units, plan_.comm.unit(),
                             plan_.comm.get()),
               "MPI_Allgather");
  }

  void write_out() {
    const Results to = results_of(problem_, args_);
    if (plan_.head_ranks > 1) return plan_.exchange.write(*plan_.context, to, exchange_memory());
    if (!problem_.everywhere()) return write_all(to);
    const auto ranks = static_cast<std::size_t>(plan_.comm.size());
    const std::size_t bytes = plan_.workspace.part_out - plan_.workspace.out;
    auto** const outs = reinterpret_cast<const void**>(workspace_ + plan_.workspace.pointers);
    const void** const lses = outs + ranks;
    for (const Slice& slice : plan_.slices) {
      for (std::size_t i = 0; i < ranks; ++i) {
        std::byte* const merged =
            workspace_ + plan_.workspace.gathered + i * bytes - plan_.workspace.out;
        outs[i] = out_of(slice, merged);
        lses[i] = lse_of(slice, merged);
      }
      merge(slice, ranks, outs, lses, rows_of(to, slice));
    }
  }

  void print() const {
    tell(
        "attention over MPI, rank %d of %d: %s, %zu rounds, %.3f ms computing, %.3f ms waiting, "
        "%.0f bytes sent",
        plan_.comm.rank(), plan_.comm.size(), plan_.strategy(), plan_.rounds.size(),
        compute_.seconds() * 1e3, wait_.seconds() * 1e3, plan_.sent_bytes);
  }

  const Plan& plan_;
  const Problem& problem_;
  const heed_attention_args& args_;
  std::byte* const workspace_;
  Requests requests_;
  Inputs inputs_;
  Clock compute_, wait_;
  heed_status status_ = HEED_STATUS_OK;
  Error error_ = {};
};

}  // namespace

void run(const heed_mpi_attention_plan& plan, const heed_attention_args* given, void* workspace,
         std::size_t bytes) {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  plan.comm.agreed([&] { args = read_args(plan, given, workspace, bytes); });
  Run(plan, args, static_cast<std::byte*>(workspace)).run();
}

}  // namespace heed::mpi
