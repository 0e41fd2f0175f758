#include <random>

#include "engine/kernels/pairs.hpp"
#include "perf/peak/vector.hpp"

namespace heed::perf {
namespace {

using Pairs = Vec<float, xsimd::neon64>;

/// Random operands, as in avx512bf16.cpp.
float multiply_and_add_pairs(std::uint64_t rounds, float /*factor*/, float /*addend*/) {
  constexpr std::size_t kChainsOfPairs = 20;
  constexpr std::size_t kOperands = 4;
  Pairs left[kOperands];
  Pairs right[kOperands];
  std::minstd_rand random(1);
  const auto draw = [&] {
    alignas(64) float numbers[8];
    for (float& number : numbers) number = static_cast<float>(random() % 2001) / 1000 - 1;
    return pairs::round_side_by_side(load<Pairs>(numbers), load<Pairs>(numbers + 4));
  };
  for (std::size_t i = 0; i < kOperands; ++i) {
    left[i] = draw();
    right[i] = draw();
  }
  Pairs sums[kChainsOfPairs];
  unroll<kChainsOfPairs>([&](auto i) { sums[i] = Pairs(0.0F); });
  for (std::uint64_t round = 0; round < rounds; ++round)
    unroll<kChainsOfPairs>([&](auto i) {
      constexpr std::size_t chain = i;
      sums[i] = pairs::add_products(left[chain % kOperands], right[chain / kOperands % kOperands],
                                    sums[i]);
    });
  unroll<kChainsOfPairs - 1>([&](auto i) { sums[0] = sums[0] + sums[i + 1]; });
  alignas(64) float lanes[kLanes<Pairs>];
  store<Pairs>(lanes, sums[0]);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

constexpr PeakKernel with_pairs() {
  PeakKernel kernel = peak_kernel<xsimd::neon64>("neonbf16");
  kernel.flops_per_pair_round = 20 * 4 * 4.0;
  kernel.run_pairs = multiply_and_add_pairs;
  return kernel;
}

}  // namespace

const PeakKernel kNeonBf16Peak = with_pairs();

}  // namespace heed::perf
