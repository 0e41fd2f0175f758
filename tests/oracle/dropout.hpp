// Dropout as heed.h describes it, pair by pair. Philox4x32-10 by its paper: each round multiplies
// two of the four words, and both halves of the products go on, crosswise.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "api/heed.h"

namespace heed_test {

using PhiloxWords = std::array<std::uint32_t, 4>;

inline PhiloxWords philox4x32_10(PhiloxWords c, std::uint32_t k0, std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ULL * c[0];
    const std::uint64_t b = 0xCD9E8D57ULL * c[2];
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    c = {high(b) ^ c[1] ^ k0, low(b), high(a) ^ c[3] ^ k1, low(a)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

/// The dropout in use, in 256ths.
inline unsigned dropout_256ths(double dropout) {
  if (dropout == 0) return 0;
  return static_cast<unsigned>(std::min(255.0, std::max(1.0, std::round(dropout * 256))));
}

/// What is left of weights on the whole, a number that every type holds exactly.
inline double dropout_keeps(double dropout) { return 1 - dropout_256ths(dropout) / 256.0; }

/// Whether a pair is dropped; row and key within their sequence.
inline bool is_dropped(double dropout, std::uint64_t seed, std::uint64_t offset, std::int64_t batch,
                       std::int64_t head, std::int64_t row, std::int64_t key) {
  if (dropout == 0) return false;
  const auto low = [](auto x) { return static_cast<std::uint32_t>(x); };
  const PhiloxWords call =
      philox4x32_10({low(offset), low(offset >> 32), 0, 0}, low(seed), low(seed >> 32));
  const PhiloxWords words =
      philox4x32_10({low(key / 16), low(row), low(head), low(batch)}, call[0], call[1]);
  const auto at = static_cast<std::size_t>(key % 16);
  return ((words[at / 4] >> (8 * (at % 4))) & 0xff) < dropout_256ths(dropout);
}

}  // namespace heed_test
