// The peak kernels of one xsimd architecture. An <isa>.cpp includes this, names its
// architecture and is compiled with that architecture's flags.
#pragma once

#include "engine/kernels/operations.hpp"
#include "perf/peak/gather.hpp"
#include "perf/peak/read.hpp"
#include "perf/peak/table.hpp"

namespace heed::perf {
namespace {

/// Independent chains. Latency times throughput is 8 (two units, 4 cycles) on x86, also where a
/// product and a sum follow each other, and 16 (four units) on Arm.
template <class V>
inline constexpr std::size_t kChains = (kIsAvx512<V> || kIsNeon<V>) ? 24 : 12;

/// Factors, and addends, that chains take in turns, so that units see other numbers every time; the
/// chains and both must fit the registers.
template <class V>
inline constexpr std::size_t kTurns = (kIsAvx512<V> || kIsNeon<V>) ? 4 : 2;

/// Every chain tends to addend / (1 - factor): no overflow, no subnormal number.
template <class V>
float multiply_and_add(std::uint64_t rounds, const float* operands) {
  constexpr std::size_t chains = kChains<V>;
  constexpr std::size_t turns = kTurns<V>;
  static_assert((chains + 2 * turns) * kLanes<V> <= kPeakOperands);
  const auto operand = [&](std::size_t i) { return V::load_unaligned(operands + i * kLanes<V>); };
  V x[chains];
  V f[turns];
  V a[turns];
  unroll<chains>([&](auto i) { x[i] = operand(i); });
  unroll<turns>([&](auto i) {
    f[i] = operand(chains + i);
    a[i] = operand(chains + turns + i);
  });
  for (std::uint64_t round = 0; round < rounds; ++round)
    unroll<chains>([&](auto i) {
      constexpr std::size_t chain = i;
      x[i] = multiply_add(x[i], f[chain % turns], a[chain / turns % turns]);
    });
  unroll<chains - 1>([&](auto i) { x[0] = x[0] + x[i + 1]; });
  alignas(64) float lanes[kLanes<V>];
  store<V>(lanes, x[0]);
  float sum = 0.0F;
  for (const float lane : lanes) sum += lane;
  return sum;
}

template <class V>
HEED_INLINE BitsOf<V> load_bits(const char* from) {
  return to_bits(V(V::load_unaligned(reinterpret_cast<const float*>(from))));
}

/// sum ^ all of a row; the last vector may overlap the one before it.
template <class V>
HEED_INLINE BitsOf<V> add_row(BitsOf<V> sum, const char* row, std::size_t bytes) {
  if (bytes < sizeof(V)) {  // of one or two lines
    for (std::size_t i = 0; i < bytes; ++i)
      sum = sum ^ BitsOf<V>(static_cast<std::uint32_t>(static_cast<unsigned char>(row[i])));
    return sum;
  }
  std::size_t byte = 0;
  for (; byte + sizeof(V) <= bytes; byte += sizeof(V)) sum = sum ^ load_bits<V>(row + byte);
  return byte < bytes ? BitsOf<V>(sum ^ load_bits<V>(row + bytes - sizeof(V))) : sum;
}

template <class V>
HEED_INLINE std::uint32_t folded(BitsOf<V> bits) {
  alignas(64) std::uint32_t lanes[kLanes<V>];
  bits.store_aligned(lanes);
  std::uint32_t sum = 0;
  for (const std::uint32_t lane : lanes) sum ^= lane;
  return sum;
}

template <class V>
std::uint32_t gather(const GatherRows& rows, std::int64_t first, std::int64_t last) {
  BitsOf<V> keys(0U);
  BitsOf<V> values(0U);
  gather_rows(rows, first, last, keys, values, add_row<V>);
  return folded<V>(keys ^ values);
}

template <class V>
std::uint32_t read(const char* data, std::size_t bytes, ReadOrder order) {
  return folded<V>(read_bytes(data, bytes, order, BitsOf<V>(0U), load_bits<V>, add_row<V>));
}

/// A multiply-add counts as two flops, fused or not.
template <class Arch>
constexpr PeakKernel peak_kernel(const char* isa) {
  using V = Vec<float, Arch>;
  return {isa, 2.0 * kChains<V> * kLanes<V>, multiply_and_add<V>, gather<V>, read<V>};
}

}  // namespace
}  // namespace heed::perf
