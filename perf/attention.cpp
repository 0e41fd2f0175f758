// attention/<workload>: whole problems through the C API.
#include <string>

#include "perf/catalogue.hpp"
#include "perf/peak.hpp"
#include "perf/planned.hpp"

namespace heed::perf {
namespace {

class AttentionRow {
 public:
  AttentionRow(const std::string& name, const Options& /*options*/, const Context& context,
               unsigned threads)
      : problem_(name, context), threads_(threads) {}

  Row row() const {
    return row_of("attention", problem_.workload().name, problem_.info().isa, threads_,
                  problem_.tiles());
  }

  void measure(benchmark::State& state) {
    const Runner run = problem_.prepare();
    const PeakKernel& peak = peak_kernel_of(problem_.info().isa);
    const Timing timing =
        time_between_peaks(state, peak, threads_, run, {}, problem_.multiplies_pairs());
    count_rate(state.counters, problem_.flops(), timing.seconds, timing.peak);
    count(problem_.accuracy(), problem_.info().threads, state.counters);
    if (problem_.workload().desc.query_length == 1)
      state.counters["gbps"] = key_value_bytes(problem_.workload()) / timing.seconds * 1e-9;
    state.SetLabel(problem_.label());
  }

 private:
  Planned problem_;
  unsigned threads_;
};

}  // namespace

void add_attention_rows(const Options& options) {
  add_cases<AttentionRow>(options.shapes, options);
}

}  // namespace heed::perf
