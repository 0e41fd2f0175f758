#include <random>

#include "engine/kernels/tiles.hpp"
#include "perf/peak/vector.hpp"

namespace heed::perf {
namespace {

/// Random operands, as in avx512bf16.cpp; four tiles of sums.
float multiply_and_add_tiles(std::uint64_t rounds, const float* /*operands*/) {
  constexpr std::size_t kTile = tiles::kRows * tiles::kLines;
  alignas(64) float operands[4][kTile];
  alignas(64) float sums[kTile];
  std::minstd_rand random(1);
  for (auto& operand : operands)
    for (float& pair : operand) {
      // Bits of two bfloat16, each between 1 / 2 and 2 and of either sign.
      const auto draw = [&] {
        const auto bits = static_cast<std::uint32_t>(random() >> 8);
        return (bits & 0x80ffU) | 0x3f00U;
      };
      const std::uint32_t bits = draw() | draw() << 16;
      __builtin_memcpy(&pair, &bits, sizeof bits);
    }
  tiles::configure();
  unroll<4>([&](auto i) { tiles::clear_tile<i>(); });
  unroll<4>([&](auto i) { tiles::load_tile<4 + i>(operands[i], tiles::kLines); });
  for (std::uint64_t round = 0; round < rounds; ++round)
    unroll<4>([&](auto i) { tiles::add_product<i, 4 + i / 2, 6 + i % 2>(); });
  float sum = 0;
  unroll<4>([&](auto i) {
    tiles::store_tile<i>(sums, tiles::kRows);
    for (const float number : sums) sum += number;
  });
  tiles::release();
  return sum;
}

constexpr PeakKernel with_tiles() {
  PeakKernel kernel = peak_kernel<xsimd::avx512bw>("amx");
  kernel.flops_per_pair_round = 4 * 16 * 16 * 32 * 2.0;
  kernel.run_pairs = multiply_and_add_tiles;
  return kernel;
}

}  // namespace

const PeakKernel kAmxPeak = with_tiles();

}  // namespace heed::perf
