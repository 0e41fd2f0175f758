// The work of a rank in a run: dense calls, and the messages between them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/mpi/communicator.hpp"
#include "engine/mpi/exchange.hpp"
#include "engine/mpi/ring.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed::mpi {

/// The query rows of one dense call, between two looks for messages. Their results so far lie
/// side by side, [batch, heads, rows, features], after the results of the slices before.
struct Slice {
  Span queries;
  bool attended;  ///< some key attends; else its rows are 0
};

/// Areas of the workspace that messages are sent from and received in. While a rank computes with
/// keys and gradients in one of two buffers, it sends the other, or receives there. kGradients
/// holds gradients of others' keys and values, kArrived such gradients of own ones, and kSums their
/// sums, all in the arithmetic's type.
enum Area : std::size_t { kKeys, kGradients = kKeys + 2, kArrived = kGradients + 2, kSums, kAreas };

/// Where bytes of an area begin.
struct Bytes {
  std::size_t area, offset;
};
inline std::size_t area_of(Area first, std::size_t round) { return first + round % 2; }

/// One dense call.
struct Call {
  std::size_t slice;
  std::size_t form;  ///< its descriptor among the plan's forms; calls that are alike share one
  Span keys;
  Bytes parcel;     ///< keys and values of another rank; own ones are read where they lie
  Bytes gradients;  ///< of these keys and values, where they are wanted
  bool own;
  bool first;  ///< no call of the slice comes before: there is nothing to merge with
};

struct Message {
  int rank;
  int tag;
  Bytes at;
  std::size_t bytes;
};

/// Gradients at `from` of kArrived join the sums at `to` of kSums.
struct Addition {
  std::size_t from, to, bytes;
};

/// Calls, and the messages that travel meanwhile. In the end a rank adds the gradients that have
/// arrived.
struct Round {
  std::vector<Message> receives, sends;
  std::vector<Call> calls;
  std::vector<Addition> additions;
  std::size_t gradient_bytes = 0;  ///< so much of its area of kGradients begins as 0
};

/// Lists every head_ranks that is possible, or the one that the caller wants, and chooses one.
/// Throws an Error if the one that the caller wants is not possible.
std::vector<heed_mpi_choice> choices_of(const Problem& problem);

/// Plans of attention and of its gradients have all of this in common.
class Plan : public RankPlan {
 public:
  Communicator comm;
  const heed_context* context;  ///< held by dense plans
  Problem problem;
  std::vector<heed_mpi_choice> choices;
  int head_ranks = 1;
  HeadShare share = {};      ///< of this rank
  Exchange exchange;         ///< used where head_ranks is above 1
  Tensors call_inputs = {};  ///< layouts alone, as calls find own rows
  Shard shard;               ///< the rows of this rank, or of its group where ranks share heads
  std::vector<Slice> slices;
  std::vector<Round> rounds;
  std::vector<heed_attention_desc> forms;  ///< of calls; out and lse are filled in later
  /// Where gradients of own spans of keys lie in kSums, and where a run packs these keys and their
  /// values in kKeys before round 0; SIZE_MAX if they do not travel.
  std::vector<std::size_t> sums_at, packed_at;
  double flops = 0;

  /// The layout of the workspace, in bytes.
  std::size_t areas[kAreas] = {}, area_bytes[kAreas] = {};
  std::size_t results_at[2] = {};  ///< Problem::slice_results of all slices
  std::size_t dense_at = 0, dense_bytes = 0;
  std::size_t lengths_at = 0, origin_at = 0;  ///< of a call: its key lengths, its dropout's origin
  std::size_t requests_at = 0, exchange_at = 0;

  const char* strategy() const;
  bool shares_heads() const { return head_ranks > 1; }
  std::int64_t first_head() const { return share.heads * (comm.rank() % head_ranks); }
  /// How many sequences times heads a dense call computes.
  std::int64_t problems() const { return share.batch * share.heads; }

 protected:
  template <class Desc>
  Plan(const char* operation, MPI_Comm parent, const heed_context* given, const Desc* desc)
      : RankPlan(operation), comm(parent), context(given), problem(comm.agreed([&] {
          Communicator::check_thread();
          return read(required(given, "context"), desc);
        })) {
    complete(problem, comm, *given);
    comm.agreed([&] { plan(); });
  }

