// All-to-all among the ranks of a group that share heads: every rank gives the others their heads
// of its rows, gets its own heads of theirs, and gives back what came out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/mpi/problem.hpp"
#include "engine/mpi/requests.hpp"
#include "engine/mpi/spans.hpp"
#include "engine/mpi/tensor.hpp"

namespace heed::mpi {

struct Inputs {
  Tensor query, key, value;
};
struct Results {
  Tensor out, lse;
};

/// The caller's tensors.
Inputs inputs_of(const Problem& problem, const heed_attention_args& args);
Results results_of(const Problem& problem, const heed_attention_args& args);

class Exchange {
 public:
  Exchange() = default;
  /// Of the group of `rank`: so many ranks from a multiple of their number on.
  Exchange(const Problem& problem, int rank, int head_ranks);

  std::size_t workspace_bytes() const { return bytes_; }
  std::size_t messages() const { return 2 * peers_.size(); }
  /// Bytes that this rank sends the others in a run.
  double sent_bytes() const;

  /// All rows of the group, in the workspace.
  Inputs inputs(std::byte* workspace) const { return inputs_at(workspace + inputs_, group_); }
  /// Sends the caller's rows. What comes back lies in the workspace: all rows of the group.
  Inputs gather(Requests& requests, const Inputs& own, std::byte* workspace) const;
  /// Where the results of the group's rows belong, in the workspace.
  Results results(std::byte* workspace) const;
  /// Sends the others' rows of results().
  void scatter(Requests& requests, std::byte* workspace) const;
  /// Own rows of all heads. lse.data may be NULL: not wanted.
  void write(const heed_context& context, const Results& own, std::byte* workspace) const;

 private:
  struct Peer {
    Spans queries, keys;
    std::int64_t query_rows, key_rows;
  };

  /// Tensors of one rank's heads and so many rows, one after the other from `at` on.
  Inputs inputs_at(std::byte* at, const Peer& rows) const;
  Results results_at(std::byte* at, const Peer& rows) const;
  std::size_t input_bytes(const Peer& rows) const;
  std::size_t result_bytes(const Peer& rows) const;
  const Peer& own() const { return peers_[place_]; }
  Extent extent(std::int64_t heads, std::int64_t rows, std::int64_t features) const {
    return {batch_, heads, rows, features};
  }
  /// One message to each peer, its own too, and one from each, in the order of peers.
  template <class Sent, class Received>
  void all_to_all(Requests& requests, std::byte* workspace, Sent&& sent, Received&& received) const;

  std::int64_t batch_ = 0, heads_ = 0, key_heads_ = 0, features_ = 0, value_features_ = 0;
  std::uint32_t query_type_ = 0, key_type_ = 0, value_type_ = 0, out_type_ = 0;
  int first_rank_ = 0;
  std::size_t place_ = 0;
  std::vector<Peer> peers_;
  Peer group_ = {};
  std::size_t send_ = 0, receive_ = 0, inputs_ = 0, results_ = 0, bytes_ = 0;
};

}  // namespace heed::mpi
