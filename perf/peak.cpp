#include "perf/peak.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace heed::perf {
namespace {

/// Until clocks have settled and the workers of the executor have stopped spinning.
constexpr double kWarmUpSeconds = 0.002;
constexpr std::uint64_t kRounds = 2000;  // a few microseconds between two looks at the clock

constexpr const PeakKernel* kKernels[] = {
    &kScalarPeak,
#if defined(HEED_ISA_SSE2)
    &kSse2Peak,
#endif
#if defined(HEED_ISA_AVX2)
    &kAvx2Peak,
#endif
#if defined(HEED_ISA_AVX512)
    &kAvx512Peak,
#endif
#if defined(HEED_ISA_NEON)
    &kNeonPeak,
#endif
};

/// Rounds per second over at least `seconds`.
double rate(const PeakKernel& kernel, double seconds, bool alone) {
  double rounds = 0;
  const Clock::time_point start = Clock::now();
  Stopwatch watch(alone);
  watch.start();
  do {
    benchmark::DoNotOptimize(kernel.run(kRounds, 0.5F, 1.0F));
    rounds += static_cast<double>(kRounds);
  } while (seconds_since(start) < seconds);
  return rounds / watch.seconds();
}

}  // namespace

const PeakKernel& peak_kernel_of(const std::string& isa) {
  for (const PeakKernel* kernel : kKernels)
    if (isa == kernel->isa) return *kernel;
  throw std::invalid_argument("there is no peak kernel for ISA \"" + isa + "\"");
}

void PeakMeter::sample(double seconds) {
  std::atomic<unsigned> ready{0};
  std::vector<double> rates(threads_);
  const auto work = [&](unsigned index) {
    ready.fetch_add(1);
    while (ready.load() < threads_) std::this_thread::yield();
    rate(kernel_, kWarmUpSeconds, threads_ == 1);
    rates[index] = rate(kernel_, seconds, threads_ == 1);
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads_; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& other : others) other.join();
  for (const double r : rates) flops_ += r * seconds * kernel_.flops_per_round;
  seconds_ += seconds;
}

}  // namespace heed::perf
