// form/<workload>: every form of attention, in turns with the plain one.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "perf/catalogue.hpp"
#include "perf/peak.hpp"
#include "perf/planned.hpp"

namespace heed::perf {

namespace {

double median_of(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const std::size_t middle = numbers.size() / 2;
  return numbers.size() % 2 != 0 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}

/// Medians over the turns of one repetition.
struct Turns {
  double form_seconds;   ///< per call
  double plain_seconds;  ///< per call
  double of_time;        ///< of the ratios of a turn of the form to those of plain around it
};

/// The timed loop of one repetition: plain, form, plain, form, ..., plain. A turn of the form is
/// over when it has run for kTurn and for a quarter of the latest turn of plain; plain then runs as
/// long, but at least once. Google Benchmark sees the form alone.
template <class Form, class Plain>
Turns time_in_turns(benchmark::State& state, bool alone, Form&& form, Plain&& plain) {
  constexpr double kTurn = 0.02;
  Stopwatch watch(alone);
  std::vector<double> forms;
  std::vector<double> plains;
  double plain_turn = 0;  // seconds
  const auto run_plain = [&](double seconds) {
    const Clock::time_point start = Clock::now();
    int calls = 0;
    watch.start();
    do {
      plain();
      ++calls;
      plain_turn = seconds_since(start);
    } while (plain_turn < seconds);
    plains.push_back(watch.seconds() / calls);
  };
  run_plain(kTurn);
  Clock::time_point start = Clock::now();
  int calls = 0;
  watch.start();
  for (auto _ : state) {
    form();
    ++calls;
    const double turn = seconds_since(start);
    if (turn < std::max(kTurn, plain_turn / 4)) continue;
    state.PauseTiming();
    forms.push_back(watch.seconds() / calls);
    run_plain(turn);
    calls = 0;
    start = Clock::now();
    watch.start();
    state.ResumeTiming();
  }
  if (calls > 0) {
    const double rest = watch.seconds();
    run_plain(seconds_since(start));
    forms.push_back(rest / calls);
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < forms.size(); ++i)
    ratios.push_back(forms[i] / ((plains[i] + plains[i + 1]) / 2));
  return {median_of(forms), median_of(plains), median_of(ratios)};
}

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
                        d.score == HEED_SCORE_DOT && !workload.score_function &&
                        !ragged(workload.key_lengths);
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
      {d.dropout != 0, d.features < 128 ? 0.91 : 0.94},
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
