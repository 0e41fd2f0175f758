#include "engine/mpi/plan.hpp"

#include <algorithm>

namespace heed::mpi {
namespace {

/// At most so many query rows come between two looks for messages: enough of all heads together for
/// many threads to share, and few enough for MPI to look often. More threads do not make them more:
/// bits would change.
std::int64_t slice_rows(std::int64_t problems) {
  return std::clamp<std::int64_t>(8192 / problems, 128, 1024);
}

/// Between two ranks no two messages of a round are alike.
int tag_of(int span, bool up, bool gradients) {
  return 4 * span + (gradients ? 2 : 0) + (up ? 1 : 0);
}

}  // namespace

void Plan::plan() {
  choices = choices_of(problem);
  for (const heed_mpi_choice& choice : choices)
    if (choice.chosen != 0) head_ranks = static_cast<int>(choice.head_ranks);
  share = {problem.desc.batch, problem.desc.query_heads / head_ranks,
           problem.desc.key_heads / head_ranks};
  if (shares_heads()) exchange = Exchange(problem, share, comm.rank(), head_ranks);
  call_inputs = shares_heads() ? exchange.inputs(nullptr) : inputs_of(problem, {}, {});
  const Ring ring(problem, head_ranks);
  shard = ring.shard(member());
  plan_slices();
  std::size_t sums = 0;
  for (const Span& keys : shard.keys) {
    sums_at.push_back(sums);
    packed_at.push_back(SIZE_MAX);
    sums += share.bytes(problem.parcel_gradients, {0, keys.count});
  }
  need(kSums, sums);
  problem.everywhere() ? add_own_calls(rounds.emplace_back()) : plan_rounds(ring);
  plan_unattended();
  detail = strategy() + (", " + std::to_string(rounds.size())) + " rounds";
}

heed_score_layout Plan::scores_of_calls(heed_score_layout own, const WholeScores& whole,
                                        const Tensor& gathered) const {
  if (own.heads > 1) own.heads = share.heads;
  if (!shares_heads() || !whole.by_rows) return own;
  const heed_layout& l = gathered.layout;
  return {own.dtype,      HEED_STRIDES_EXPLICIT,
          whole.batch,    whole.heads == 1 ? 1 : share.heads,
          query_rows(),   whole.keys,
          l.stride_batch, l.stride_head,
          l.stride_row,   l.stride_feature};
}

const char* Plan::strategy() const {
  if (problem.everywhere()) return "everywhere";
  if (!shares_heads()) return "ring";
  return head_ranks == comm.size() ? "heads" : "grid";
}

void Plan::plan_slices() {
  if (problems() == 0) return;
  for (const Span& span : shard.queries) {
    const std::int64_t count = ceil_div(span.count, slice_rows(problems()));
    for (std::int64_t i = 0; i < count; ++i) {  // as long as each other, or a row longer
      const std::int64_t begin = span.count * i / count;
      const std::int64_t rows = span.count * (i + 1) / count - begin;
      slices.push_back({{span.position + begin, rows, span.row + begin, span.sequence}, false});
    }
  }
}

/// Adds the calls of all slices with such keys.
void Plan::add_calls(Round& round, const Call& with) {
  for (std::size_t i = 0; i < slices.size(); ++i) {
    Slice& slice = slices[i];
    if (!problem.order.attends_any(slice.queries, with.keys)) continue;
    Call call = with;
    call.slice = i;
    call.form = form_of(slice.queries, with.keys, with.own);
    call.first = !slice.attended;
    round.calls.push_back(call);
    slice.attended = true;
    flops += problem.order.pairs(slice.queries, with.keys) * problem.flops_per_pair() / head_ranks;
  }
}

void Plan::add_own_calls(Round& round) {
  for (std::size_t i = 0; i < shard.keys.size(); ++i)
    add_calls(round, {0, 0, shard.keys[i], {}, {kSums, sums_at[i]}, true, false});
}

std::size_t Plan::form_of(const Span& queries, const Span& keys, bool own) {
  // Where all attend and no distance counts, it does not matter where they are.
  const bool ordered = problem.brings(HEED_MPI_ALIBI_SLOPES) ||
                       (problem.order.matters && !problem.order.attends_all(queries, keys));
  const std::int64_t offset =
      ordered ? problem.order.offset(queries) + queries.position - keys.position : 0;
  const auto [form, made] =
      form_index_.try_emplace({queries.count, keys.count, own, ordered, offset}, forms.size());
  if (!made) return form->second;
  heed_attention_desc d = problem.desc;
  d.query_heads = share.heads;
  d.key_heads = share.key_heads;
  d.query_length = queries.count;
  d.key_length = keys.count;
  const Tensors parcel = share.laid_out(problem.parcel, nullptr, {0, keys.count});
  d.query = call_inputs[kQuery].layout;
  d.key = own ? call_inputs[kKey].layout : parcel[0].layout;
  d.value = own ? call_inputs[kValue].layout : parcel[1].layout;
  d.mask = scores_of_calls(d.mask, problem.mask, call_inputs[kMask]);
  d.bias = scores_of_calls(d.bias, problem.bias, call_inputs[kBias]);
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
  forms.push_back(d);
  return form->second;
}

void Plan::plan_rounds(const Ring& ring) {
  rounds.resize(static_cast<std::size_t>(ring.rounds()) + 1);  // gradients of the last come back
  for (int r = 0; r < ring.rounds(); ++r) {
    const auto n = static_cast<std::size_t>(r);
    Round& round = rounds[n];
    std::size_t end = 0;
    for (const Held& held : ring.held(member(), r)) {
      const Span& keys = ring.keys_of(*held.parcel);
      const std::size_t bytes = share.bytes(problem.parcel, {0, keys.count});
      if (bytes == 0) continue;
      check_message(bytes);
      const auto span = static_cast<std::size_t>(held.parcel->span);
      const bool again = n == 0 && packed_at[span] != SIZE_MAX;  // goes both ways
      const Bytes place = {area_of(kKeys, n), again ? packed_at[span] : end};
      const bool travels = n > 0 || held.next >= 0;
      if (travels && !again) end += bytes;
      if (n == 0 && travels) packed_at[span] = place.offset;
      const int tag = tag_of(held.parcel->span, held.up, false);
      if (n > 0)
        rounds[n - 1].receives.push_back(
            {rank_of(ring.away(member(), held.up ? -1 : 1)), tag, place, bytes});
      if (held.next >= 0) {
        round.sends.push_back({rank_of(held.next), tag, place, bytes});
        sent_bytes += static_cast<double>(bytes);
      }
      if (n == 0 || !ring.attends(member(), keys)) continue;
      const Bytes gradients = {area_of(kGradients, n), round.gradient_bytes};
      add_calls(round, {0, 0, keys, place, gradients, false, false});
      const std::size_t back = share.bytes(problem.parcel_gradients, {0, keys.count});
      if (back == 0) continue;
      check_message(back);
      round.gradient_bytes += back;
      rounds[n + 1].sends.push_back({rank_of(held.parcel->member),
                                     tag_of(held.parcel->span, held.up, true), gradients, back});
      sent_bytes += static_cast<double>(back);
    }
    n == 0 ? add_own_calls(round) : plan_gradients_back(ring, n);
    need(area_of(kKeys, n), end);
    need(area_of(kGradients, n), round.gradient_bytes);
  }
  if (rounds.back().sends.empty() && rounds.back().receives.empty()) rounds.pop_back();
}

/// Gradients of own keys that others compute in a round arrive in the next.
void Plan::plan_gradients_back(const Ring& ring, std::size_t n) {
  Round& next = rounds[n + 1];
  const int distance = static_cast<int>(n);
  std::size_t end = 0;
  for (const Parcel& parcel : ring.parcels(member())) {
    const Span& keys = ring.keys_of(parcel);
    const std::size_t bytes = share.bytes(problem.parcel_gradients, {0, keys.count});
    const auto receive = [&](bool up, int other) {
      if (bytes == 0 || !ring.attends(other, keys)) return;
      next.receives.push_back(
          {rank_of(other), tag_of(parcel.span, up, true), {kArrived, end}, bytes});
      next.additions.push_back({end, sums_at[static_cast<std::size_t>(parcel.span)], bytes});
      end += bytes;
    };
    if (parcel.up >= distance) receive(true, ring.away(member(), distance));
    if (parcel.down >= distance) receive(false, ring.away(member(), -distance));
  }
  need(kArrived, end);
}

void Plan::plan_unattended() {
  if (problem.gradients != 0 && !problem.wants(HEED_MPI_GRAD_SINKS)) return;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Span none = {slices[i].queries.position, 0, 0, slices[i].queries.sequence};
    if (!slices[i].attended)
      rounds.front().calls.push_back(
          {i, form_of(slices[i].queries, none, true), none, {}, {kSums, 0}, true, true});
  }
}

