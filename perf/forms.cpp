// form/<workload>: every form of attention, in turns with the plain one.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "perf/catalogue.hpp"
#include "perf/planned.hpp"
#include "perf/turns.hpp"

namespace heed::perf {

namespace {

const char* const kNarrowWindow = "B1_H8_L8192_D64_window256";

/// At most this much of the plain workload's time; 0: nothing is promised.
double time_target(const Workload& workload) { return workload.name == kNarrowWindow ? 0.08 : 0; }

bool ragged(const std::vector<std::int32_t>& lengths) {
  return std::adjacent_find(lengths.begin(), lengths.end(), std::not_equal_to<>()) != lengths.end();
}

/// At least this much of its rate of useful flops, the lowest of the options' targets; 0 where
/// nothing is promised of one of them.
double rate_target(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  const bool promised = time_target(workload) == 0 && d.packed_queries == 0 &&
                        d.weights_point == HEED_WEIGHTS_NONE && d.sum_columns == 0 && d.hard == 0 &&
                        !workload.score_function && !ragged(workload.key_lengths);
  if (!promised || workload.name == workload.plain) return 0;
  const struct {
    bool given;
    double rate;
  } targets[] = {
      {!workload.key_lengths.empty(), 0.95},
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
  FormRow(const std::string& name, const Options& /*options*/, const Context& context,
          unsigned threads)
      : form_(name, context), plain_(form_.workload().plain, context), threads_(threads) {}

  Row row() const {
    return row_of("form", form_.workload().name, form_.info().isa, threads_, form_.tiles());
  }

  void measure(benchmark::State& state) {
    const Runner plain = plain_.prepare();
    const Runner form = form_.prepare();
    const bool alone = form_.info().threads == 1 && plain_.info().threads == 1;
    report(state, time_in_turns(state, alone, form, plain));
  }

 private:
  void report(benchmark::State& state, const Turns& turns) const {
    state.counters["of_plain"] = form_.flops() / plain_.flops() / turns.of_time;
    state.counters["of_time"] = turns.of_time;
    const double rate = rate_target(form_.workload());
    const double time = time_target(form_.workload());
    if (rate != 0) state.counters["rate_target"] = rate;
    if (time != 0) state.counters["time_target"] = time;
    state.counters["gflops"] = form_.flops() / turns.form_seconds * 1e-9;
    state.counters["plain_gflops"] = plain_.flops() / turns.plain_seconds * 1e-9;
    count(form_.accuracy(), form_.info().threads, state.counters);
    state.SetLabel(form_.label());
  }

  Planned form_;
  Planned plain_;
  unsigned threads_;
};

}  // namespace

void add_form_rows(const Options& options) { add_cases<FormRow>(options.shapes, options); }

}  // namespace heed::perf
