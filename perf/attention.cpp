// attention/<workload>: whole problems through the C API.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "perf/accuracy.hpp"
#include "perf/catalogue.hpp"
#include "perf/contexts.hpp"
#include "perf/peak.hpp"
#include "perf/workload.hpp"

namespace heed::perf {
namespace {

class AttentionRow {
 public:
  AttentionRow(Workload workload, const Context& context, unsigned threads)
      : workload_(std::move(workload)),
        threads_(threads),
        plan_(make_plan(context, workload_.desc)),
        info_(describe(plan_)) {}

  Row row() const {
    const std::string isa = info_.isa;
    return {"attention/" + workload_.name + "/threads:" + std::to_string(threads_) + "/isa:" + isa,
            workload_.name, isa, threads_, tiles()};
  }

  void measure(benchmark::State& state) {
    Tensors& tensors = tensors_of(workload_);
    const heed_attention_args args = tensors.args();
    Buffer workspace((info_.workspace_bytes + sizeof(float) - 1) / sizeof(float));
    const auto run = [&] {
      return heed_attention_plan_run(plan_.get(), &args, workspace.data(), info_.workspace_bytes);
    };
    if (!checked_) {
      check(run());
      accuracy_ = check_accuracy(workload_, tensors);
      checked_ = true;
    }
    if (!accuracy_.within)
      return fail_row(state, "max_error " + to_text(accuracy_.max_error) +
                                 " exceeds the derived bound " + to_text(accuracy_.bound));
    heed_status status = HEED_STATUS_OK;
    const Timing timing =
        time_between_peaks(state, peak_kernel_of(info_.isa), threads_, [&] { status = run(); });
    check(status);
    report(state, timing);
  }

 private:
  std::string tiles() const {
    return std::to_string(info_.tile_q) + "x" + std::to_string(info_.tile_kv);
  }

  static std::string to_text(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", x);
    return text;
  }

  void report(benchmark::State& state, const Timing& timing) const {
    const double rate = info_.flops / timing.seconds;
    state.counters["gflops"] = rate * 1e-9;
    state.counters["of_peak"] = rate / timing.peak;
    state.counters["peak_gflops"] = timing.peak * 1e-9;
    state.counters["max_error"] = accuracy_.max_error;
    state.counters["error_bound"] = accuracy_.bound;
    state.counters["workers"] = info_.threads;
    if (workload_.desc.query_length == 1)
      state.counters["gbps"] = key_value_bytes(workload_) / timing.seconds * 1e-9;
    state.SetLabel(std::string(info_.isa) + " tiles " + tiles() + " " + info_.executor);
  }

  Workload workload_;
  unsigned threads_;
  Plan plan_;
  heed_attention_info info_;
  Accuracy accuracy_{};
  bool checked_ = false;
};

}  // namespace

void add_attention_rows(const Options& options) {
  const std::vector<std::string> isas =
      options.isas.empty() ? std::vector<std::string>{""} : options.isas;
  for (const std::string& name : options.shapes)
    for (const std::string& isa : isas)
      for (const unsigned threads : options.threads) {
        const Context context = make_context(options, isa, threads);
        const auto row = std::make_shared<AttentionRow>(parse_workload(name), context, threads);
        add_row(row->row(), benchmark::kMillisecond,
                [row](benchmark::State& state) { row->measure(state); });
      }
}

}  // namespace heed::perf
