#include "engine/kernels/pairs.hpp"
#include "perf/peak/vector.hpp"

namespace heed::perf {
namespace {

using Pairs = Vec<float, xsimd::neon64>;

/// As in avx512bf16.cpp.
constexpr std::size_t kOperands = 4;
constexpr std::size_t kChainsOfPairs = kOperands * kOperands;

float multiply_and_add_pairs(std::uint64_t rounds, const float* operands) {
  Pairs left[kOperands];
  Pairs right[kOperands];
  static_assert(4 * kOperands * kLanes<Pairs> <= kPeakOperands);
  const auto pairs_at = [](const float* numbers) {
    return pairs::round_side_by_side(Pairs::load_unaligned(numbers),
                                     Pairs::load_unaligned(numbers + kLanes<Pairs>));
  };
  for (std::size_t i = 0; i < kOperands; ++i) {
    left[i] = pairs_at(operands + 4 * i * kLanes<Pairs>);
    right[i] = pairs_at(operands + (4 * i + 2) * kLanes<Pairs>);
  }
  Pairs sums[kChainsOfPairs];
  unroll<kChainsOfPairs>([&](auto i) { sums[i] = Pairs(0.0F); });
  for (std::uint64_t round = 0; round < rounds; ++round)
    unroll<kChainsOfPairs>([&](auto i) {
      constexpr std::size_t chain = i;
      sums[i] = pairs::add_products(left[chain % kOperands], right[chain / kOperands], sums[i]);
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
  kernel.flops_per_pair_round = kChainsOfPairs * 4 * 4.0;
  kernel.run_pairs = multiply_and_add_pairs;
  return kernel;
}

}  // namespace

const PeakKernel kNeonBf16Peak = with_pairs();

}  // namespace heed::perf
