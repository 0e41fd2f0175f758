// strong/<workload>/ranks:<n> and weak/<workload>/ranks:<n>: attention, and attention over graphs,
// over the ranks of MPI, in turns with one rank.
#include <memory>
#include <string>
#include <vector>

#include "perf/catalogue.hpp"
#include "perf/ranks/problem.hpp"

namespace heed::perf {
namespace {

/// Of a Ranked or a RankedGraph.
template <class Split>
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
    const auto split = kept<Split, 2>(row().name, [&] {
      return Split(weak_ ? Split::on_each(shape_, ranks_) : shape_, context_, ranks_);
    });
    const auto alone = ranks_ == 1 ? split : kept<Split, 2>(row().name + " alone", [&] {
      return Split(shape_, context_, 1);
    });
    Ran one = {};
    Ran all = {};
    double exchange = 0;
    // The first run of a workload meets pages that nobody has touched; no repetition counts it.
    if (!touched_ && ranks_ > 1) alone->run();
    if (!touched_) split->run();
    touched_ = true;
    for (auto _ : state) {
      if (ranks_ > 1) one = alone->run();
      all = split->run();
      if (ranks_ > 1) exchange = split->exchange_seconds();
      state.SetIterationTime(all.seconds);
    }
    const Network network = measure_network(split->team());
    const int cores = World::processors();
    count(split->accuracy(), threads_, state.counters);
    if (World::rank() != 0) return;
    report(state, *split, all, cores);
    if (ranks_ == 1) return;
    const double rate = alone->work() / one.seconds;
    state.counters["efficiency"] = split->work() / all.seconds / ranks_ / rate;
    if (!weak_) state.counters["speedup"] = one.seconds / all.seconds;
    if (exchange > 0) {
      state.counters["exchange_ms"] = exchange * 1e3;
      state.counters["hidden"] = 1 - all.longest_wait / exchange;
    }
    state.counters["latency_us"] = network.latency * 1e6;
    state.counters["network_gbps"] = network.rate * 1e-9;
    if (!weak_ && ranks_ == 2 && threads_ == 1 && cores > 1) Split::promise(state, shape_);
  }

 private:
  void report(benchmark::State& state, const Split& split, const Ran& ran, int cores) const {
    state.counters["ranks"] = ranks_;
    state.counters["cores"] = cores;
    state.counters["compute_ms"] = ran.compute * 1e3;
    state.counters["mean_compute_ms"] = ran.mean_compute * 1e3;
    state.counters["wait_ms"] = ran.mean_wait * 1e3;
    state.counters["exposed_ms"] = ran.longest_wait * 1e3;
    state.counters["mpi_ms"] = (ran.seconds - ran.compute - ran.longest_wait) * 1e3;
    split.count(state, ran);
    const bool shared = ranks_ * static_cast<int>(threads_) > cores;
    state.SetLabel(split.label() + (shared ? " OVERSUBSCRIBED" : ""));
  }

  bool weak_;
  std::string shape_;
  Context context_;
  unsigned threads_;
  int ranks_;
  bool touched_ = false;
};

template <class Split>
void add(bool weak, const std::vector<std::string>& shapes, const Options& options) {
  const std::vector<std::string> automatic = {""};
  for (const std::string& shape : shapes)
    for (const std::string& isa : options.isas.empty() ? automatic : options.isas)
      for (const unsigned threads : options.threads)
        for (const int ranks : options.ranks) {
          const auto it =
              std::make_shared<RankRow<Split>>(weak, shape, options, isa, threads, ranks);
          add_timed_row(it->row(), [it](benchmark::State& state) { it->measure(state); });
        }
}

}  // namespace

void add_rank_rows(const Options& options) {
  add<Ranked>(false, options.shapes, options);
  add<Ranked>(true, options.weak_shapes, options);
  add<RankedGraph>(false, options.graph_shapes, options);
  add<RankedGraph>(true, options.weak_graph_shapes, options);
}

}  // namespace heed::perf
