// All-to-all among the ranks of a group that share heads: every rank gives the others their heads
// of its rows, gets its own heads of theirs, and gives the results back.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/mpi/problem.hpp"
#include "engine/mpi/tensor.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed::mpi {

/// The bytes of the rows of a tensor, a multiple of kUnitBytes.
inline std::size_t checked_bytes(std::uint32_t dtype, const Extent& e) {
  const Size bytes =
      Size(e.batch) * e.heads * e.rows * e.features * static_cast<std::int64_t>(bytes_of(dtype));
  return static_cast<std::size_t>(
      round_up(bytes, kUnitBytes)
          .checked("a message", {{"desc.batch", e.batch}, {"heads", e.heads}, {"rows", e.rows}}));
}

/// The sequences and heads that a rank computes.
struct HeadShare {
  std::int64_t batch, heads, key_heads;

  Extent extent(const SplitRows& rows, const Counts& counts) const {
    const std::int64_t own_heads = rows.of_keys ? key_heads : heads;
    return {rows.one_batch ? 1 : batch, rows.one_head ? 1 : own_heads,
            rows.of_keys ? counts.keys : counts.queries, rows.features};
  }
  /// Lays tensors of such rows one after the other, from `at` on; each begins at a multiple of
  /// kUnitBytes.
  Tensors laid_out(const RowsList& list, std::byte* at, const Counts& counts) const {
    Tensors tensors = {};
    for (std::size_t t = 0; t < list.size(); ++t) {
      const Extent e = extent(list[t], counts);
      tensors[t] = contiguous(at, list[t].dtype, e);
      at = after(at, checked_bytes(list[t].dtype, e));
    }
    return tensors;
  }
  /// The bytes that laid_out() takes.
  std::size_t bytes(const RowsList& list, const Counts& counts) const {
    std::size_t bytes = 0;
    for (const SplitRows& rows : list) bytes += checked_bytes(rows.dtype, extent(rows, counts));
    return bytes;
  }
};

/// The place of the bias's gradient among Problem::results.
constexpr std::size_t kGradBiasResult = 3;

class Exchange {
 public:
  Exchange() = default;
  /// The group of `rank` has so many ranks and begins with a multiple of that.
  Exchange(const Problem& p, const HeadShare& share, int rank, int head_ranks)
      : share_(share),
        inputs_(p.inputs),
        results_(p.results),
        first_rank_(rank / head_ranks * head_ranks),
        place_(static_cast<std::size_t>(rank % head_ranks)),
        group_{together(p.queries, first_rank_, head_ranks),
               together(p.keys, first_rank_, head_ranks)} {
    std::size_t inputs = 0;
    std::size_t results = 0;
    for (int i = 0; i < head_ranks; ++i) {
      const std::size_t peer = static_cast<std::size_t>(first_rank_) + static_cast<std::size_t>(i);
      peers_.push_back({p.queries[peer], p.keys[peer]});
      const std::size_t sent = bytes_of(inputs_, peers_.back());
      const std::size_t back = bytes_of(results_, peers_.back());
      check_message(std::max(sent, back));
      inputs += sent;
      results += back;
    }
    const auto ranks = static_cast<std::size_t>(head_ranks);
    sent_bytes = (ranks - 1) * bytes_of(inputs_, own()) + results - bytes_of(results_, own());
    Offsets offsets;
    send_ = offsets.take_bytes(std::max(ranks * bytes_of(inputs_, own()), results));
    receive_ = offsets.take_bytes(std::max(inputs, ranks * bytes_of(results_, own())));
    inputs_at_ = offsets.take_bytes(bytes_of(inputs_, group_));
    results_at_ = offsets.take_bytes(bytes_of(results_, group_));
    workspace_bytes = offsets.end("the workspace", {{"desc.query_length", own().counts().queries}});
  }

  std::size_t workspace_bytes = 0;
  std::size_t sent_bytes = 0;  ///< to the other ranks, in a run
  std::size_t messages() const { return 2 * peers_.size(); }

