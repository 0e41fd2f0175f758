// Philox4x32-10, the counter-based generator of random bits: J. K. Salmon et al. 2011, "Parallel
// random numbers: as easy as 1, 2, 3". As table.hpp, it has nothing that could be emitted twice.
#pragma once

#include <cstdint>

#include "engine/kernels/operands.hpp"

namespace heed {

struct Philox {
  static constexpr int kRounds = 10;
  static constexpr std::uint32_t kMultipliers[2] = {0xd2511f53U, 0xcd9e8d57U};
  static constexpr std::uint32_t kKeySteps[2] = {0x9e3779b9U, 0xbb67ae85U};  // Weyl sequences
};

/// The random bits of a counter become the bits of `counter` itself.
[[gnu::always_inline]] inline void philox(const std::uint32_t (&key)[2],
                                          std::uint32_t (&counter)[4]) {
  std::uint32_t round_key[2] = {key[0], key[1]};
  for (int round = 0; round < Philox::kRounds; ++round) {
    const std::uint64_t first = std::uint64_t{Philox::kMultipliers[0]} * counter[0];
    const std::uint64_t second = std::uint64_t{Philox::kMultipliers[1]} * counter[2];
    counter[0] = static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ round_key[0];
    counter[1] = static_cast<std::uint32_t>(second);
    counter[2] = static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ round_key[1];
    counter[3] = static_cast<std::uint32_t>(first);
    round_key[0] += Philox::kKeySteps[0];
    round_key[1] += Philox::kKeySteps[1];
  }
}

/// The keys of one row that dropout takes, as DroppedPairs says.
struct DroppedKeys {
  const std::uint32_t (&key)[2];
  std::uint32_t threshold, row, head, batch;
  std::uint64_t group = UINT64_MAX;  ///< that `words` are of
  std::uint32_t words[4] = {};

  // Keys one after the other share a counter. Always inline, as all_keys() is.
  [[gnu::always_inline]] bool drops(std::uint64_t at) {
    if (at / kDropoutKeys != group) {
      group = at / kDropoutKeys;
      words[0] = static_cast<std::uint32_t>(group);
      words[1] = row, words[2] = head, words[3] = batch;
      philox(key, words);
    }
    const std::uint64_t within = at % kDropoutKeys;
    return (words[within / 4] >> (8 * (within % 4)) & 0xff) < threshold;
  }
};

}  // namespace heed
