// What a rank does in a run: the dense calls, and what travels between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/mpi/choice.hpp"
#include "engine/mpi/communicator.hpp"
#include "engine/mpi/exchange.hpp"
#include "engine/mpi/problem.hpp"
#include "engine/mpi/ring.hpp"

namespace heed::mpi {

/// The query rows of one dense call, between two looks at what arrives. Their results so far lie
/// side by side, [batch, heads, rows, value_features], after those of the slices before.
struct Slice {
  Span queries;
  bool attended;  ///< some key attends; else its rows are 0
};

/// One dense call.
struct Call {
  std::size_t slice;
  const heed_attention_plan* plan;
  Span keys;
  std::size_t parcel;  ///< where keys and values lie in the round's buffer; not in round 0
  bool first;          ///< of its slice: there is nothing to merge with
};

struct Message {
  int rank;
  int tag;
  std::size_t offset;  ///< in the round's buffer
  std::size_t bytes;
};

/// While a rank computes with what is in one buffer, it sends from there and receives in the other.
struct Round {
  std::vector<Message> receives, sends;
  std::vector<Call> calls;
};

/// Own keys and values that travel: they are packed before round 0.
struct Packed {
  Span keys;
  std::size_t offset;
};

/// The layout of the workspace, in bytes.
struct WorkspaceLayout {
  std::size_t out, lse;            ///< of all slices, merged so far
  std::size_t part_out, part_lse;  ///< of one call
  std::size_t buffers[2];
  std::size_t dense;
  std::size_t lengths;   ///< of keys, for a call
  std::size_t gathered;  ///< results of all ranks
  std::size_t pointers;  ///< to what is merged
  std::size_t requests;
  std::size_t exchange;
  std::size_t bytes;
};

}  // namespace heed::mpi

struct heed_mpi_attention_plan {
  heed_mpi_attention_plan(MPI_Comm parent, const heed_context* given,
                          const heed_mpi_attention_desc* desc);

  heed::mpi::Communicator comm;
  const heed_context* context;  ///< held by dense plans
  heed::mpi::Problem problem;
  std::vector<heed_mpi_choice> choices;
  int head_ranks = 1;
  std::int64_t heads = 0, key_heads = 0;  ///< that this rank computes
  bool verbose = false;

  heed::mpi::Exchange exchange;  ///< used where head_ranks is above 1
  std::vector<heed::mpi::Slice> slices;
  std::vector<heed::mpi::Packed> packed;
  std::vector<heed::mpi::Round> rounds;
  heed::mpi::WorkspaceLayout workspace = {};
  std::size_t dense_bytes = 0;
  double flops = 0;
  double sent_bytes = 0;
  mutable heed_mpi_times times = HEED_MPI_TIMES_INIT;  ///< of the latest run

  const char* strategy() const;
  std::int64_t first_head() const { return heads * (comm.rank() % head_ranks); }
  heed::mpi::Extent extent_of_keys(std::int64_t rows) const {
    return {problem.desc.batch, key_heads, rows, problem.desc.features};
  }
  heed::mpi::Extent extent_of_values(std::int64_t rows) const {
    return {problem.desc.batch, key_heads, rows, problem.desc.value_features};
  }
  /// Keys and then values of a span, as they travel.
  heed::mpi::Tensor keys_in(std::byte* parcel, std::int64_t rows) const;
  heed::mpi::Tensor values_in(std::byte* parcel, std::int64_t rows) const;
  std::size_t parcel_bytes(std::int64_t rows) const;

 private:
  void plan_slices(const heed::mpi::Spans& queries);
  void plan_rounds(const heed::mpi::Ring& ring);
  void plan_alone(const heed::mpi::Spans& keys);
  void add_calls(heed::mpi::Round& round, const heed::mpi::Span& keys, std::size_t parcel,
                 bool own);
  void plan_workspace(const std::size_t (&buffers)[2]);
  const heed_attention_plan* dense_plan(const heed::mpi::Span& queries, const heed::mpi::Span& keys,
                                        bool own);
  int member() const { return comm.rank() / head_ranks; }

  /// By rows, keys, whether they are own ones, and the offset: calls that are alike share a plan.
  std::map<std::vector<std::int64_t>, heed::mpi::DensePlan> dense_;
};

namespace heed::mpi {

/// This rank's arguments. Throws an Error unless they are what the plan was told, and the workspace
/// is large enough.
heed_attention_args read_args(const heed_mpi_attention_plan& plan, const heed_attention_args* given,
                              const void* workspace, std::size_t bytes);

/// Computes; collective.
void run(const heed_mpi_attention_plan& plan, const heed_attention_args* args, void* workspace,
         std::size_t bytes);

}  // namespace heed::mpi
