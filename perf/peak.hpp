// The FMA peak of an instruction set on some threads, measured where and when it is needed.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <string>

#include "perf/peak/table.hpp"

namespace heed::perf {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The time of the calling thread on its CPU where it works alone, so that what other programs do
/// meanwhile counts for nothing; real time where a problem is shared between threads.
class Stopwatch {
 public:
  explicit Stopwatch(bool alone) : clock_(alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC) {}

  void start() { start_ = now(); }
  double seconds() const { return now() - start_; }

 private:
  double now() const {
    timespec t{};
    clock_gettime(clock_, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  clockid_t clock_;
  double start_ = 0;
};

/// Throws std::invalid_argument for an instruction set that was not compiled in.
const PeakKernel& peak_kernel_of(const std::string& isa);

/// The peak of `threads` threads that compute at once, averaged over all samples taken.
class PeakMeter {
 public:
  PeakMeter(const PeakKernel& kernel, unsigned threads) : kernel_(kernel), threads_(threads) {}

  /// Computes nothing but multiply-adds for about `seconds`.
  void sample(double seconds);

  /// Flops per second.
  double rate() const { return flops_ / seconds_; }

 private:
  const PeakKernel& kernel_;
  unsigned threads_;
  double flops_ = 0;
  double seconds_ = 0;
};

/// Units of work per second that `threads` threads do at once, after a warm-up: the sum of
/// rate(thread, seconds), which says what one of them did.
double rate_of_threads(unsigned threads, double seconds,
                       const std::function<double(unsigned thread, double seconds)>& rate);

/// What one repetition took, and what the machine could do meanwhile.
struct Timing {
  double seconds;  ///< per iteration
  double peak;     ///< what was sampled, per second
};

/// The timed loop of one repetition, interleaved with samples of what the machine can do: before,
/// after, and whenever the loop has run for kBurst, each about a quarter as long as the part of
/// the loop that it stands for. On a shared machine only numbers that were measured within the
/// same moment can be divided by each other. A meter has sample(seconds) and rate(). `alone`: the
/// loop is timed as Stopwatch says.
template <class Meter, class Body>
Timing time_between_samples(benchmark::State& state, bool alone, Meter&& peak, Body&& body) {
  constexpr double kBurst = 0.02;
  constexpr double kShortestSample = 0.004;
  constexpr double kLongestSample = 0.1;
  const auto length = [](double elapsed) {
    return elapsed < 4 * kShortestSample  ? kShortestSample
           : elapsed > 4 * kLongestSample ? kLongestSample
                                          : elapsed / 4;
  };
  peak.sample(kShortestSample);
  Stopwatch watch(alone);
  double total = 0;
  std::int64_t burst = 1;  // iterations between two looks at the clock, found by doubling
  std::int64_t left = burst;
  Clock::time_point start = Clock::now();
  watch.start();
  for (auto _ : state) {
    body();
    if (--left > 0) continue;
    const double elapsed = seconds_since(start);
    if (elapsed >= kBurst) {
      state.PauseTiming();
      total += watch.seconds();
      peak.sample(length(elapsed));
      start = Clock::now();
      watch.start();
      state.ResumeTiming();
    } else {
      burst *= 2;
    }
    left = burst;
  }
  const double rest = watch.seconds();
  peak.sample(length(seconds_since(start)));
  return {(total + rest) / static_cast<double>(state.iterations()), peak.rate()};
}

/// With samples of the FMA peak.
template <class Body>
Timing time_between_peaks(benchmark::State& state, const PeakKernel& kernel, unsigned threads,
                          Body&& body) {
  return time_between_samples(state, false, PeakMeter(kernel, threads), body);
}

}  // namespace heed::perf
