#include "api/python/module/mpi_part.hpp"

#include <cmath>
#include <utility>

#include "api/python/module/outputs.hpp"

namespace heed::python {
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

}  // namespace heed::python