  /// How calls find a mask, a bias or its gradient: as `own`, or as it was gathered where ranks
  /// that share heads exchange its rows.
  heed_score_layout scores_of_calls(heed_score_layout own, const WholeScores& whole,
                                    const Tensor& gathered) const;
  template <class DensePlan, class Desc>
  void make_dense_plan(std::vector<Owned<DensePlan>>& plans, const Desc& desc) {
    plans.push_back(make<DensePlan>(context, &desc));
    dense_bytes = std::max(dense_bytes, workspace_of(plans.back()));
  }
  /// Takes the buffers of Problem::slice_results with so many rows.
  void take_results(Offsets& offsets, std::int64_t rows, std::size_t (&at)[2]) const;
  std::int64_t query_rows() const { return rows_in(shard.queries); }
  /// Takes the buffers that both passes need, as the last of the workspace.
  void lay_out(Offsets& offsets);

 private:
  void plan();
  void plan_slices();
  void plan_rounds(const Ring& ring);
  void plan_gradients_back(const Ring& ring, std::size_t round);
  /// Adds calls without keys for slices that attend none: these have results too, and gradients
  /// of sinks.
  void plan_unattended();
  void add_calls(Round& round, const Call& call);
  void add_own_calls(Round& round);
  std::size_t form_of(const Span& queries, const Span& keys, bool own);
  int member() const { return comm.rank() / head_ranks; }
  int rank_of(int other) const { return other * head_ranks + comm.rank() % head_ranks; }
  void need(std::size_t area, std::size_t bytes) {
    area_bytes[area] = std::max(area_bytes[area], bytes);
  }

  /// Forms by rows, keys, whether these are own ones, whether order matters, and the offset.
  std::map<std::vector<std::int64_t>, std::size_t> form_index_;
};

}  // namespace heed::mpi

struct heed_mpi_attention_plan : heed::mpi::Plan {
  heed_mpi_attention_plan(MPI_Comm parent, const heed_context* given,
                          const heed_mpi_attention_desc* desc);
  /// Computes; collective.
  void run(const heed_attention_args* args, void* workspace, std::size_t bytes) const;

  std::vector<heed::mpi::Owned<heed_attention_plan>> dense;  ///< by form

  /// The layout of the workspace, in bytes.
  std::size_t merged_bytes = 0;    ///< of the results of all slices
  std::size_t partial_at[2] = {};  ///< of one call
  std::size_t gathered_at = 0;     ///< results of all ranks
  std::size_t pointers_at = 0;     ///< to the partial results that are merged
};

struct heed_mpi_attention_backward_plan : heed::mpi::Plan {
  heed_mpi_attention_backward_plan(MPI_Comm parent, const heed_context* given,
                                   const heed_mpi_attention_backward_desc* desc);
  void run(const heed_attention_backward_args* args, void* workspace, std::size_t bytes) const;

  std::vector<heed::mpi::Owned<heed_attention_backward_plan>> dense;  ///< by form

  /// How the sums of the gradient of the bias lie in the workspace; with exchanges_bias among the
  /// results that ranks which share heads exchange.
  heed_score_layout grad_bias = {};
  std::size_t grad_bias_at = 0;
  bool exchanges_bias = false;
  /// A gradient of values that all ranks have in common.
  struct Total {
    heed_mpi_gradients gradient;
    void* heed_attention_backward_args::*to;
    std::int64_t heads, of_head;  ///< so many values of each head
    std::size_t at = 0;
  };
  std::vector<Total> totals;  ///< the wanted ones
  /// Sums lie at the beginning of the workspace, up to sums_end. From shared_begin on all ranks
  /// share them; they are cut into one piece for every rank.
  std::size_t shared_begin = 0, sums_end = 0, piece_bytes = 0;
  std::size_t pieces_at = 0;  ///< this rank's piece of every rank's sums
  std::size_t buffer_at = 0;  ///< for the values that gradients are added to

 private:
  void plan_workspace();
};
