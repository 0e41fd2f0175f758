// The loop over bytes that every instruction set's read shares; the rules of gather.hpp hold here
// too.
#pragma once

#include "perf/peak/table.hpp"

namespace heed::perf {
namespace {

/// `zero` combined with all bytes: vectors by load(from) and ^, what is left by
/// add_row(sum, row, bytes). Four sums, so that no load waits for the sum before it.
template <class Bits, class Load, class AddRow>
[[gnu::always_inline]] inline Bits read_bytes(const char* data, std::size_t bytes, ReadOrder order,
                                              Bits zero, Load&& load, AddRow&& add_row) {
  const std::size_t steps = bytes / (4 * sizeof(Bits));
  const bool spread = order == ReadOrder::kSpread;
  const std::size_t step = spread ? sizeof(Bits) : 4 * sizeof(Bits);
  const std::size_t apart = spread ? steps * sizeof(Bits) : sizeof(Bits);
  Bits a = zero;
  Bits b = zero;
  Bits c = zero;
  Bits d = zero;
  const char* at = data;
  for (std::size_t i = 0; i < steps; ++i, at += step) {
    a = a ^ load(at);
    b = b ^ load(at + apart);
    c = c ^ load(at + 2 * apart);
    d = d ^ load(at + 3 * apart);
  }
  const std::size_t read = 4 * sizeof(Bits) * steps;
  return add_row((a ^ b) ^ (c ^ d), data + read, bytes - read);
}

}  // namespace
}  // namespace heed::perf
