#include "engine/mpi/exchange.hpp"

#include <algorithm>

#include "engine/mpi/placement.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed::mpi {
namespace {

constexpr int kTag = 0;

std::size_t bytes_in(std::uint32_t dtype, const Extent& e) {
  const Size elements = Size(e.batch) * e.heads * e.rows * e.features;
  const Size bytes = elements * static_cast<std::int64_t>(bytes_of(dtype));
  return static_cast<std::size_t>(
      round_up(bytes, kUnitBytes)
          .checked("a message", {{"desc.batch", e.batch}, {"heads", e.heads}, {"rows", e.rows}}));
}

/// Takes tensors one after the other.
class Cursor {
 public:
  explicit Cursor(std::byte* at) : at_(at) {}
  Tensor next(std::uint32_t dtype, const Extent& extent) {
    const Tensor tensor = contiguous(at_, dtype, extent);
    at_ += bytes_in(dtype, extent);
    return tensor;
  }

 private:
  std::byte* at_;
};

}  // namespace

Inputs inputs_of(const Problem& p, const heed_attention_args& args) {
  const auto tensor = [](const void* data, const heed_layout& layout) {
    return Tensor{static_cast<std::byte*>(const_cast<void*>(data)), layout};
  };
  return {tensor(args.query, p.desc.query), tensor(args.key, p.desc.key),
          tensor(args.value, p.desc.value)};
}

Results results_of(const Problem& p, const heed_attention_args& args) {
  return {{static_cast<std::byte*>(args.out), p.desc.out},
          {static_cast<std::byte*>(args.lse), p.desc.lse}};
}

Exchange::Exchange(const Problem& p, int rank, int head_ranks)
    : batch_(p.desc.batch),
      heads_(p.desc.query_heads / head_ranks),
      key_heads_(p.desc.key_heads / head_ranks),
      features_(p.desc.features),
      value_features_(p.desc.value_features),
      query_type_(p.desc.query.dtype),
      key_type_(p.desc.key.dtype),
      value_type_(p.desc.value.dtype),
      out_type_(p.desc.out.dtype),
      first_rank_(rank / head_ranks * head_ranks),
      place_(static_cast<std::size_t>(rank % head_ranks)) {
  std::size_t inputs = 0;
  std::size_t results = 0;
  for (int i = 0; i < head_ranks; ++i) {
    const std::size_t peer = static_cast<std::size_t>(first_rank_) + static_cast<std::size_t>(i);
    peers_.push_back(
        {p.queries[peer], p.keys[peer], rows_in(p.queries[peer]), rows_in(p.keys[peer])});
    check_message(std::max(input_bytes(peers_.back()), result_bytes(peers_.back())));
    inputs += input_bytes(peers_.back());
    results += result_bytes(peers_.back());
  }
  group_.queries = together(p.queries, first_rank_, head_ranks);
  group_.keys = together(p.keys, first_rank_, head_ranks);
  group_.query_rows = rows_in(group_.queries);
  group_.key_rows = rows_in(group_.keys);
  const auto ranks = static_cast<std::size_t>(head_ranks);
  Offsets offsets;
  const auto take = [&](std::size_t bytes) {
    return offsets.take(static_cast<std::int64_t>(bytes), 1, 1);
  };
  send_ = take(std::max(ranks * input_bytes(own()), results));
  receive_ = take(std::max(inputs, ranks * result_bytes(own())));
  inputs_ = take(input_bytes(group_));
  results_ = take(result_bytes(group_));
  bytes_ = offsets.end("the workspace", {{"desc.query_length", own().query_rows}});
}

std::size_t Exchange::input_bytes(const Peer& rows) const {
  return bytes_in(query_type_, extent(heads_, rows.query_rows, features_)) +
         bytes_in(key_type_, extent(key_heads_, rows.key_rows, features_)) +
         bytes_in(value_type_, extent(key_heads_, rows.key_rows, value_features_));
}

std::size_t Exchange::result_bytes(const Peer& rows) const {
  return bytes_in(out_type_, extent(heads_, rows.query_rows, value_features_)) +
         bytes_in(HEED_DTYPE_F64, extent(heads_, rows.query_rows, 1));
}

Inputs Exchange::inputs_at(std::byte* at, const Peer& rows) const {
  Cursor cursor(at);
  const Tensor query = cursor.next(query_type_, extent(heads_, rows.query_rows, features_));
  const Tensor key = cursor.next(key_type_, extent(key_heads_, rows.key_rows, features_));
  return {query, key, cursor.next(value_type_, extent(key_heads_, rows.key_rows, value_features_))};
}

