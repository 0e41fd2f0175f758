// backward/<workload>: gradients of attention and of blocks, in turns with the forward run, and
// with one thread.
#include <memory>
#include <string>
#include <vector>

#include "perf/backward/problem.hpp"
#include "perf/block/problem.hpp"
#include "perf/catalogue.hpp"
#include "perf/peak.hpp"

namespace heed::perf {
namespace {

/// What is promised of the FMA peak on one thread; 0: nothing.
double peak_target(const std::string& workload) {
  const struct {
    const char* workload;
    double of_peak;
  } promises[] = {
      {"B1_H8_L4096_D128", 0.75}, {"B1_H1_L4096_D128", 0.75}, {"B1_H8_L4096_D128_causal", 0.70},
      {"B1_H16_L1024_D64", 0.68}, {"B32_H12_L128_D64", 0.55},
  };
  for (const auto& promise : promises)
    if (workload == promise.workload) return promise.of_peak;
  return 0;
}

constexpr double kSpeedup = 1.9;  // two threads over one, where the peak is promised

/// Of dense attention, or of a block: Gradients or BlockGradients.
template <class Differentiated>
class BackwardRow {
 public:
  BackwardRow(const std::string& name, const Options& options, const Context& context,
              unsigned threads)
      : gradients_(name, context), threads_(threads) {
    if (threads > 1)
      alone_ = std::make_unique<Differentiated>(name, make_context(options, gradients_.isa(), 1));
  }

  Row row() const {
    return row_of("backward", gradients_.workload().name, gradients_.isa(), threads_,
                  gradients_.tiles());
  }

  void measure(benchmark::State& state) {
    const Runner run = gradients_.prepare();
    std::vector<Runner> others = {gradients_.prepare_forward()};
    if (alone_ != nullptr) others.push_back(alone_->prepare());
    report(state, time_between_peaks(state, peak_kernel_of(gradients_.isa()), threads_, run, others,
                                     gradients_.multiplies_pairs()));
  }

 private:
  void report(benchmark::State& state, const Timing& timing) const {
    const double forward = timing.beside[0];
    count_rate(state.counters, gradients_.flops(), timing.seconds, timing.peak);
    count_rate(state.counters, gradients_.forward_flops(), forward, timing.peak, "forward_");
    state.counters["of_forward"] = (forward + timing.seconds) / forward;
    state.counters["workspace_mbytes"] =
        static_cast<double>(gradients_.info().workspace_bytes) * 1e-6;
    if (gradients_.kept_bytes() > 0)
      state.counters["kept_mbytes"] = static_cast<double>(gradients_.kept_bytes()) * 1e-6;
    if (alone_ != nullptr) state.counters["speedup"] = timing.beside[1] / timing.seconds;
    const double peak = peak_target(gradients_.workload().name);
    if (peak != 0 && threads_ == 1) state.counters["peak_target"] = peak;
    if (peak != 0 && threads_ == 2) state.counters["speedup_target"] = kSpeedup;
    count(gradients_.accuracy(), gradients_.info().threads, state.counters);
    state.SetLabel(gradients_.label());
  }

  Differentiated gradients_;
  unsigned threads_;
  std::unique_ptr<Differentiated> alone_;
};

}  // namespace

void add_backward_rows(const Options& options) {
  add_cases<BackwardRow<Gradients>>(options.shapes, options);
  add_cases<BackwardRow<BlockGradients>>(options.block_shapes, options);
}

}  // namespace heed::perf
