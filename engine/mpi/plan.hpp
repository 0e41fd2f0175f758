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
/// keys and gradients in one of two buffers, it sends the other, or receives there. In
/// the arithmetic's type: gradients of others' keys and values, such gradients of own ones that
/// arrive, and their sums.
enum Area : std::size_t { kKeys, kGradients = kKeys + 2, kArrived = kGradients + 2, kSums, kAreas };

/// Bytes of an area, from an offset on.
struct Bytes {
  std::size_t area, offset;
};
inline std::size_t area_of(Area first, std::size_t round) { return first + round % 2; }

/// One dense call.
struct Call {
  std::size_t slice;
  std::size_t form;  ///< of the plan's, which calls that are alike share
  Span keys;
  Bytes parcel;     ///< keys and values; not used of own ones, which are read where they lie
  Bytes gradients;  ///< theirs, where they are wanted
  bool own;
  bool first;  ///< of its slice: there is nothing to merge with
};

struct Message {
  int rank;
  int tag;
  Bytes at;
  std::size_t bytes;
};

/// Of kArrived, to be added to kSums.
struct Addition {
  std::size_t from, to, bytes;
};

/// Calls, and the messages that travel meanwhile. In the end the gradients that have arrived are
/// added.
struct Round {
  std::vector<Message> receives, sends;
  std::vector<Call> calls;
  std::vector<Addition> additions;
  std::size_t gradient_bytes = 0;  ///< of its area of kGradients, which begin as 0
};

/// Own keys and values that travel: they are packed before round 0.
struct Packed {
  Span keys;
  std::size_t offset;
};

/// Every head_ranks that is possible, or the one that the caller wants; one is chosen. Throws an
/// Error if the one that the caller wants is not possible.
std::vector<heed_mpi_choice> choices_of(const Problem& problem);

/// Plans of attention and of its gradients have all of this.
class Plan : public RankPlan {
 public:
  Communicator comm;
  const heed_context* context;  ///< held by dense plans
  Problem problem;
  std::vector<heed_mpi_choice> choices;
  int head_ranks = 1;
  HeadShare share = {};  ///< of this rank
  Exchange exchange;     ///< used where head_ranks is above 1
  std::vector<Slice> slices;
  std::vector<Packed> packed;
  std::vector<Round> rounds;
  std::vector<heed_attention_desc> forms;  ///< except for out and lse
  std::vector<std::size_t> sums_at;        ///< where in kSums the gradients of a span are
  double flops = 0;

  /// The layout of the workspace, in bytes.
  std::size_t areas[kAreas] = {}, area_bytes[kAreas] = {};
  std::size_t dense_at = 0, dense_bytes = 0;
  std::size_t lengths_at = 0;  ///< of keys, for a call
  std::size_t origin_at = 0;   ///< of its dropout
  std::size_t requests_at = 0, exchange_at = 0;

  const char* strategy() const;
  bool shares_heads() const { return head_ranks > 1; }
  std::int64_t first_head() const { return share.heads * (comm.rank() % head_ranks); }
  /// Sequences times heads: the problems that a dense call computes of each row.
  std::int64_t problems() const { return share.batch * share.heads; }
  /// Own keys: of the group, where heads are shared.
  const Spans& own_keys() const { return own_.keys; }

 protected:
  template <class Desc>
  Plan(const char* operation, MPI_Comm parent, const heed_context* given, const Desc* desc)
      : RankPlan(operation),
        comm(parent),
        context(given),
        problem(make_problem(comm, given, desc)) {
    comm.agreed([&] { plan(); });
  }

  /// A mask, a bias or its gradient as calls see it: `own`, or where its rows are exchanged among
  /// ranks that share heads, as it was gathered.
  heed_score_layout scores_of_calls(heed_score_layout own, const WholeScores& whole,
                                    const Tensor& gathered) const;
  /// Makes a dense plan.
  template <class DensePlan, class Desc>
  void make_dense_plan(std::vector<Owned<DensePlan>>& plans, const Desc& desc) {
    plans.push_back(make<DensePlan>(context, &desc));
    dense_bytes = std::max(dense_bytes, workspace_of(plans.back()));
  }
  std::int64_t query_rows() const { return rows_in(own_.queries); }
  /// Takes the buffers that both passes need, as the last of the workspace.
  void lay_out(Offsets& offsets);

 private:
  void plan();
  void plan_slices();
  void plan_rounds(const Ring& ring);
  void plan_gradients_back(const Ring& ring, std::size_t round);
  /// Calls without keys for slices that attend none: they have results, and gradients of sinks.
  void plan_unattended();
  void add_calls(Round& round, const Call& call);
  void add_own_calls(Round& round);
  std::size_t form_of(const Span& queries, const Span& keys, bool own);
  int member() const { return comm.rank() / head_ranks; }
  int rank_of(int other) const { return other * head_ranks + comm.rank() % head_ranks; }
  void need(std::size_t area, std::size_t bytes) {
    area_bytes[area] = std::max(area_bytes[area], bytes);
  }

  Shard own_;
  /// By rows, keys, whether they are own ones, and the offset.
  std::map<std::vector<std::int64_t>, std::size_t> form_index_;
};

}  // namespace heed::mpi

struct heed_mpi_attention_plan : heed::mpi::Plan {
  heed_mpi_attention_plan(MPI_Comm parent, const heed_context* given,
                          const heed_mpi_attention_desc* desc);
  /// Computes; collective.
  void run(const heed_attention_args* args, void* workspace, std::size_t bytes) const;

  std::vector<heed::mpi::Owned<heed_attention_plan>> dense;  ///< by form

  /// Offsets into the workspace.
  std::size_t out_at = 0, lse_at = 0;                  ///< of all slices, merged so far
  std::size_t merged_bytes = 0;                        ///< of both
  std::size_t partial_out_at = 0, partial_lse_at = 0;  ///< of one call
  std::size_t gathered_at = 0;                         ///< results of all ranks
  std::size_t pointers_at = 0;                         ///< to the partial results that are merged

 private:
  void plan_workspace();
};

struct heed_mpi_attention_backward_plan : heed::mpi::Plan {
  heed_mpi_attention_backward_plan(MPI_Comm parent, const heed_context* given,
                                   const heed_mpi_attention_backward_desc* desc);
  void run(const heed_attention_backward_args* args, void* workspace, std::size_t bytes) const;

  std::vector<heed::mpi::Owned<heed_attention_backward_plan>> dense;  ///< by form

  /// Offsets into the workspace, of sums in the arithmetic's type.
  std::size_t grad_query_at = 0;  ///< of all slices
  /// How the gradient of the bias lies there, or among the results that ranks which share heads
  /// exchange: with exchanges_bias.
  heed_score_layout grad_bias = {};
  std::size_t grad_bias_at = 0;
  bool exchanges_bias = false;
  /// A gradient of values that all ranks have together.
  struct Total {
    heed_mpi_gradients gradient;
    void* heed_attention_backward_args::*to;
    std::int64_t heads, of_head;  ///< so many values of each head
    std::size_t at = 0;
  };
  std::vector<Total> totals;                 ///< that are wanted
  std::size_t sums_begin = 0, sums_end = 0;  ///< all of these; they begin as 0
  /// The sums of all ranks, up to sums_end, as one piece for every rank.
  std::size_t shared_begin = 0, piece_bytes = 0;
  std::size_t pieces_at = 0;  ///< this rank's piece of every rank's sums
  std::size_t buffer_at = 0;  ///< for the values that gradients are added to

 private:
  void plan_workspace();
};
