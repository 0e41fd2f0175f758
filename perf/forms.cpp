// form/<workload>: every form of attention, in turns with the plain one.
#include "perf/forms.hpp"

#include <algorithm>
#include <memory>

#include "perf/catalogue.hpp"
#include "perf/contexts.hpp"
#include "perf/planned.hpp"
#include "perf/turns.hpp"

namespace heed::perf {

const std::vector<std::string> kFormWorkloads = {
    "B1_H16_L1024_D64_keys768",   "B1_H16_L1024_D64_causal",
    "B1_H16_L1024_D64_window256", "B1_H16_L1024_D64_causal_left511",
    "B1_H8_L8192_D64_window256",  "B1_H16_L1024_D64_sink",
    "B1_H16_L1024_D64_lse",       "B1_H16_L1024_D64_softcap30",
    "B1_H16_L1024_D64_alibi",     "B1_H16_L1024_D64_mask",
    "B1_H16_L1024_D64_headmask",  "B1_H16_L1024_D64_keymask",
    "B1_H16_L1024_D64_bias",      "B1_H16_L1024_D64_headbias",
    "B1_H16_L1024_D64_bf16",      "B1_H16_L1024_D64_f16",
    "B1_H16_L1024_D64_f64",       "B4_H16_L1024_D64_packed",
    "B1_H16_L1024_D64_hard",      "B1_H16_L1024_D64_score",
    "B1_H16_L1024_D64_sums",      "B1_H16_L1024_D64_weightrows16",
    "B1_H16_L1024_D64_weights",
};

namespace {

const char* const kNarrowWindow = "B1_H8_L8192_D64_window256";

/// The lowest of the options' targets; 0 where nothing is promised of one of them.
double rate_target(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  const bool promised = d.packed_queries == 0 && d.weights_point == HEED_WEIGHTS_NONE &&
                        d.sum_columns == 0 && d.hard == 0 && !workload.score_function;
  if (!promised || workload.name == workload.plain) return 0;
  const struct {
    bool given;
    double rate;
  } targets[] = {
      {workload.keys != 0, 0.95},
      {d.causal != HEED_CAUSAL_NONE, 0.95},
      {d.window != 0, 0.95},
      {workload.sinks, 0.95},
      {workload.lse, 0.95},
      {d.softcap != 0, 0.85},
      {workload.alibi, 0.85},
      {workload.mask, 0.85},
      {workload.bias, 0.80},
      {d.query.dtype == HEED_DTYPE_BF16, 0.90},
      {d.query.dtype == HEED_DTYPE_F16, 0.90},
      {d.query.dtype == HEED_DTYPE_F64, 0.40},
  };
  double lowest = 1;
  for (const auto& target : targets)
    if (target.given) lowest = std::min(lowest, target.rate);
  return lowest < 1 ? lowest : 0;
}

class FormRow {
 public:
  FormRow(const std::string& name, const Context& context)
      : form_(name, context),
        plain_(form_.workload().plain, context),
        target_(target_of(form_.workload())) {}

  const Planned& form() const { return form_; }

  void measure(benchmark::State& state) {
    Runner plain = plain_.prepare();
    Runner form = form_.prepare();
    const bool alone = form_.info().threads == 1 && plain_.info().threads == 1;
    report(state, time_in_turns(state, alone, form, plain));
  }

 private:
  void report(benchmark::State& state, const Turns& turns) const {
    state.counters["of_plain"] = form_.flops() / plain_.flops() / turns.of_time;
    state.counters["of_time"] = turns.of_time;
    if (target_.rate != 0) state.counters["rate_target"] = target_.rate;
    if (target_.time != 0) state.counters["time_target"] = target_.time;
    state.counters["gflops"] = form_.flops() / turns.form_seconds * 1e-9;
    state.counters["plain_gflops"] = plain_.flops() / turns.plain_seconds * 1e-9;
    count(form_.accuracy(), state.counters);
    state.counters["error_bound"] = form_.accuracy().bound;
    state.counters["workers"] = form_.info().threads;
    state.SetLabel(form_.label());
  }

  Planned form_;
  Planned plain_;
  Target target_;
};

}  // namespace

Target target_of(const Workload& workload) {
  if (workload.name == kNarrowWindow) return {0, 0.08};
  return {rate_target(workload), 0};
}

void add_form_rows(const Options& options) {
  for_each_case(options.shapes, options,
                [](const std::string& name, const Context& context, unsigned threads) {
                  const auto row = std::make_shared<FormRow>(name, context);
                  add_row(row->form().row("form", threads), benchmark::kMillisecond,
                          [=](benchmark::State& state) { row->measure(state); });
                });
}

}  // namespace heed::perf
