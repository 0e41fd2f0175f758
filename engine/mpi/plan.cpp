#include "engine/mpi/plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/runtime/sizes.hpp"
#include "engine/runtime/workspace.hpp"

namespace {

using namespace heed::mpi;
using heed::Offsets;
using heed::Size;

/// Query rows between two looks at what arrives, at most: enough of all heads together for many
/// threads to share, and few for MPI to look often. Not more for more threads: bits would change.
std::int64_t slice_rows(std::int64_t problems) {
  return std::clamp<std::int64_t>(8192 / problems, 128, 1024);
}

int chosen(const std::vector<heed_mpi_choice>& choices) {
  for (const heed_mpi_choice& choice : choices)
    if (choice.chosen != 0) return static_cast<int>(choice.head_ranks);
  return 1;
}

}  // namespace

heed_mpi_attention_plan::heed_mpi_attention_plan(MPI_Comm parent, const heed_context* given,
                                                 const heed_mpi_attention_desc* desc)
    : comm(parent), context(given), problem(make_problem(comm, given, desc)) {
  comm.agreed([&] {
    choices = choices_of(problem);
    head_ranks = chosen(choices);
    heads = problem.desc.query_heads / head_ranks;
    key_heads = problem.desc.key_heads / head_ranks;
    const char* const told = std::getenv("HEED_VERBOSE");
    verbose = told != nullptr && std::strcmp(told, "1") == 0;
    if (head_ranks > 1) exchange = Exchange(problem, comm.rank(), head_ranks);
    const Ring ring = ring_of(problem, head_ranks);
    plan_slices(ring.shard(member()).queries);
    problem.everywhere() ? plan_alone(ring.shard(member()).keys) : plan_rounds(ring);
  });
}

const char* heed_mpi_attention_plan::strategy() const {
  if (problem.everywhere()) return "everywhere";
  if (head_ranks == comm.size() && head_ranks > 1) return "heads";
  return head_ranks == 1 ? "ring" : "grid";
}

std::size_t heed_mpi_attention_plan::parcel_bytes(std::int64_t rows) const {
  const auto bytes = [](std::uint32_t dtype, const Extent& e) {
    return Size(e.batch) * e.heads * e.rows * e.features *
           static_cast<std::int64_t>(bytes_of(dtype));
  };
  const Size both = round_up(bytes(problem.desc.key.dtype, extent_of_keys(rows)), kUnitBytes) +
                    round_up(bytes(problem.desc.value.dtype, extent_of_values(rows)), kUnitBytes);
  return static_cast<std::size_t>(both.checked("a message", {{"rows", rows}}));
}

Tensor heed_mpi_attention_plan::keys_in(std::byte* parcel, std::int64_t rows) const {
  return contiguous(parcel, problem.desc.key.dtype, extent_of_keys(rows));
}

