// A workload over the first ranks: every member has its rows of the tensors, and a plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/heed_mpi.h"
#include "benchmark/benchmark.h"
#include "perf/accuracy.hpp"
#include "perf/contexts.hpp"
#include "perf/graph/problem.hpp"
#include "perf/ranks/world.hpp"

namespace heed::perf {

/// Throws what a call of heed_mpi.h refuses.
void check_mpi(heed_status status);

/// What a heed_mpi_..._describe says of it.
template <class T, class Info>
Info described(heed_status (*describe)(const T*, Info*), const T* it, Info info) {
  check_mpi(describe(it, &info));
  return info;
}

/// Of all members.
double most_of(double own, MPI_Comm comm);
double sum_of(double own, MPI_Comm comm);

/// Rows of a tensor by their numbers, laid out as its own are.
using RowNumbers = std::vector<std::int64_t>;
Tensor some_rows(const Tensor& of, const RowNumbers& rows);
/// Puts the rows of all members into a tensor of the first; the others' is not looked at.
void gather_rows(const Team& team, const Tensor& own, const RowNumbers& rows, Tensor* whole);

/// A run, on the rank that took longest and on the mean one; seconds.
struct Ran {
  double seconds;
  double compute;  ///< the most of any rank
  double mean_compute;
  double mean_wait;
  double longest_wait;  ///< of the rank that computes longest
};

/// Of a rank's own times, what all members' say; collective.
Ran ran_of(const heed_mpi_times& times, const Team& team);

/// What the first ranks have each a part of: planned, run and checked together.
class Shared {
 public:
  /// Collective, as is everything else; ranks that are no members do nothing.
  explicit Shared(int ranks) : team_(ranks) {}
  virtual ~Shared() = default;

  const Team& team() const { return team_; }
  Ran run();
  /// Of all results together, on the first rank, which must have been computed.
  const Accuracy& accuracy();

 private:
  /// A member's own run.
  virtual heed_mpi_times run_own() = 0;
  /// Brings what members have computed to the first.
  virtual void gather() = 0;
  /// Throws where that is off by more than it may be.
  virtual Accuracy compare() = 0;

  Team team_;
  std::unique_ptr<Accuracy> accuracy_;
};

/// What plans of all members say together.
struct Shares {
  std::string strategy;
  double flops;            ///< of all
  double most_flops;       ///< of a rank
  double bytes;            ///< sent by the rank that sends most
  double workspace_bytes;  ///< of the rank that needs most
  std::int64_t rounds;
};

class Ranked : public Shared {
 public:
  /// A causal workload is placed zigzag, any other in order of ranks. Throws where heed refuses it.
  Ranked(const std::string& workload, const Context& context, int ranks);

  /// Useful flops of all ranks.
  double work() const { return shares_.flops; }
  /// Seconds of a run's messages alone, where there are any.
  double exchange_seconds() const;
  void count(benchmark::State& state, const Ran& ran) const;
  std::string label() const { return shares_.strategy + (zigzag_ ? " zigzag" : " contiguous"); }
  /// Of two ranks of one thread each.
  static void promise(benchmark::State& state, const std::string& workload);
  /// With the length on each of so many ranks.
  static std::string on_each(const std::string& workload, int ranks);

 private:
  heed_mpi_times run_own() override;
  void gather() override;
  Accuracy compare() override;
  RowNumbers own_rows(std::int64_t length) const;
  void plan(const Context& context);
  void add_up(const heed_mpi_attention_info& info);

  Workload workload_;
  bool zigzag_;
  std::uint32_t precision_ = HEED_PRECISION_EXACT;  ///< in effect on one rank
  std::unique_ptr<oracle::Problem> whole_;  ///< the results are gathered there; on the first rank
  heed_attention_desc shard_;
  std::optional<Tensor> query_, key_, value_, out_, lse_;
  heed_attention_args args_ = HEED_ATTENTION_ARGS_INIT;
  std::shared_ptr<heed_mpi_attention_plan> plan_;
  std::unique_ptr<Workspace> workspace_;
  Shares shares_ = {};
};

/// The same over a graph; nodes are ranges of even work.
class RankedGraph : public Shared {
 public:
  RankedGraph(const std::string& workload, const Context& context, int ranks);

  /// Edges of all ranks.
  double work() const { return edges_; }
  /// Not measured alone: messages go to any ranks.
  double exchange_seconds() const { return 0; }
  void count(benchmark::State& state, const Ran& ran) const;
  std::string label() const { return "graph ranges"; }
  static void promise(benchmark::State& state, const std::string& workload);
  static std::string on_each(const std::string& workload, int ranks) {
    return times_as_many_nodes(workload, ranks);
  }

 private:
  heed_mpi_times run_own() override;
  void gather() override;
  Accuracy compare() override;
  void plan();
  void add_up(const heed_mpi_graph_info& graph, const heed_mpi_graph_attention_info& plan);

  GraphWorkload workload_;
  Context context_;
  std::shared_ptr<const Edges> all_edges_;
  std::unique_ptr<oracle::GraphProblem>
      whole_;         ///< the results are gathered there; on the first rank
  RowNumbers nodes_;  ///< own ones
  std::optional<Tensor> query_, key_, value_, out_;
  heed_graph_attention_args args_ = HEED_GRAPH_ATTENTION_ARGS_INIT;
  std::shared_ptr<heed_mpi_graph_attention_plan> plan_;
  std::unique_ptr<Workspace> workspace_;
  double edges_ = 0, most_edges_ = 0, inner_edges_ = 0, remote_rows_ = 0;
  double bytes_ = 0, workspace_bytes_ = 0;
};

}  // namespace heed::perf
