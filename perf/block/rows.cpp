// block/<workload>: whole multi-head blocks, and their projections and attention apart.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "perf/block/problem.hpp"
#include "perf/catalogue.hpp"
#include "perf/peak.hpp"
#include "perf/planned.hpp"

namespace heed::perf {
namespace {

// What the project promises of the standard blocks; 0: nothing.

double peak_target(const Workload& workload, unsigned threads) {
  if (threads != 1) return 0;
  if (workload.name == "B1_H12_L128_D64_W768") return 0.65;
  const bool large = workload.name == "B8_H12_L512_D64_W768" ||
                     workload.name == "B1_H32_Hkv8_L512_D128_W4096_nobias";
  return large ? 0.80 : 0;
}

double speedup_target(const Workload& workload, unsigned threads) {
  const auto& standard = kBlockWorkloads;
  const bool promised =
      std::find(standard.begin(), standard.end(), workload.name) != standard.end();
  return promised && threads == 2 ? 1.85 : 0;
}

/// A block, the same attention without projections, and the block on one thread, in turns.
class BlockRow {
 public:
  BlockRow(const std::string& name, const Options& options, const Context& context,
           unsigned threads)
      : block_(name, context), attention_(block_.workload().attention, context), threads_(threads) {
    if (threads > 1) alone_ = std::make_unique<Block>(name, make_context(options, block_.isa(), 1));
  }

  Row row() const { return row_of("block", block_.workload().name, block_.isa(), threads_); }

  void measure(benchmark::State& state) {
    const Runner block = block_.prepare();
    std::vector<Runner> others = {attention_.prepare()};
    if (alone_ != nullptr) others.push_back(alone_->prepare());
    report(state, time_between_peaks(state, peak_kernel_of(block_.isa()), threads_, block, others));
  }

 private:
  void report(benchmark::State& state, const Timing& timing) const {
    const heed_multihead_info& info = block_.info();
    const double attention = timing.beside[0];
    const auto rate = [&](const std::string& prefix, double flops, double seconds) {
      count_rate(state.counters, flops, seconds, timing.peak, prefix);
    };
    rate("", info.projection_flops + attention_.flops(), timing.seconds);
    rate("projection_", info.projection_flops, timing.seconds - attention);
    rate("attention_", attention_.flops(), attention);
    if (alone_ != nullptr) state.counters["speedup"] = timing.beside[1] / timing.seconds;
    const double peak = peak_target(block_.workload(), threads_);
    const double speedup = speedup_target(block_.workload(), threads_);
    if (peak != 0) state.counters["peak_target"] = peak;
    if (speedup != 0) state.counters["speedup_target"] = speedup;
    count(block_.accuracy(), info.threads, state.counters);
    state.SetLabel(std::string(info.isa) + " product " + info.product + " " + info.executor);
  }

  Block block_;
  Planned attention_;
  unsigned threads_;
  std::unique_ptr<Block> alone_;
};

}  // namespace

void add_block_rows(const Options& options) { add_cases<BlockRow>(options.block_shapes, options); }

}  // namespace heed::perf
