// Two problems timed in turns: the only way in which times on a shared machine can be compared.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "perf/peak.hpp"

namespace heed::perf {

inline double median_of(std::vector<double> numbers) {
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

}  // namespace heed::perf