Tensor heed_mpi_attention_plan::values_in(std::byte* parcel, std::int64_t rows) const {
  const Extent extent = extent_of_values(rows);
  const auto bytes =
      static_cast<std::size_t>(extent.elements()) * bytes_of(problem.desc.value.dtype);
  const std::size_t rounded = (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
  return contiguous(parcel + parcel_bytes(rows) - rounded, problem.desc.value.dtype, extent);
}

void heed_mpi_attention_plan::plan_slices(const Spans& queries) {
  if (problem.desc.batch == 0 || heads == 0) return;
  for (const Span& span : queries) {
    const std::int64_t count = heed::ceil_div(span.count, slice_rows(problem.desc.batch * heads));
    for (std::int64_t i = 0; i < count; ++i) {  // as long as each other, but for a row
      const std::int64_t begin = span.count * i / count;
      const std::int64_t rows = span.count * (i + 1) / count - begin;
      slices.push_back({{span.position + begin, rows, span.row + begin}, false});
    }
  }
}

void heed_mpi_attention_plan::add_calls(Round& round, const Span& keys, std::size_t parcel,
                                        bool own) {
  for (std::size_t i = 0; i < slices.size(); ++i) {
    Slice& slice = slices[i];
    if (!problem.order.attends_any(slice.queries, keys)) continue;
    round.calls.push_back({i, dense_plan(slice.queries, keys, own), keys, parcel, !slice.attended});
    slice.attended = true;
    flops += problem.order.pairs(slice.queries, keys) * 2 *
             static_cast<double>(problem.desc.features + problem.desc.value_features) *
             static_cast<double>(problem.desc.batch) * static_cast<double>(heads);
  }
}

const heed_attention_plan* heed_mpi_attention_plan::dense_plan(const Span& queries,
                                                               const Span& keys, bool own) {
  // Where all attend and no distance counts, it does not matter where they are.
  const bool ordered = problem.brings(HEED_MPI_ALIBI_SLOPES) ||
                       (problem.order.matters && !problem.order.attends_all(queries, keys));
  const std::int64_t offset = ordered ? problem.order.offset + queries.position - keys.position : 0;
  const auto [place, made] = dense_.try_emplace({queries.count, keys.count, own, ordered, offset});
  if (!made) return place->second.get();
  heed_attention_desc d = problem.desc;
  d.query_heads = heads;
  d.key_heads = key_heads;
  d.query_length = queries.count;
  d.key_length = keys.count;
  if (head_ranks > 1) {
    std::byte* const none = nullptr;
    const Inputs gathered = exchange.inputs(none);
    d.query = gathered.query.layout;
    d.key = gathered.key.layout;
    d.value = gathered.value.layout;
  }
  if (!own) {
    d.key = contiguous(nullptr, d.key.dtype, extent_of_keys(keys.count)).layout;
    d.value = contiguous(nullptr, d.value.dtype, extent_of_values(keys.count)).layout;
  }
  d.out = heed_layout{problem.real(), 0, 0, 0, 0, 0};
  d.lse = heed_layout{HEED_DTYPE_F64, 0, 0, 0, 0, 0};
  for (heed_score_layout* layout : {&d.mask, &d.bias}) {
    if (layout->rows > 1) layout->rows = queries.count;
    if (layout->keys > 1) layout->keys = keys.count;
  }
  d.causal_offset = d.alignment_offset = 0;
  if (!ordered) {
    d.causal = HEED_CAUSAL_NONE;
    d.window = 0;
    d.window_left = d.window_right = 0;
    d.alignment = HEED_ALIGNMENT_TOP_LEFT;
  } else if (d.causal != HEED_CAUSAL_NONE) {
    d.causal = HEED_CAUSAL_OFFSET;
    d.causal_offset = offset;
  } else {
    d.alignment = HEED_ALIGNMENT_OFFSET;
    d.alignment_offset = offset;
  }
  place->second = make_dense_plan(*context, d);
  std::size_t bytes = 0;
  check(heed_attention_plan_workspace(place->second.get(), &bytes));
  dense_bytes = std::max(dense_bytes, bytes);
  return place->second.get();
}

void heed_mpi_attention_plan::plan_rounds(const Ring& ring) {
  std::size_t buffers[2] = {0, 0};
  std::vector<std::size_t> at(ring.shard(member()).keys.size(), SIZE_MAX);  // of own parcels
  const auto rank_of = [&](int other) { return other * head_ranks + comm.rank() % head_ranks; };
  const auto tag_of = [](const Held& held) { return 2 * held.parcel->span + (held.up ? 1 : 0); };
  for (int n = 0; n < ring.rounds(); ++n) {
    Round& round = rounds.emplace_back();
    std::size_t end = 0;
    for (const Held& held : ring.held(member(), n)) {
      const Span& keys = ring.keys_of(*held.parcel);
      const std::size_t bytes = parcel_bytes(keys.count);
      if (bytes == 0) continue;
      check_message(bytes);
      const auto span = static_cast<std::size_t>(held.parcel->span);
      const bool again = n == 0 && !held.up && at[span] != SIZE_MAX;  // goes both ways
      const std::size_t offset = again ? at[span] : end;
      const bool travels = n > 0 || held.next >= 0;
      if (travels && !again) end += bytes;
      if (n == 0 && travels && !again) packed.push_back({keys, at[span] = offset});
      if (n > 0)
        rounds[static_cast<std::size_t>(n) - 1].receives.push_back(
            {rank_of(held.up ? ring.below(member()) : ring.above(member())), tag_of(held), offset,
             bytes});
      if (held.next >= 0) {
        round.sends.push_back({rank_of(held.next), tag_of(held), offset, bytes});
        sent_bytes += static_cast<double>(bytes);
      }
      if (n > 0) add_calls(round, keys, offset, false);
    }
    if (n == 0)
      for (const Span& keys : ring.shard(member()).keys) add_calls(round, keys, 0, true);
    buffers[n % 2] = std::max(buffers[n % 2], end);
  }
  plan_workspace(buffers);
}

void heed_mpi_attention_plan::plan_alone(const Spans& keys) {
  Round& round = rounds.emplace_back();
  for (const Span& span : keys) add_calls(round, span, 0, true);
  plan_workspace({0, 0});
}

void heed_mpi_attention_plan::plan_workspace(const std::size_t (&buffers)[2]) {
  const heed_attention_desc& d = problem.desc;
  std::int64_t rows = 0, most = 0;
  for (const Slice& slice : slices) {
    rows += slice.queries.count;
    most = std::max(most, slice.queries.count);
  }
  std::size_t messages = exchange.messages();
  for (const Round& round : rounds)
    messages = std::max(messages, round.receives.size() + round.sends.size());
  Offsets offsets;
  const auto bytes = [&](std::size_t count) {
    return offsets.take(static_cast<std::int64_t>(count), 1, 1);
  };
  const Size problems = Size(d.batch) * heads;
  const auto real = static_cast<std::int64_t>(bytes_of(problem.real()));
  const std::int64_t wide = static_cast<std::int64_t>(sizeof(double));
  workspace.out = offsets.take(problems * rows, d.value_features, real);
  workspace.lse = offsets.take(problems * rows, 1, wide);
  const std::size_t merged = static_cast<std::size_t>(
      offsets.end().checked("the workspace", {{"desc.query_length", d.query_length}}));
  if (problem.everywhere()) check_message(merged);
  workspace.part_out = offsets.take(problems * most, d.value_features, real);
  workspace.part_lse = offsets.take(problems * most, 1, wide);
  for (int i = 0; i < 2; ++i) workspace.buffers[i] = bytes(buffers[i]);
  workspace.dense = bytes(dense_bytes);
  workspace.lengths = offsets.take(d.batch, 1, sizeof(std::int32_t));
  const std::int64_t parts = problem.everywhere() ? comm.size() : 0;
  workspace.gathered = offsets.take(parts, static_cast<std::int64_t>(merged), 1);
  workspace.pointers = offsets.take(2 * parts, 1, sizeof(void*));
  workspace.requests = offsets.take(static_cast<std::int64_t>(messages), 1, sizeof(MPI_Request));
  workspace.exchange = bytes(exchange.workspace_bytes());
  workspace.bytes = offsets.end("the workspace", {{"desc.batch", d.batch},
                                                  {"desc.query_heads", d.query_heads},
                                                  {"desc.query_length", d.query_length},
                                                  {"desc.key_length", d.key_length}});
  sent_bytes += exchange.sent_bytes();
  if (problem.everywhere()) sent_bytes += static_cast<double>(merged) * (comm.size() - 1);
}
