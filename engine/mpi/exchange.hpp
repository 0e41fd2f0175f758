// All-to-all among the ranks of a group that share heads: every rank gives the others their heads
// of its rows, gets its own heads of theirs, and gives back what came out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/mpi/problem.hpp"
#include "engine/mpi/tensor.hpp"

namespace heed::mpi {

/// The tensors that a run reads; those from kOut on where gradients are computed.
enum Input : std::size_t {
  kQuery,
  kKey,
  kValue,
  kMask,
  kBias,
  kOut,
  kLse,
  kGradOut,
  kGradLse,
  kMostTensors
};
using Tensors = std::array<Tensor, kMostTensors>;

/// A tensor by its rows, which are split over ranks: [batch, heads, rows, features]. Of those that
/// are not there features are 0.
struct SplitRows {
  bool of_keys;  ///< with key heads; else the rows and heads of queries
  std::uint32_t dtype;
  std::int64_t features;
  bool one_batch = false, one_head = false;  ///< repeats along these axes, where its size is 1
};
using RowsList = std::vector<SplitRows>;

/// Rows of queries and of keys that one message has.
struct Counts {
  std::int64_t queries, keys;
};

/// The heads that a rank computes.
struct HeadShare {
  std::int64_t batch, heads, key_heads;

  std::int64_t heads_of(const SplitRows& rows) const {
    return rows.one_head ? 1 : rows.of_keys ? key_heads : heads;
  }
  Extent extent(const SplitRows& rows, const Counts& counts) const {
    return {rows.one_batch ? 1 : batch, heads_of(rows), rows.of_keys ? counts.keys : counts.queries,
            rows.features};
  }
  /// Tensors of such rows one after the other from `at` on, each from a multiple of kUnitBytes on.
  Tensors laid_out(const RowsList& list, std::byte* at, const Counts& counts) const;
  /// All of their bytes.
  std::size_t bytes(const RowsList& list, const Counts& counts) const;
};

/// The tensors that a problem reads and, of all heads, writes: out and lse, or gradients of
/// queries, keys, values and, where each rank has its own rows of it, a bias. The latter travel in
/// the arithmetic's type.
RowsList inputs_of(const Problem& problem);
constexpr std::size_t kGradBiasResult = 3;
RowsList results_of(const Problem& problem);
/// Of the latter those of keys and values.
RowsList gradients_of_keys(const Problem& problem);

/// The caller's inputs. Where gradients are computed `backward` is given.
Tensors inputs_of(const Problem& problem, const heed_attention_args& args,
                  const heed_attention_backward_args* backward);

class Exchange {
 public:
  Exchange() = default;
  /// Of the group of `rank`: so many ranks from a multiple of their number on.
  Exchange(const Problem& problem, const HeadShare& share, int rank, int head_ranks);

  std::size_t workspace_bytes() const { return bytes_; }
  std::size_t messages() const { return 2 * peers_.size(); }
  /// Bytes that this rank sends the others in a run.
  double sent_bytes() const;

  /// All rows of the group, in the workspace.
  Tensors inputs(std::byte* workspace) const {
    return share_.laid_out(inputs_, after(workspace, inputs_at_), group_.counts);
  }
  /// Sends the caller's rows, zeros where there is no tensor. What comes back lies in the
  /// workspace: all rows of the group. What does not travel, masks and biases that repeat over all
  /// queries, is the caller's, from this rank's heads on.
  Tensors gather(Requests& requests, const Tensors& own, std::byte* workspace) const;
  /// Where the results of the group's rows belong, in the workspace.
  Tensors results(std::byte* workspace) const {
    return share_.laid_out(results_, after(workspace, results_at_), group_.counts);
  }
  /// Sends the others' rows of results().
  void scatter(Requests& requests, std::byte* workspace) const;
  /// Calls function(t, results, first head, extent) with what each peer made of this rank's rows,
  /// for every result t; once, with their sum, where it repeats over heads.
  template <class Function>
  void each_result(std::byte* workspace, Function&& function) const {
    const auto of_peer = [&](std::size_t i) {
      return share_.laid_out(results_, workspace + receive_ + i * bytes_of(results_, own()),
                             own().counts);
    };
    const Tensors first = of_peer(0);
    for (std::size_t i = 0; i < peers_.size(); ++i)
      for (std::size_t t = 0; t < results_.size(); ++t) {
        const SplitRows& rows = results_[t];
        const Extent all = share_.extent(rows, own().counts);
        const Tensor theirs = of_peer(i)[t];
        if (!rows.one_head)
          function(t, theirs, static_cast<std::int64_t>(i) * all.heads, all);
        else if (i > 0)
          add(theirs.data, first[t].data,
              static_cast<std::size_t>(all.elements()) * mpi::bytes_of(rows.dtype), rows.dtype);
        if (rows.one_head && i + 1 == peers_.size()) function(t, first[t], 0, all);
      }
  }

 private:
  /// A rank of the group, or all of it.
  struct Peer {
    Spans queries, keys;
    Counts counts;

    const Spans& spans(const SplitRows& rows) const { return rows.of_keys ? keys : queries; }
  };
  static Peer peer_of(Spans queries, Spans keys) {
    const Counts counts = {rows_in(queries), rows_in(keys)};
    return {std::move(queries), std::move(keys), counts};
  }

  std::size_t bytes_of(const RowsList& list, const Peer& peer) const {
    return share_.bytes(list, peer.counts);
  }
  const Peer& own() const { return peers_[place_]; }
  /// Copies a peer's rows to where they belong among the group's, or from there.
  void place_rows(const RowsList& list, const Peer& peer, const Tensors& theirs, const Tensors& all,
                  bool to_all) const;
  /// One message to each peer, its own too, and one from each, in the order of peers.
  template <class Sent, class Received>
  void all_to_all(Requests& requests, std::byte* workspace, Sent&& sent, Received&& received) const;

  HeadShare share_ = {};
  RowsList inputs_, results_;
  int first_rank_ = 0;
  std::size_t place_ = 0;
  std::vector<Peer> peers_;
  Peer group_ = {};
  std::size_t send_ = 0, receive_ = 0, inputs_at_ = 0, results_at_ = 0, bytes_ = 0;
};

}  // namespace heed::mpi
