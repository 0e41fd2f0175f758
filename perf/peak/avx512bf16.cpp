#include "perf/peak/vector.hpp"

namespace heed::perf {
namespace {

/// Chains that had the same operands would be one to the compiler, so that half the work were not
/// done: every chain has two of its own.
constexpr std::size_t kOperands = 4;
constexpr std::size_t kChainsOfPairs = kOperands * kOperands;

/// Sums stay near 0, because the operands have either sign.
float multiply_and_add_pairs(std::uint64_t rounds, const float* operands) {
  __m512bh left[kOperands];
  __m512bh right[kOperands];
  static_assert(4 * kOperands * 16 <= kPeakOperands);
  const auto pairs = [](const float* numbers) {
    return _mm512_cvtne2ps_pbh(_mm512_loadu_ps(numbers), _mm512_loadu_ps(numbers + 16));
  };
  for (std::size_t i = 0; i < kOperands; ++i) {
    left[i] = pairs(operands + i * 64);
    right[i] = pairs(operands + i * 64 + 32);
  }
  __m512 sums[kChainsOfPairs];
  unroll<kChainsOfPairs>([&](auto i) { sums[i] = _mm512_setzero_ps(); });
  for (std::uint64_t round = 0; round < rounds; ++round)
    unroll<kChainsOfPairs>([&](auto i) {
      constexpr std::size_t chain = i;
      sums[i] = _mm512_dpbf16_ps(sums[i], left[chain % kOperands], right[chain / kOperands]);
    });
  unroll<kChainsOfPairs - 1>([&](auto i) { sums[0] = _mm512_add_ps(sums[0], sums[i + 1]); });
  return _mm512_reduce_add_ps(sums[0]);
}

constexpr PeakKernel with_pairs() {
  PeakKernel kernel = peak_kernel<xsimd::avx512bw>("avx512bf16");
  kernel.flops_per_pair_round = kChainsOfPairs * 16 * 4.0;
  kernel.run_pairs = multiply_and_add_pairs;
  return kernel;
}

}  // namespace

const PeakKernel kAvx512Bf16Peak = with_pairs();

}  // namespace heed::perf
