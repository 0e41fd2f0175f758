// What a rank does in a run: the dense calls, and what travels between them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/mpi/choice.hpp"
#include "engine/mpi/communicator.hpp"
#include "engine/mpi/exchange.hpp"
#include "engine/mpi/problem.hpp"
#include "engine/mpi/ring.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed::mpi {

/// The query rows of one dense call, between two looks at what arrives. Their results so far lie
/// side by side, [batch, heads, rows, features], after those of the slices before.
struct Slice {
  Span queries;
  bool attended;  ///< some key attends; else its rows are 0
};

/// What messages are sent from and received in. While a rank computes with keys and gradients in
/// one of two buffers, it sends what is in the other, or receives there. In the arithmetic's type:
/// gradients of others' keys and values, such gradients of own ones that arrive, and their sums.
enum Area : std::size_t { kKeys, kGradients = kKeys + 2, kArrived = kGradients + 2, kSums, kAreas };

/// Bytes of an area, from an offset on.
struct Place {
  std::size_t area, offset;
};
inline std::size_t area_of(Area first, std::size_t round) { return first + round % 2; }

/// One dense call.
struct Call {
  std::size_t slice;
  std::size_t form;  ///< of the plan's, which calls that are alike share
  Span keys;
  Place parcel;     ///< keys and values; of own ones not used: those are read where they lie
  Place gradients;  ///< theirs, where they are wanted
  bool own;
  bool first;  ///< of its slice: there is nothing to merge with
};

struct Message {
  int rank;
  int tag;
  Place place;
  std::size_t bytes;
};

/// Of kArrived, to be added to kSums.
struct Addition {
  std::size_t from, to, bytes;
};

/// What travels while a rank computes. In the end additions are made of what has arrived.
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

/// What plans of attention and of its gradients have in common.
class Plan {
 public:
  template <class Desc>
  Plan(MPI_Comm parent, const heed_context* given, const Desc* desc)
      : comm(parent), context(given), problem(make_problem(comm, given, desc)) {
    comm.agreed([&] { plan(); });
  }

  Communicator comm;
  const heed_context* context;  ///< held by dense plans
  Problem problem;
  std::vector<heed_mpi_choice> choices;
  int head_ranks = 1;
  heed_score_layout mask = {}, bias = {};  ///< of calls: of this rank's heads, and where they are
                                           ///< shared all rows of the group
  std::int64_t heads = 0, key_heads = 0;   ///< that this rank computes
  bool verbose = false;

  Exchange exchange;  ///< used where head_ranks is above 1
  std::vector<Slice> slices;
  std::vector<Packed> packed;
  std::vector<Round> rounds;
  std::vector<heed_attention_desc> forms;  ///< but for out and lse
  std::vector<std::size_t> sums_at;        ///< where in kSums the gradients of a span are
  double flops = 0;
  double sent_bytes = 0;
  mutable heed_mpi_times times = HEED_MPI_TIMES_INIT;  ///< of the latest run

  /// The layout of the workspace, in bytes.
  std::size_t areas[kAreas] = {}, area_bytes[kAreas] = {};
  std::size_t dense_at = 0, dense_bytes = 0;
  std::size_t lengths_at = 0;  ///< of keys, for a call
  std::size_t requests_at = 0, exchange_at = 0;
  std::size_t workspace_bytes = 0;

  const char* strategy() const;
  std::int64_t first_head() const { return heads * (comm.rank() % head_ranks); }
  /// Own keys: of the group, where heads are shared.
  const Spans& own_keys() const { return own_.keys; }
  /// Rows of queries' or keys' tensors that this rank computes.
  Extent extent(const Rows& rows, std::int64_t count) const {
    return {problem.desc.batch, rows.of_keys ? key_heads : heads, count, rows.features};
  }
  /// Keys and then values of a span, as they travel.
  RowsList keys_and_values() const {
    const heed_attention_desc& d = problem.desc;
    return {{true, d.key.dtype, d.features}, {true, d.value.dtype, d.value_features}};
  }
  /// Tensors of so many rows, one after the other, each from a multiple of kUnitBytes on.
  Tensors parcel(const RowsList& list, std::byte* at, std::int64_t rows) const;
  std::size_t parcel_bytes(const RowsList& list, std::int64_t rows) const;
  std::int64_t query_rows() const;

 protected:
  /// A mask, a bias or its gradient as calls see it: `own`, or where its rows are exchanged among
  /// ranks that share heads, which lies as gathered[index].
  heed_score_layout scores_of_calls(heed_score_layout own, const WholeScores& whole,
                                    const Tensors& gathered, std::size_t index) const;
  /// Makes the dense plan of every form: `complete` says what is there besides.
  template <class DensePlanOf, class Complete>
  void make_dense_plans(std::vector<DensePlanOf>& plans, Complete&& complete) {
    for (heed_attention_desc& form : forms) {
      plans.push_back(complete(form));
      std::size_t bytes = 0;
      workspace_of(plans.back(), bytes);
      dense_bytes = std::max(dense_bytes, bytes);
    }
  }
  /// Takes what both passes need, as the last of the workspace.
  void lay_out(Offsets& offsets);

 private:
  static void workspace_of(const DensePlan& plan, std::size_t& bytes) {
    check(heed_attention_plan_workspace(plan.get(), &bytes));
  }
  static void workspace_of(const DenseBackwardPlan& plan, std::size_t& bytes) {
    check(heed_attention_backward_plan_workspace(plan.get(), &bytes));
  }
  void plan();
  void plan_slices();
  void plan_rounds(const Ring& ring);
  void plan_alone();
  void plan_gradients_back(const Ring& ring, std::size_t round);
  /// Gradients that rounds leave even for queries that attend no key: of sinks.
  void plan_unattended();
  void add_calls(Round& round, const Call& call);
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
