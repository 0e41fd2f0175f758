// The FMA peak of an instruction set on some threads, measured where and when it is needed.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perf/peak/table.hpp"

namespace heed::perf {

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

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A rate, averaged over all samples taken.
class MeanRate {
 public:
  void add(double rate, double seconds) {
    amount_ += rate * seconds;
    seconds_ += seconds;
  }
  double value() const { return amount_ / seconds_; }

 private:
  double amount_ = 0;
  double seconds_ = 0;
};

/// Throws std::invalid_argument for an instruction set that was not compiled in.
const PeakKernel& peak_kernel_of(std::string_view isa);

/// The peak of `threads` threads that compute at once, averaged over all samples taken. That of one
/// is per second of the thread's CPU time.
class PeakMeter {
 public:
  /// With `pairs`, those of the unit of pairs of bfloat16, which the kernel must have.
  PeakMeter(const PeakKernel& kernel, unsigned threads, bool pairs = false)
      : kernel_(kernel), threads_(threads), pairs_(pairs) {}

  /// Computes nothing but multiply-adds for about `seconds`.
  void sample(double seconds);

  /// Flops per second.
  double rate() const { return flops_.value(); }

 private:
  const PeakKernel& kernel_;
  unsigned threads_;
  bool pairs_;
  MeanRate flops_;
};

/// Until clocks have settled and the workers of the executor have stopped spinning.
constexpr double kWarmUpSeconds = 0.002;

/// The sum of what work() returns, on `threads` threads that begin at once.
double sum_of_threads(unsigned threads, const std::function<double()>& work);

/// Units of work per second that `threads` threads do at once, in about `seconds` after a warm-up.
/// work() does some, for a few microseconds or more, and returns how much; all threads call it.
/// That of one thread is per second of its CPU time.
double rate_of_threads(unsigned threads, double seconds, const std::function<double()>& work);

/// What one repetition took, and what the machine could do meanwhile.
struct Timing {
  double seconds;              ///< per iteration
  double peak;                 ///< what was sampled, per second
  std::vector<double> beside;  ///< seconds per call of what ran beside, in its order
};

/// What that comes to: gflops and of_peak, each with this prefix, and peak_gflops.
void count_rate(benchmark::UserCounters& counters, double flops, double seconds, double peak,
                const std::string& prefix = {});

/// What runs in turns with a timed loop, to be compared with it.
class Beside {
 public:
  Beside(std::function<void()> body, bool alone) : body_(std::move(body)), watch_(alone) {}

  /// For about `seconds`, at least once.
  void run(double seconds) {
    const Clock::time_point start = Clock::now();
    watch_.start();
    do {
      body_();
      ++calls_;
    } while (seconds_since(start) < seconds);
    seconds_ += watch_.seconds();
  }

  double seconds_per_call() const { return seconds_ / static_cast<double>(calls_); }

 private:
  std::function<void()> body_;
  Stopwatch watch_;
  double seconds_ = 0;
  std::int64_t calls_ = 0;
};

/// The timed loop of one repetition, interleaved with samples of what the machine can do and of
/// whatever else runs beside it: before, after, and whenever the loop has run for kBurst, each
/// about a quarter as long as the part of the loop that it stands for. On a shared machine only
/// numbers that were measured within the same moment can be divided by each other. A meter has
/// sample(seconds) and rate(). `alone`: the loop, and what runs beside it, is timed as Stopwatch
/// says.
template <class Meter, class Body>
Timing time_between_samples(benchmark::State& state, bool alone, Meter&& meter, Body&& body,
                            const std::vector<std::function<void()>>& others = {}) {
  constexpr double kBurst = 0.02;
  constexpr double kShortestSample = 0.004;
  constexpr double kLongestSample = 0.1;
  const auto length = [](double elapsed) {
    return elapsed < 4 * kShortestSample  ? kShortestSample
           : elapsed > 4 * kLongestSample ? kLongestSample
                                          : elapsed / 4;
  };
  std::vector<Beside> beside;
  beside.reserve(others.size());
  for (const auto& other : others) beside.emplace_back(other, alone);
  const auto sample = [&](double seconds) {
    meter.sample(seconds);
    for (Beside& other : beside) other.run(seconds);
  };
  sample(kShortestSample);
  double total = 0;
  std::int64_t burst = 1;  // iterations between two looks at the clock, found by doubling
  std::int64_t left = burst;
  Stopwatch watch(alone);
  Clock::time_point start = Clock::now();
  watch.start();
  for (auto _ : state) {
    body();
    if (--left > 0) continue;
    const double elapsed = seconds_since(start);
    if (elapsed >= kBurst) {
      total += watch.seconds();
      state.PauseTiming();
      sample(length(elapsed));
      start = Clock::now();
      watch.start();
      state.ResumeTiming();
    } else {
      burst *= 2;
    }
    left = burst;
  }
  total += watch.seconds();
  sample(length(seconds_since(start)));
  Timing timing{total / static_cast<double>(state.iterations()), meter.rate(), {}};
  for (const Beside& other : beside) timing.beside.push_back(other.seconds_per_call());
  return timing;
}

/// With samples of the FMA peak, or that of pairs.
template <class Body>
Timing time_between_peaks(benchmark::State& state, const PeakKernel& kernel, unsigned threads,
                          Body&& body, const std::vector<std::function<void()>>& others = {},
                          bool pairs = false) {
  return time_between_samples(state, threads == 1, PeakMeter(kernel, threads, pairs), body, others);
}

}  // namespace heed::perf
