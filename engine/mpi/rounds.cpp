#include "engine/mpi/rounds.hpp"

#include <algorithm>

namespace heed::mpi {

Run::Run(const Plan& plan, const heed_attention_args& args, const Tensors& inputs,
         std::byte* workspace)
    : RankRun(plan.comm, workspace + plan.requests_at),
      plan_(plan),
      problem_(plan.problem),
      args_(args),
      workspace_(workspace),
      inputs_(inputs) {}

void Run::pack() const {
  const RowsList list = plan_.keys_and_values();
  for (const Packed& packed : plan_.packed) {
    const Counts rows = {0, packed.keys.count};
    const Tensors parcel = plan_.share.laid_out(list, at({kKeys, packed.offset}), rows);
    for (std::size_t t = 0; t < list.size(); ++t)
      copy(inputs_[kKey + t].from(0, packed.keys.row), parcel[t],
           plan_.share.extent(list[t], rows));
  }
}

void Run::begin(const Round& round, std::size_t n) {
  for (const Message& m : round.receives) requests_.receive(at(m.at), m.bytes, m.rank, m.tag);
  for (const Message& m : round.sends) requests_.send(at(m.at), m.bytes, m.rank, m.tag);
  std::fill_n(at({area_of(kGradients, n), 0}), round.gradient_bytes, std::byte{0});
}

void Run::add(const Round& round) const {
  for (const Addition& addition : round.additions)
    mpi::add(at({kArrived, addition.from}), at({kSums, addition.to}), addition.bytes,
             problem_.real());
}

/// The key lengths of the whole sequences, as a span of them sees these.
const std::int32_t* Run::lengths_of(const Span& keys) const {
  if (args_.key_lengths == nullptr) return nullptr;
  auto* const lengths = reinterpret_cast<std::int32_t*>(workspace_ + plan_.lengths_at);
  const std::int64_t before = keys.position - problem_.key_begins[keys.sequence];
  for (std::int64_t b = 0; b < problem_.desc.batch; ++b) {
    const std::int64_t whole =
        args_.key_lengths[problem_.given.sequences > 0 ? static_cast<std::int64_t>(keys.sequence)
                                                       : b];
    lengths[b] = static_cast<std::int32_t>(std::clamp<std::int64_t>(whole - before, 0, keys.count));
  }
  return lengths;
}

heed_attention_args Run::arguments(const Call& call) const {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = inputs_[kQuery].from(0, slice_of(call).queries.row).data;
  if (call.own && call.keys.count > 0) {
    args.key = inputs_[kKey].from(0, call.keys.row).data;
    args.value = inputs_[kValue].from(0, call.keys.row).data;
  } else if (call.keys.count > 0) {
    const Tensors parcel =
        plan_.share.laid_out(plan_.keys_and_values(), at(call.parcel), {0, call.keys.count});
    args.key = parcel[0].data;
    args.value = parcel[1].data;
  }
  args.mask = reinterpret_cast<const std::uint8_t*>(scores_of(inputs_[kMask], problem_.mask, call));
  args.bias = scores_of(inputs_[kBias], problem_.bias, call);
  args.key_lengths = lengths_of(call.keys);
  args.alibi_slopes = heads_of(args_.alibi_slopes);
  if (call.first && has_sinks()) args.sinks = heads_of(args_.sinks);
  return args;
}

}  // namespace heed::mpi