Results Exchange::results_at(std::byte* at, const Peer& rows) const {
  Cursor cursor(at);
  const Tensor out = cursor.next(out_type_, extent(heads_, rows.query_rows, value_features_));
  return {out, cursor.next(HEED_DTYPE_F64, extent(heads_, rows.query_rows, 1))};
}

double Exchange::sent_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (i != place_) bytes += input_bytes(own()) + result_bytes(peers_[i]);
  return static_cast<double>(bytes);
}

template <class Sent, class Received>
void Exchange::all_to_all(Requests& requests, std::byte* workspace, Sent&& sent,
                          Received&& received) const {
  std::size_t offset = receive_;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const std::size_t bytes = received(peers_[i]);
    requests.receive(workspace + offset, bytes, first_rank_ + static_cast<int>(i), kTag);
    offset += bytes;
  }
  offset = send_;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const std::size_t bytes = sent(peers_[i]);
    requests.send(workspace + offset, bytes, first_rank_ + static_cast<int>(i), kTag);
    offset += bytes;
  }
  requests.wait();
}

Inputs Exchange::gather(Requests& requests, const Inputs& from, std::byte* workspace) const {
  const std::size_t bytes = input_bytes(own());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const Inputs message = inputs_at(workspace + send_ + i * bytes, own());
    const std::int64_t place = static_cast<std::int64_t>(i);
    copy(from.query.from(place * heads_, 0), message.query,
         extent(heads_, own().query_rows, features_));
    copy(from.key.from(place * key_heads_, 0), message.key,
         extent(key_heads_, own().key_rows, features_));
    copy(from.value.from(place * key_heads_, 0), message.value,
         extent(key_heads_, own().key_rows, value_features_));
  }
  all_to_all(
      requests, workspace, [&](const Peer&) { return bytes; },
      [&](const Peer& peer) { return input_bytes(peer); });
  const Inputs all = inputs(workspace);
  std::byte* message = workspace + receive_;
  for (const Peer& peer : peers_) {
    const Inputs theirs = inputs_at(message, peer);
    for (const Span& span : peer.queries)
      copy(theirs.query.from(0, span.row), all.query.from(0, row_at(group_.queries, span.position)),
           extent(heads_, span.count, features_));
    for (const Span& span : peer.keys) {
      const std::int64_t row = row_at(group_.keys, span.position);
      copy(theirs.key.from(0, span.row), all.key.from(0, row),
           extent(key_heads_, span.count, features_));
      copy(theirs.value.from(0, span.row), all.value.from(0, row),
           extent(key_heads_, span.count, value_features_));
    }
    message += input_bytes(peer);
  }
  return all;
}

Results Exchange::results(std::byte* workspace) const {
  return results_at(workspace + results_, group_);
}

void Exchange::scatter(Requests& requests, std::byte* workspace) const {
  const Results all = results(workspace);
  std::byte* message = workspace + send_;
  for (const Peer& peer : peers_) {
    const Results theirs = results_at(message, peer);
    for (const Span& span : peer.queries) {
      const std::int64_t row = row_at(group_.queries, span.position);
      copy(all.out.from(0, row), theirs.out.from(0, span.row),
           extent(heads_, span.count, value_features_));
      copy(all.lse.from(0, row), theirs.lse.from(0, span.row), extent(heads_, span.count, 1));
    }
    message += result_bytes(peer);
  }
  all_to_all(
      requests, workspace, [&](const Peer& peer) { return result_bytes(peer); },
      [&](const Peer&) { return result_bytes(own()); });
}

void Exchange::write(const heed_context& context, const Results& to, std::byte* workspace) const {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const Results theirs = results_at(workspace + receive_ + i * result_bytes(own()), own());
    const std::int64_t head = static_cast<std::int64_t>(i) * heads_;
    copy(theirs.out, to.out.from(head, 0), extent(heads_, own().query_rows, value_features_));
    if (to.lse.data == nullptr) continue;
    heed_merge_desc merge = HEED_MERGE_DESC_INIT;  // of one part: converts
    merge.batch = batch_;
    merge.heads = heads_;
    merge.rows = own().query_rows;
    merge.part_lse = theirs.lse.layout;
    merge.lse = to.lse.layout;
    const void* const outs[] = {nullptr};
    const void* const lses[] = {theirs.lse.data};
    check(heed_merge(&context, &merge, 1, outs, lses, nullptr, to.lse.from(head, 0).data));
  }
}

}  // namespace heed::mpi
