// The FMA peak of an instruction set on some threads, measured where and when it is needed.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "perf/peak/table.hpp"

namespace heed::perf {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Throws std::invalid_argument for an instruction set that was not compiled in.
const PeakKernel& peak_kernel_of(const std::string& isa);

/// The peak of `threads` threads that compute at once, averaged over all samples taken.
class PeakMeter {
 public:
  PeakMeter(const PeakKernel& kernel, unsigned threads) : kernel_(kernel), threads_(threads) {}

  /// Computes nothing but multiply-adds for about `seconds`.
  void sample(double seconds);

  double flops_per_second() const { return flops_ / seconds_; }

 private:
  const PeakKernel& kernel_;
  unsigned threads_;
  double flops_ = 0;
  double seconds_ = 0;
};

/// What one repetition took, and what the machine could do meanwhile.
struct Timing {
  double seconds;  ///< per iteration
  double peak;     ///< flops per second
};

/// The timed loop of one repetition, interleaved with samples of the peak: before, after, and
/// whenever the loop has run for kBurst, each about a quarter as long as the part of the loop
/// that it stands for. On a shared machine only numbers that were measured within the same
/// moment can be divided by each other.
template <class Body>
Timing time_between_peaks(benchmark::State& state, const PeakKernel& kernel, unsigned threads,
                          Body&& body) {
  constexpr double kBurst = 0.02;
  constexpr double kShortestSample = 0.004;
  constexpr double kLongestSample = 0.1;
  const auto length = [](double elapsed) {
    return elapsed < 4 * kShortestSample  ? kShortestSample
           : elapsed > 4 * kLongestSample ? kLongestSample
                                          : elapsed / 4;
  };
  PeakMeter peak(kernel, threads);
  peak.sample(kShortestSample);
  double total = 0;
  std::int64_t burst = 1;  // iterations between two looks at the clock, found by doubling
  std::int64_t left = burst;
  Clock::time_point start = Clock::now();
  for (auto _ : state) {
    body();
    if (--left > 0) continue;
    const double elapsed = seconds_since(start);
    if (elapsed >= kBurst) {
      state.PauseTiming();
      total += elapsed;
      peak.sample(length(elapsed));
      start = Clock::now();
      state.ResumeTiming();
    } else {
      burst *= 2;
    }
    left = burst;
  }
  const double rest = seconds_since(start);
  peak.sample(length(rest));
  return {(total + rest) / static_cast<double>(state.iterations()), peak.flops_per_second()};
}

}  // namespace heed::perf
