// Runs of attention and of its gradients alike: rounds of computing and sending.
#pragma once

#include <algorithm>

#include "engine/mpi/plan.hpp"

namespace heed::mpi {

/// This rank's arguments. Throws an Error unless they are as the plan was told, and the workspace
/// is large enough.
heed_attention_args read_args(const Plan& plan, const heed_attention_args* given,
                              const void* workspace, std::size_t bytes);

/// The arguments of gradients, and of the attention inside.
struct BackwardArgs {
  heed_attention_backward_args gradients;
  heed_attention_args attention;
};
BackwardArgs read_args(const Plan& plan, const heed_attention_backward_args* given,
                       const void* workspace, std::size_t bytes);

class Run : protected RankRun {
 public:
  virtual ~Run() = default;

  /// Does all of a run. Every rank writes, where it went well on all.
  void run() {
    compare_seeds(plan_.comm, problem_.desc.dropout, args_);
    timed(plan_, [&] {
      begin();
      travel();
      if (plan_.shares_heads()) {
        attempt([&] { lay_out(plan_.exchange.results(exchange_memory())); });
        wait([&] { plan_.exchange.scatter(requests_, exchange_memory()); });
      }
      wait([&] { combine(); });
      agree();
      attempt([&] { write(); });
      agree();
    });
  }

 protected:
  Run(const Plan& plan, const heed_attention_args& args, const Tensors& inputs,
      std::byte* workspace)
      : RankRun(plan.comm, workspace + plan.requests_at),
        plan_(plan),
        problem_(plan.problem),
        args_(args),
        workspace_(workspace),
        inputs_(inputs) {}

  virtual void begin() {}
  virtual void compute(const Call& call) = 0;
  /// Copies this rank's results to their places among the group's, where ranks share heads; from
  /// there they go to the ranks whose rows they are.
  virtual void lay_out(const Tensors& group) = 0;
  /// Combines the results that all ranks have in common. Collective.
  virtual void combine() = 0;
  virtual void write() = 0;

  /// Writes the rows that ranks with other heads have sent to where the caller wants them.
  void write_exchanged(const Writer& writer, const Tensors& to) const {
    plan_.exchange.each_result(exchange_memory(), [&](std::size_t t, const Tensor& result,
                                                      std::int64_t head, const Extent& extent) {
      if (to[t].data != nullptr) writer.write(result, to[t].from(head, 0), extent);
    });
  }

  std::byte* exchange_memory() const { return workspace_ + plan_.exchange_at; }
  std::byte* at(const Bytes& bytes) const {
    return workspace_ + plan_.areas[bytes.area] + bytes.offset;
  }
  const Slice& slice_of(const Call& call) const { return plan_.slices[call.slice]; }

  /// Result t of a slice, among this rank's or another's, which lie as in `workspace`.
  std::byte* result_of(const Slice& slice, std::size_t t, std::byte* workspace) const {
    const SplitRows& rows = problem_.slice_results[t];
    const std::int64_t before = plan_.problems() * slice.queries.row * rows.features;
    return workspace + plan_.results_at[t] +
           static_cast<std::size_t>(before) * bytes_of(rows.dtype);
  }
  /// How far the first result of a slice extends.
  Extent result_extent(const Slice& slice) const {
    return plan_.share.extent(problem_.slice_results[0], {slice.queries.count, 0});
  }

