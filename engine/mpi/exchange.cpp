#include "engine/mpi/exchange.hpp"

#include <algorithm>
#include <cstring>

#include "engine/runtime/workspace.hpp"

namespace heed::mpi {
namespace {

constexpr int kTag = 0;

/// A multiple of kUnitBytes.
std::size_t checked_bytes(std::uint32_t dtype, const Extent& e) {
  const Size bytes =
      Size(e.batch) * e.heads * e.rows * e.features * static_cast<std::int64_t>(bytes_of(dtype));
  return static_cast<std::size_t>(
      round_up(bytes, kUnitBytes)
          .checked("a message", {{"desc.batch", e.batch}, {"heads", e.heads}, {"rows", e.rows}}));
}

/// Those of each rank's own queries travel to where the heads are.
SplitRows rows_of(const WholeScores& scores, std::uint32_t dtype) {
  return {false, dtype, scores.by_rows ? scores.keys : 0, scores.batch == 1, scores.heads == 1};
}

}  // namespace

Tensors HeadShare::laid_out(const RowsList& list, std::byte* at, const Counts& counts) const {
  Tensors tensors = {};
  for (std::size_t t = 0; t < list.size(); ++t) {
    const Extent e = extent(list[t], counts);
    tensors[t] = contiguous(at, list[t].dtype, e);
    at = after(at, checked_bytes(list[t].dtype, e));
  }
  return tensors;
}

std::size_t HeadShare::bytes(const RowsList& list, const Counts& counts) const {
  std::size_t bytes = 0;
  for (const SplitRows& rows : list) bytes += checked_bytes(rows.dtype, extent(rows, counts));
  return bytes;
}

RowsList inputs_of(const Problem& p) {
  const heed_attention_desc& d = p.desc;
  RowsList list = {{false, d.query.dtype, d.features},
                   {true, d.key.dtype, d.features},
                   {true, d.value.dtype, d.value_features},
                   rows_of(p.mask, HEED_DTYPE_I8),
                   rows_of(p.bias, d.bias.dtype)};
  if (p.gradients != 0)
    list.insert(list.end(), {{false, d.out.dtype, d.value_features},
                             {false, d.lse.dtype, 1},
                             {false, p.backward.grad_out.dtype, d.value_features},
                             {false, p.backward.grad_lse.dtype, 1}});
  return list;
}

RowsList results_of(const Problem& p) {
  const heed_attention_desc& d = p.desc;
  if (p.gradients == 0) return {{false, d.out.dtype, d.value_features}, {false, HEED_DTYPE_F64, 1}};
  RowsList list = gradients_of_keys(p);
  list.insert(list.begin(), {false, p.real(), p.wants(HEED_MPI_GRAD_QUERY) ? d.features : 0});
  if (p.wants(HEED_MPI_GRAD_BIAS)) list.push_back(rows_of(p.bias, p.real()));
  return list;
}

RowsList gradients_of_keys(const Problem& p) {
  return {{true, p.real(), p.wants(HEED_MPI_GRAD_KEY) ? p.desc.features : 0},
          {true, p.real(), p.wants(HEED_MPI_GRAD_VALUE) ? p.desc.value_features : 0}};
}

Tensors inputs_of(const Problem& p, const heed_attention_args& args,
                  const heed_attention_backward_args* backward) {
  const auto tensor = [](const void* data, const heed_layout& layout) {
    return Tensor{static_cast<std::byte*>(const_cast<void*>(data)), layout};
  };
  Tensors inputs = {tensor(args.query, p.desc.query), tensor(args.key, p.desc.key),
                    tensor(args.value, p.desc.value)};
  inputs[kMask] = tensor_of(const_cast<std::uint8_t*>(args.mask), p.desc.mask);
  inputs[kMask].layout.dtype = HEED_DTYPE_I8;
  inputs[kBias] = tensor_of(const_cast<void*>(args.bias), p.desc.bias);
  if (backward == nullptr) return inputs;
  inputs[kOut] = tensor(args.out, p.desc.out);
  inputs[kLse] = tensor(args.lse, p.desc.lse);
  inputs[kGradOut] = tensor(backward->grad_out, p.backward.grad_out);
  inputs[kGradLse] = tensor(backward->grad_lse, p.backward.grad_lse);
  return inputs;
}

Exchange::Exchange(const Problem& p, const HeadShare& share, int rank, int head_ranks)
    : share_(share),
      inputs_(inputs_of(p)),
      results_(results_of(p)),
      first_rank_(rank / head_ranks * head_ranks),
      place_(static_cast<std::size_t>(rank % head_ranks)),
      group_(peer_of(together(p.queries, first_rank_, head_ranks),
                     together(p.keys, first_rank_, head_ranks))) {
  std::size_t inputs = 0;
  std::size_t results = 0;
  for (int i = 0; i < head_ranks; ++i) {
    const std::size_t peer = static_cast<std::size_t>(first_rank_) + static_cast<std::size_t>(i);
    peers_.push_back(peer_of(p.queries[peer], p.keys[peer]));
    const std::size_t sent = bytes_of(inputs_, peers_.back());
    const std::size_t back = bytes_of(results_, peers_.back());
    check_message(std::max(sent, back));
    inputs += sent;
    results += back;
  }
  const auto ranks = static_cast<std::size_t>(head_ranks);
  Offsets offsets;
  const auto take = [&](std::size_t bytes) {
    return offsets.take(static_cast<std::int64_t>(bytes), 1, 1);
  };
  send_ = take(std::max(ranks * bytes_of(inputs_, own()), results));
  receive_ = take(std::max(inputs, ranks * bytes_of(results_, own())));
  inputs_at_ = take(bytes_of(inputs_, group_));
  results_at_ = take(bytes_of(results_, group_));
  bytes_ = offsets.end("the workspace", {{"desc.query_length", own().counts.queries}});
}

double Exchange::sent_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (i != place_) bytes += bytes_of(inputs_, own()) + bytes_of(results_, peers_[i]);
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

void Exchange::place_rows(const RowsList& list, const Peer& peer, const Tensors& theirs,
                          const Tensors& all, bool to_all) const {
  for (std::size_t t = 0; t < list.size(); ++t)
    for (const Span& span : peer.spans(list[t])) {
      const Tensor of_peer = theirs[t].from(0, span.row);
      const Tensor of_group = all[t].from(0, row_at(group_.spans(list[t]), span.position));
      Extent rows = share_.extent(list[t], peer.counts);
      rows.rows = span.count;
      to_all ? copy(of_peer, of_group, rows) : copy(of_group, of_peer, rows);
    }
}

Tensors Exchange::gather(Requests& requests, const Tensors& from, std::byte* workspace) const {
  const std::size_t bytes = bytes_of(inputs_, own());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const Tensors message = share_.laid_out(inputs_, workspace + send_ + i * bytes, own().counts);
    for (std::size_t t = 0; t < inputs_.size(); ++t) {
      const Extent rows = share_.extent(inputs_[t], own().counts);
      const std::int64_t head = inputs_[t].one_head ? 0 : static_cast<std::int64_t>(i) * rows.heads;
      if (inputs_[t].features == 0) continue;
      if (from[t].data == nullptr)
        std::memset(message[t].data, 0, checked_bytes(inputs_[t].dtype, rows));
      else
        copy(from[t].from(head, 0), message[t], rows);
    }
  }
  all_to_all(
      requests, workspace, [&](const Peer&) { return bytes; },
      [&](const Peer& peer) { return bytes_of(inputs_, peer); });
  Tensors all = inputs(workspace);
  std::byte* message = workspace + receive_;
  for (const Peer& peer : peers_) {
    place_rows(inputs_, peer, share_.laid_out(inputs_, message, peer.counts), all, true);
    message += bytes_of(inputs_, peer);
  }
  const std::int64_t first_head = static_cast<std::int64_t>(place_) * share_.heads;
  for (const Input t : {kMask, kBias})
    if (inputs_[t].features == 0) all[t] = from[t].from(first_head, 0);
  return all;
}

void Exchange::scatter(Requests& requests, std::byte* workspace) const {
  const Tensors all = results(workspace);
  std::byte* message = workspace + send_;
  for (const Peer& peer : peers_) {
    place_rows(results_, peer, share_.laid_out(results_, message, peer.counts), all, false);
    message += bytes_of(results_, peer);
  }
  all_to_all(
      requests, workspace, [&](const Peer& peer) { return bytes_of(results_, peer); },
      [&](const Peer&) { return bytes_of(results_, own()); });
}

}  // namespace heed::mpi