  /// Where all rows of the group lie in the workspace.
  Tensors inputs(std::byte* workspace) const {
    return share_.laid_out(inputs_, after(workspace, inputs_at_), group_.counts());
  }
  /// Sends the caller's rows, zeros where there is no tensor, and returns all rows of the group,
  /// in the workspace. Masks and biases that repeat over all queries do not travel: they stay the
  /// caller's, from this rank's heads on.
  Tensors gather(Requests& requests, const Tensors& from, std::byte* workspace) const {
    each_share(inputs_, workspace + send_,
               [&](std::size_t t, const Tensor& share, std::int64_t head, const Extent& extent) {
                 if (from[t].data != nullptr)
                   copy(from[t].from(head, 0), share, extent);
                 else
                   std::memset(share.data, 0, checked_bytes(share.layout.dtype, extent));
               });
    all_to_all(requests, workspace, inputs_, true);
    Tensors all = inputs(workspace);
    place_rows(inputs_, workspace + receive_, all, true);
    const std::int64_t first_head = static_cast<std::int64_t>(place_) * share_.heads;
    for (const Input t : {kMask, kBias})
      if (inputs_[t].features == 0) all[t] = from[t].from(first_head, 0);
    return all;
  }
  /// Where the results of the group's rows belong, in the workspace.
  Tensors results(std::byte* workspace) const {
    return share_.laid_out(results_, after(workspace, results_at_), group_.counts());
  }
  /// Sends the others their rows of results().
  void scatter(Requests& requests, std::byte* workspace) const {
    place_rows(results_, workspace + send_, results(workspace), false);
    all_to_all(requests, workspace, results_, false);
  }

  /// Calls function(t, results, first head, extent) with each peer's results of this rank's rows,
  /// for every result t; once, with their sum, where it repeats over heads.
  template <class Function>
  void each_result(std::byte* workspace, Function&& function) const {
    std::byte* const received = workspace + receive_;
    const Tensors sums = share_.laid_out(results_, received, own().counts());
    each_share(results_, received,
               [&](std::size_t t, const Tensor& share, std::int64_t head, const Extent& extent) {
                 if (!results_[t].one_head)
                   function(t, share, head, extent);
                 else if (share.data != sums[t].data)
                   add(share.data, sums[t].data,
                       static_cast<std::size_t>(extent.elements()) * share.element_bytes(),
                       share.layout.dtype);
               });
    for (std::size_t t = 0; t < results_.size(); ++t)
      if (results_[t].one_head) function(t, sums[t], 0, share_.extent(results_[t], own().counts()));
  }

 private:
  static constexpr int kTag = 0;

  std::size_t bytes_of(const RowsList& list, const Shard& peer) const {
    return share_.bytes(list, peer.counts());
  }
  const Shard& own() const { return peers_[place_]; }

  /// Calls function(t, tensor, first head, extent) with each peer's heads of this rank's rows,
  /// which lie peer after peer, for every tensor t that has any.
  template <class Function>
  void each_share(const RowsList& list, std::byte* at, Function&& function) const {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const Tensors tensors = share_.laid_out(list, at, own().counts());
      at += bytes_of(list, own());
      for (std::size_t t = 0; t < list.size(); ++t) {
        const Extent extent = share_.extent(list[t], own().counts());
        const auto head = list[t].one_head ? 0 : static_cast<std::int64_t>(i) * extent.heads;
        if (extent.features > 0) function(t, tensors[t], head, extent);
      }
    }
  }

  /// Copies the rows of all peers from their messages to where they belong among the group's, or
  /// from there.
  void place_rows(const RowsList& list, std::byte* message, const Tensors& all, bool to_all) const {
    for (const Shard& peer : peers_) {
      const Tensors theirs = share_.laid_out(list, message, peer.counts());
      message += bytes_of(list, peer);
      for (std::size_t t = 0; t < list.size(); ++t)
        for (const Span& span : peer.rows(list[t].of_keys)) {
          const Tensor of_peer = theirs[t].from(0, span.row);
          const Tensor of_group =
              all[t].from(0, row_at(group_.rows(list[t].of_keys), span.position));
          Extent rows = share_.extent(list[t], peer.counts());
          rows.rows = span.count;
          to_all ? copy(of_peer, of_group, rows) : copy(of_group, of_peer, rows);
        }
    }
  }

  /// Sends one message to each peer, this rank too, and receives one from each, in the order of
  /// peers: own rows go to all, or theirs back to each.
  void all_to_all(Requests& requests, std::byte* workspace, const RowsList& list,
                  bool to_all) const {
    std::byte* received = workspace + receive_;
    std::byte* sent = workspace + send_;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const int rank = first_rank_ + static_cast<int>(i);
      const std::size_t in = bytes_of(list, to_all ? peers_[i] : own());
      const std::size_t out = bytes_of(list, to_all ? own() : peers_[i]);
      requests.receive(std::exchange(received, received + in), in, rank, kTag);
      requests.send(std::exchange(sent, sent + out), out, rank, kTag);
    }
    requests.wait();
  }

  HeadShare share_ = {};
  RowsList inputs_, results_;
  int first_rank_ = 0;
  std::size_t place_ = 0;
  std::vector<Shard> peers_;
  Shard group_ = {};
  std::size_t send_ = 0, receive_ = 0, inputs_at_ = 0, results_at_ = 0;
};

}  // namespace heed::mpi
