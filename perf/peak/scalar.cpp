// The peak without xsimd: what a compiler can make of plain code for the plainest CPU of the
// architecture, which has vectors of 16 bytes on x86-64 and aarch64. The scalar kernels of
// heed are compiled, and vectorised, for the same CPU.
#include <cstddef>

#include "perf/peak/gather.hpp"
#include "perf/peak/read.hpp"
#include "perf/peak/table.hpp"

namespace heed::perf {
namespace {

constexpr std::size_t kLanes = 4;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

constexpr double kChains = 12;

/// As in vector.hpp, with one name per chain: an array would live on the stack.
float multiply_and_add(std::uint64_t rounds, const float* operands) {
  const auto operand = [&](std::size_t i) {
    Lanes lanes;
    __builtin_memcpy(&lanes, operands + i * kLanes, sizeof lanes);
    return lanes;
  };
  const Lanes f = operand(0), g = operand(1), a = operand(2), b = operand(3);
  Lanes x0 = operand(4), x1 = operand(5), x2 = operand(6), x3 = operand(7), x4 = operand(8);
  Lanes x5 = operand(9), y0 = operand(10), y1 = operand(11), y2 = operand(12), y3 = operand(13);
  Lanes y4 = operand(14), y5 = operand(15);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    x0 = x0 * f + a;
    y0 = y0 * g + b;
    x1 = x1 * f + a;
    y1 = y1 * g + b;
    x2 = x2 * f + a;
    y2 = y2 * g + b;
    x3 = x3 * f + a;
    y3 = y3 * g + b;
    x4 = x4 * f + a;
    y4 = y4 * g + b;
    x5 = x5 * f + a;
    y5 = y5 * g + b;
  }
  const Lanes sum = x0 + x1 + x2 + x3 + x4 + x5 + y0 + y1 + y2 + y3 + y4 + y5;
  return sum[0] + sum[1] + sum[2] + sum[3];
}

typedef std::uint32_t Bits __attribute__((vector_size(kLanes * sizeof(float))));

Bits load(const char* from) {
  Bits bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return bits;
}

/// sum ^ all of a row.
Bits add_row(Bits sum, const char* row, std::size_t bytes) {
  std::size_t at = 0;
  for (; at + sizeof sum <= bytes; at += sizeof sum) sum ^= load(row + at);
  for (; at < bytes; ++at) sum[0] ^= static_cast<unsigned char>(row[at]);
  return sum;
}

std::uint32_t folded(Bits sum) { return sum[0] ^ sum[1] ^ sum[2] ^ sum[3]; }

std::uint32_t gather(const GatherRows& rows, std::int64_t first, std::int64_t last) {
  Bits keys = {0, 0, 0, 0};
  Bits values = keys;
  gather_rows(rows, first, last, keys, values, add_row);
  return folded(keys ^ values);
}

std::uint32_t read(const char* data, std::size_t bytes, ReadOrder order) {
  return folded(read_bytes(data, bytes, order, Bits{0, 0, 0, 0}, load, add_row));
}

}  // namespace

const PeakKernel kScalarPeak = {"scalar", 2 * kChains* kLanes, multiply_and_add, gather, read};

}  // namespace heed::perf
