// decode/<workload>: few query rows over many keys, in turns with loops that only read those keys
// and their values.
#include <algorithm>
#include <string>

#include "perf/catalogue.hpp"
#include "perf/decode/reading.hpp"
#include "perf/peak.hpp"
#include "perf/planned.hpp"

namespace heed::perf {
namespace {

bool is_standard(const Workload& workload) {
  const auto& standard = kDecodeWorkloads;
  return std::find(standard.begin(), standard.end(), workload.name) != standard.end();
}

/// At least this much of the plain loop's speed; 0: nothing is promised.
double read_target(const Workload& workload, unsigned threads) {
  const heed_attention_desc& d = workload.desc;
  if (!is_standard(workload) || threads > 2 || d.query_length != 1 || d.key_length < 8192) return 0;
  if (d.key.dtype == HEED_DTYPE_F32) return 0.90;
  return d.query_heads == d.key_heads ? 0.80 : 0.75;
}

/// At most this many microseconds for a call; 0: nothing is promised.
double call_target(const Workload& workload) {
  return workload.name == "B1_H1_Lq1_Lkv128_D128" ? 3 : 0;
}

/// New tokens that a run computes attention of: its query rows.
double tokens(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  return static_cast<double>(d.packed_queries != 0 ? d.packed_queries : d.batch * d.query_length);
}

class DecodeRow {
 public:
  DecodeRow(const std::string& name, const Options& /*options*/, const Context& context,
            unsigned threads)
      : problem_(name, context), threads_(threads) {}

  Row row() const {
    return row_of("decode", problem_.workload().name, problem_.info().isa, threads_,
                  problem_.tiles());
  }

  void measure(benchmark::State& state) {
    const Runner run = problem_.prepare();
    const Workload& workload = problem_.workload();
    const unsigned workers = problem_.info().threads;
    ReadMeter meter(peak_kernel_of(problem_.info().isa), workers, workload, tensors_of(workload));
    const Timing timing = time_between_samples(state, workers == 1, meter, run);
    report(state, timing, meter);
  }

 private:
  void report(benchmark::State& state, const Timing& timing, const ReadMeter& meter) const {
    const Workload& workload = problem_.workload();
    const double bytes = key_value_bytes(workload);
    state.counters["mbytes"] = meter.bytes() * 1e-6;
    state.counters["gbps"] = bytes / timing.seconds * 1e-9;
    state.counters["read_gbps"] = meter.rate() * 1e-9;
    state.counters["spread_gbps"] = meter.spread_rate() * 1e-9;
    state.counters["of_read"] = bytes / timing.seconds / meter.rate();
    state.counters["of_spread"] = bytes / timing.seconds / meter.spread_rate();
    state.counters["tokens/s"] = tokens(workload) / timing.seconds;
    state.counters["call_us"] = timing.seconds / static_cast<double>(workload.layers) * 1e6;
    state.counters["gflops"] = problem_.flops() / timing.seconds * 1e-9;
    const double read = read_target(workload, threads_);
    const double call = call_target(workload);
    if (read != 0) state.counters["read_target"] = read;
    if (call != 0) state.counters["call_target"] = call;
    count(problem_.accuracy(), problem_.info().threads, state.counters);
    state.SetLabel(problem_.label() + " " + problem_.info().strategy);
  }

  Planned problem_;
  unsigned threads_;
};

}  // namespace

void add_decode_rows(const Options& options) { add_cases<DecodeRow>(options.shapes, options); }

}  // namespace heed::perf