void Plan::take_results(Offsets& offsets, std::int64_t rows, std::size_t (&at)[2]) const {
  for (std::size_t t = 0; t < problem.slice_results.size(); ++t) {
    const SplitRows& result = problem.slice_results[t];
    at[t] = offsets.take(Size(share.batch) * share.heads * rows, result.features,
                         static_cast<std::int64_t>(bytes_of(result.dtype)));
  }
}

void Plan::lay_out(Offsets& offsets) {
  const heed_attention_desc& d = problem.desc;
  std::size_t messages = exchange.messages();
  for (const Round& round : rounds)
    messages = std::max(messages, round.receives.size() + round.sends.size());
  for (std::size_t area = 0; area < kAreas; ++area)
    areas[area] = offsets.take_bytes(area_bytes[area]);
  dense_at = offsets.take_bytes(dense_bytes);
  lengths_at = offsets.take(d.batch, 1, sizeof(std::int32_t));
  origin_at = offsets.take(d.dropout == 0 ? 0 : 4, 1, sizeof(std::int64_t));
  requests_at = offsets.take(static_cast<std::int64_t>(messages), 1, sizeof(MPI_Request));
  exchange_at = offsets.take_bytes(exchange.workspace_bytes);
  workspace_bytes = offsets.end("the workspace", {{"desc.batch", d.batch},
                                                  {"desc.query_heads", d.query_heads},
                                                  {"desc.query_length", d.query_length},
                                                  {"desc.key_length", d.key_length}});
  sent_bytes += static_cast<double>(exchange.sent_bytes);
}

}  // namespace heed::mpi
