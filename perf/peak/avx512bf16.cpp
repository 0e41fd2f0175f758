#include <random>

#include "perf/peak/vector.hpp"

namespace heed::perf {
namespace {

/// Random operands, as tensors hold them: a processor computes with zeros and constants at a higher
/// clock. Sums stay near 0, because the operands have either sign.
float multiply_and_add_pairs(std::uint64_t rounds, float /*factor*/, float /*addend*/) {
  constexpr std::size_t kChainsOfPairs = 20;
  constexpr std::size_t kOperands = 4;
  __m512bh left[kOperands];
  __m512bh right[kOperands];
  std::minstd_rand random(1);
  const auto draw = [&] {
    alignas(64) float numbers[2][16];
    for (float& number : numbers[0]) number = static_cast<float>(random() % 2001) / 1000 - 1;
    for (float& number : numbers[1]) number = static_cast<float>(random() % 2001) / 1000 - 1;
    return _mm512_cvtne2ps_pbh(_mm512_load_ps(numbers[0]), _mm512_load_ps(numbers[1]));
  };
  for (std::size_t i = 0; i < kOperands; ++i) {
    left[i] = draw();
    right[i] = draw();
  }
  __m512 sums[kChainsOfPairs];
  unroll<kChainsOfPairs>([&](auto i) { sums[i] = _mm512_setzero_ps(); });
  for (std::uint64_t round = 0; round < rounds; ++round)
    unroll<kChainsOfPairs>([&](auto i) {
      constexpr std::size_t chain = i;
      sums[i] =
          _mm512_dpbf16_ps(sums[i], left[chain % kOperands], right[chain / kOperands % kOperands]);
    });
  unroll<kChainsOfPairs - 1>([&](auto i) { sums[0] = _mm512_add_ps(sums[0], sums[i + 1]); });
  return _mm512_reduce_add_ps(sums[0]);
}

constexpr PeakKernel with_pairs() {
  PeakKernel kernel = peak_kernel<xsimd::avx512bw>("avx512bf16");
  kernel.flops_per_pair_round = 20 * 16 * 4.0;
  kernel.run_pairs = multiply_and_add_pairs;
  return kernel;
}

}  // namespace

const PeakKernel kAvx512Bf16Peak = with_pairs();

}  // namespace heed::perf