  /// Skips the values of heads before this rank's first.
  std::byte* heads_of(const void* values, std::int64_t of_head = 1) const {
    return after(
        static_cast<std::byte*>(const_cast<void*>(values)),
        static_cast<std::size_t>(plan_.first_head() * of_head) * bytes_of(problem_.real()));
  }
  /// Where the mask or bias of a call begins. One that repeats over keys has no stride there,
  /// except where it was gathered.
  std::byte* scores_of(const Tensor& all, const WholeScores& whole, const Call& call) const {
    const Tensor rows = all.from(0, slice_of(call).queries.row);
    if (rows.data == nullptr || whole.keys == 1) return rows.data;
    return rows.data + call.keys.position * rows.layout.stride_feature *
                           static_cast<std::int64_t>(rows.element_bytes());
  }
  /// The inputs of a call.
  heed_attention_args arguments(const Call& call) const {
    heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
    args.query = inputs_[kQuery].from(0, slice_of(call).queries.row).data;
    if (call.own && call.keys.count > 0) {
      args.key = inputs_[kKey].from(0, call.keys.row).data;
      args.value = inputs_[kValue].from(0, call.keys.row).data;
    } else if (call.keys.count > 0) {
      const Tensors parcel =
          plan_.share.laid_out(problem_.parcel, at(call.parcel), {0, call.keys.count});
      args.key = parcel[0].data;
      args.value = parcel[1].data;
    }
    args.mask =
        reinterpret_cast<const std::uint8_t*>(scores_of(inputs_[kMask], problem_.mask, call));
    args.bias = scores_of(inputs_[kBias], problem_.bias, call);
    args.key_lengths = lengths_of(call.keys);
    args.dropout_seed = args_.dropout_seed;
    args.dropout_offset = args_.dropout_offset;
    args.dropout_origin = origin_of(call);
    args.alibi_slopes = heads_of(args_.alibi_slopes);
    args.score_weights = heads_of(args_.score_weights, problem_.weights_of_head());
    // A sink counts once: where queries are everywhere, on the first rank.
    const bool counts_sinks = !problem_.everywhere() || plan_.comm.rank() == 0;
    if (call.first && counts_sinks) args.sinks = heads_of(args_.sinks);
    return args;
  }

  const Plan& plan_;
  const Problem& problem_;
  const heed_attention_args& args_;
  std::byte* const workspace_;
  Tensors inputs_;

 private:
  /// Computes all calls of all rounds, while keys, values and gradients travel.
  void travel() {
    if (plan_.shares_heads())
      wait([&] { inputs_ = plan_.exchange.gather(requests_, inputs_, exchange_memory()); });
    attempt([&] { pack(); });
    for (std::size_t n = 0; n < plan_.rounds.size(); ++n) {
      const Round& round = plan_.rounds[n];
      for (const Message& m : round.receives) requests_.receive(at(m.at), m.bytes, m.rank, m.tag);
      for (const Message& m : round.sends) requests_.send(at(m.at), m.bytes, m.rank, m.tag);
      std::fill_n(at({area_of(kGradients, n), 0}), round.gradient_bytes, std::byte{0});
      for (const Call& call : round.calls) {
        if (plan_.problems() > 0) attempt([&] { compute(call); });
        requests_.progress();
      }
      wait([&] { requests_.wait(); });
      attempt([&] {
        for (const Addition& addition : round.additions)
          add(at({kArrived, addition.from}), at({kSums, addition.to}), addition.bytes,
              problem_.real());
      });
    }
  }

  void pack() const {
    const RowsList& list = problem_.parcel;
    for (std::size_t i = 0; i < plan_.packed_at.size(); ++i) {
      if (plan_.packed_at[i] == SIZE_MAX) continue;
      const Span& keys = plan_.shard.keys[i];
      const Counts rows = {0, keys.count};
      const Tensors parcel = plan_.share.laid_out(list, at({kKeys, plan_.packed_at[i]}), rows);
      for (std::size_t t = 0; t < list.size(); ++t)
        copy(inputs_[kKey + t].from(0, keys.row), parcel[t], plan_.share.extent(list[t], rows));
    }
  }

  /// Where the first pair of a call stands in the whole: dropout goes by that.
  const std::int64_t* origin_of(const Call& call) const {
    if (problem_.desc.dropout == 0 || call.keys.count == 0) return nullptr;
    auto* const origin = reinterpret_cast<std::int64_t*>(workspace_ + plan_.origin_at);
    const std::size_t sequence = call.keys.sequence;
    origin[0] = static_cast<std::int64_t>(sequence);
    origin[1] = plan_.first_head();
    origin[2] = slice_of(call).queries.position - problem_.query_begins[sequence];
    origin[3] = call.keys.position - problem_.key_begins[sequence];
    return origin;
  }

  /// The key lengths of the whole sequences, as a span of them sees these.
  const std::int32_t* lengths_of(const Span& keys) const {
    if (args_.key_lengths == nullptr) return nullptr;
    auto* const lengths = reinterpret_cast<std::int32_t*>(workspace_ + plan_.lengths_at);
    const std::int64_t before = keys.position - problem_.key_begins[keys.sequence];
    for (std::int64_t b = 0; b < problem_.desc.batch; ++b) {
      const std::int64_t whole =
          args_.key_lengths[problem_.given.sequences > 0 ? static_cast<std::int64_t>(keys.sequence)
                                                         : b];
      lengths[b] =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(whole - before, 0, keys.count));
    }
    return lengths;
  }
};

}  // namespace heed::mpi
