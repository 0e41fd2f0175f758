// decode/<workload>: few query rows over many keys, in turns with loops that only read those keys
// and their values, and with the same problem without pages or in float32.
#include <algorithm>
#include <string>
#include <vector>

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

/// Whether something is promised of how fast the workload reads.
bool is_promised(const Workload& workload, unsigned threads) {
  const heed_attention_desc& d = workload.desc;
  return is_standard(workload) && threads <= 2 && d.query_length == 1 && d.key_length >= 8192;
}

/// What is promised of keys and values of a type: of the plain loop's speed at least `read`,
/// `grouped` where each serves several query heads, and of the time of float32 ones at most
/// `float32`. 0: nothing.
struct Promises {
  double read;
  double grouped;
  double float32;
};

Promises promises_of(std::uint32_t dtype) {
  switch (dtype) {
    case HEED_DTYPE_F32:
      return {0.90, 0.90, 0};
    case HEED_DTYPE_BF16:
    case HEED_DTYPE_F16:
      return {0.80, 0.75, 0.60};
    case HEED_DTYPE_I8:
      return {0.65, 0.55, 0.45};
    default:
      return {0, 0, 0};
  }
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

/// What a problem is compared with: the counter of its time over that of the other, and what that
/// should be at most.
struct Comparison {
  const char* counter;
  const char* target;
  double most;
  Planned other;
};

class DecodeRow {
 public:
  DecodeRow(const std::string& name, const Options& /*options*/, const Context& context,
            unsigned threads)
      : problem_(name, context), threads_(threads) {
    const Workload& workload = problem_.workload();
    if (workload.desc.pages != 0)
      comparisons_.push_back(
          {"of_contiguous", "contiguous_target", 1.05, Planned(workload.contiguous, context)});
    else if (const std::uint32_t dtype = workload.desc.key.dtype;
             oracle::format_of(dtype).bytes < 4)
      comparisons_.push_back({"of_float32", "float32_target", promises_of(dtype).float32,
                              Planned(workload.float32, context)});
  }

  Row row() const {
    return row_of("decode", problem_.workload().name, problem_.info().isa, threads_,
                  problem_.tiles());
  }

  void measure(benchmark::State& state) {
    const Runner run = problem_.prepare();
    std::vector<Runner> others;
    for (Comparison& comparison : comparisons_) others.push_back(comparison.other.prepare());
    const Workload& workload = problem_.workload();
    const unsigned workers = problem_.info().threads;
    ReadMeter meter(peak_kernel_of(problem_.info().isa), workers, workload, tensors_of(workload));
    report(state, time_between_samples(state, workers == 1, meter, run, others), meter);
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
    if (const double rate = meter.table_rate(); rate != 0) {
      state.counters["table_gbps"] = rate * 1e-9;
      state.counters["of_table"] = bytes / timing.seconds / rate;
    }
    state.counters["tokens/s"] = tokens(workload) / timing.seconds;
    state.counters["call_us"] = timing.seconds / static_cast<double>(workload.layers) * 1e6;
    state.counters["gflops"] = problem_.flops() / timing.seconds * 1e-9;
    const bool promised = is_promised(workload, threads_);
    const heed_attention_desc& d = workload.desc;
    const Promises promises = promises_of(d.key.dtype);
    const double read = d.query_heads == d.key_heads ? promises.read : promises.grouped;
    if (promised && d.pages == 0 && read != 0) state.counters["read_target"] = read;
    if (const double call = call_target(workload); call != 0) state.counters["call_target"] = call;
    for (std::size_t n = 0; n < comparisons_.size(); ++n) {
      const Comparison& comparison = comparisons_[n];
      state.counters[comparison.counter] = timing.seconds / timing.beside[n];
      if (promised && comparison.most != 0) state.counters[comparison.target] = comparison.most;
    }
    count(problem_.accuracy(), problem_.info().threads, state.counters);
    state.SetLabel(problem_.label() + " " + problem_.info().strategy);
  }

  Planned problem_;
  std::vector<Comparison> comparisons_;
  unsigned threads_;
};

}  // namespace

void add_decode_rows(const Options& options) { add_cases<DecodeRow>(options.shapes, options); }

}  // namespace heed::perf
