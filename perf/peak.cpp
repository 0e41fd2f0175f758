#include "perf/peak.hpp"

#include <atomic>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace heed::perf {
namespace {

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
#if defined(HEED_ISA_AVX512BF16)
    &kAvx512Bf16Peak,
#endif
#if defined(HEED_ISA_AMX)
    &kAmxPeak,
#endif
#if defined(HEED_ISA_NEON)
    &kNeonPeak,
#endif
#if defined(HEED_ISA_NEONBF16)
    &kNeonBf16Peak,
#endif
};

const float* peak_operands() {
  static const std::vector<float> operands = [] {
    std::vector<float> numbers(kPeakOperands);
    std::minstd_rand random(1);
    for (float& number : numbers) number = (static_cast<float>(random() % 2001) / 1000 - 1) * 0.9F;
    return numbers;
  }();
  return operands.data();
}

/// Over about `seconds`.
double rate_of(const std::function<double()>& work, double seconds, bool alone) {
  double done = 0;
  const Clock::time_point start = Clock::now();
  Stopwatch watch(alone);
  watch.start();
  do done += work();
  while (seconds_since(start) < seconds);
  return done / watch.seconds();
}

}  // namespace

const PeakKernel& peak_kernel_of(std::string_view isa) {
  for (const PeakKernel* kernel : kKernels)
    if (isa == kernel->isa) return *kernel;
  throw std::invalid_argument("there is no peak kernel for ISA \"" + std::string(isa) + "\"");
}

double sum_of_threads(unsigned threads, const std::function<double()>& work) {
  std::atomic<unsigned> ready{0};
  std::vector<double> results(threads);
  const auto run = [&](unsigned index) {
    ready.fetch_add(1);
    while (ready.load() < threads) std::this_thread::yield();
    results[index] = work();
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
  for (std::thread& other : others) other.join();
  return std::accumulate(results.begin(), results.end(), 0.0);
}

double rate_of_threads(unsigned threads, double seconds, const std::function<double()>& work) {
  return sum_of_threads(threads, [&] {
    rate_of(work, kWarmUpSeconds, threads == 1);
    return rate_of(work, seconds, threads == 1);
  });
}

void count_rate(benchmark::UserCounters& counters, double flops, double seconds, double peak,
                const std::string& prefix) {
  counters[prefix + "gflops"] = flops / seconds * 1e-9;
  counters[prefix + "of_peak"] = flops / seconds / peak;
  counters["peak_gflops"] = peak * 1e-9;
}

void PeakMeter::sample(double seconds) {
  const auto run = pairs_ ? kernel_.run_pairs : kernel_.run;
  const double flops = static_cast<double>(kRounds) *
                       (pairs_ ? kernel_.flops_per_pair_round : kernel_.flops_per_round);
  const float* const operands = peak_operands();
  const auto work = [&] {
    benchmark::DoNotOptimize(run(kRounds, operands));
    return flops;
  };
  flops_.add(rate_of_threads(threads_, seconds, work), seconds);
}

}  // namespace heed::perf
