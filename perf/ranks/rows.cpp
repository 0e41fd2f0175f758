// strong/<workload>/ranks:<n> and weak/<workload>/ranks:<n>: attention over the ranks of MPI, in
// turns with one rank.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "perf/catalogue.hpp"
#include "perf/ranks/problem.hpp"

namespace heed::perf {
namespace {

/// The row that something is promised of, on two ranks of one thread each.
constexpr const char* kPromised = "B1_H1_L131072_D128_causal";

class RankRow {
 public:
  RankRow(bool weak, const std::string& shape, const Options& options, const std::string& isa,
          unsigned threads, int ranks)
      : weak_(weak),
        shape_(shape),
        context_(make_context(options, isa, threads)),
        threads_(threads),
        ranks_(ranks) {}

  Row row() const {
    const std::string kind = weak_ ? "weak" : "strong";
    Row row =
        row_of(kind, shape_ + "/ranks:" + std::to_string(ranks_), describe(context_).isa, threads_);
    row.subject = kind + " " + row.subject;
    return row;
  }

  void measure(benchmark::State& state) {
    // Of all rows these tensors alone are in memory.
    const auto split = kept<Ranked, 2>(row().name, weak_ ? times_as_long(shape_, ranks_) : shape_,
                                       context_, ranks_);
    const auto alone =
        ranks_ == 1 ? split : kept<Ranked, 2>(row().name + " alone", shape_, context_, 1);
    Ran one = {};
    Ran all = {};
    double exchange = 0;
    for (auto _ : state) {
      if (ranks_ > 1) one = alone->run();
      all = split->run();
      if (ranks_ > 1) exchange = exchange_seconds_of(*split);
      state.SetIterationTime(all.seconds);
    }
    const Network network = measure_network(split->team());
    const int cores = World::processors();
    count(split->accuracy(), threads_, state.counters);
    if (World::rank() != 0) return;
    report(state, *split, all, cores);
    if (ranks_ == 1) return;
    const double rate = alone->shares().flops / one.seconds;
    const double efficiency = split->shares().flops / all.seconds / ranks_ / rate;
    state.counters["efficiency"] = efficiency;
    if (!weak_) state.counters["speedup"] = one.seconds / all.seconds;
    state.counters["exchange_ms"] = exchange * 1e3;
    if (split->shares().bytes > 0) state.counters["hidden"] = 1 - all.longest_wait / exchange;
    state.counters["latency_us"] = network.latency * 1e6;
    state.counters["network_gbps"] = network.rate * 1e-9;
    if (!weak_ && shape_ == kPromised && ranks_ == 2 && threads_ == 1 && cores > 1) promise(state);
  }

 private:
  /// The messages of a run alone.
  static double exchange_seconds_of(const Ranked& split) {
    const auto rounds = static_cast<int>(std::max<std::int64_t>(split.shares().rounds - 1, 0));
    return exchange_seconds(split.team(), rounds,
                            rounds > 0 ? split.shares().bytes / rounds / 2 : 0);
  }

  void report(benchmark::State& state, const Ranked& split, const Ran& ran, int cores) const {
    const Shares& shares = split.shares();
    state.counters["ranks"] = ranks_;
    state.counters["cores"] = cores;
    state.counters["gflop"] = shares.flops * 1e-9;
    state.counters["gflops"] = shares.flops / ran.seconds * 1e-9;
    state.counters["balance"] = shares.most_flops * ranks_ / shares.flops;
    state.counters["compute_ms"] = ran.compute * 1e3;
    state.counters["mean_compute_ms"] = ran.mean_compute * 1e3;
    state.counters["wait_ms"] = ran.mean_wait * 1e3;
    state.counters["exposed_ms"] = ran.longest_wait * 1e3;
    state.counters["mpi_ms"] = (ran.seconds - ran.compute - ran.longest_wait) * 1e3;
    state.counters["rounds"] = static_cast<double>(shares.rounds);
    state.counters["sent_mbytes"] = shares.bytes * 1e-6;
    state.counters["workspace_mbytes"] = shares.workspace_bytes * 1e-6;
    const bool shared = ranks_ * static_cast<int>(threads_) > cores;
    state.SetLabel(shares.strategy + " " + split.placement() + (shared ? " OVERSUBSCRIBED" : ""));
  }

  static void promise(benchmark::State& state) {
    state.counters["speedup_target"] = 1.85;
    state.counters["hidden_target"] = 0.9;
    state.counters["balance_target"] = 1.05;
  }

  bool weak_;
  std::string shape_;
  Context context_;
  unsigned threads_;
  int ranks_;
};

void add(bool weak, const std::vector<std::string>& shapes, const Options& options) {
  const std::vector<std::string> automatic = {""};
  for (const std::string& shape : shapes)
    for (const std::string& isa : options.isas.empty() ? automatic : options.isas)
      for (const unsigned threads : options.threads)
        for (const int ranks : options.ranks) {
          const auto it = std::make_shared<RankRow>(weak, shape, options, isa, threads, ranks);
          add_timed_row(it->row(), [it](benchmark::State& state) { it->measure(state); });
        }
}

}  // namespace

void add_rank_rows(const Options& options) {
  add(false, options.shapes, options);
  add(true, options.weak_shapes, options);
}

}  // namespace heed::perf
