// What one instruction set can do at best, in arithmetic and in reading rows, in order or through
// indices, as plain function pointers. The only thing that the harness and peak/<isa>.cpp share;
// the rules of engine/kernels/table.hpp hold here too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed::perf {

/// Rows of two tensors, found through the same indices.
struct GatherRows {
  const char* key;
  const char* value;
  std::size_t key_bytes;  ///< of a row
  std::size_t value_bytes;
  const std::int32_t* sources;  ///< which rows; readable up to `end`
  std::int64_t end;
};

/// How many edges ahead rows are prefetched.
constexpr std::int64_t kGatherAhead = 8;

/// What a cache moves at once.
constexpr std::size_t kLineBytes = 64;

enum class ReadOrder {
  kPlain,  ///< from the first byte to the last
  kSpread  ///< in four places at once, as far apart as can be: more of a processor's prefetchers
           ///< help
};

/// How many random numbers multiply-adds get, between -0.9 and 0.9: operands as tensors hold them,
/// because a processor computes with zeros and constants at a higher clock.
constexpr std::size_t kPeakOperands = 512;

struct PeakKernel {
  const char* isa;
  double flops_per_round;
  /// Multiplies and adds `rounds` times in every chain, in registers alone. The result depends
  /// on all of it, so that none of it can be left out.
  float (*run)(std::uint64_t rounds, const float* operands);
  /// Loads all of the rows of sources [first, last), and nothing else but the indices. The result
  /// depends on every byte.
  std::uint32_t (*gather)(const GatherRows& rows, std::int64_t first, std::int64_t last);
  /// Loads all of these bytes, and nothing else. The result depends on every byte.
  std::uint32_t (*read)(const char* data, std::size_t bytes, ReadOrder order);
  /// The same as `run` with pairs of bfloat16; nullptr where there are none.
  float (*run_pairs)(std::uint64_t rounds, const float* operands) = nullptr;
  double flops_per_pair_round = 0;
};

/// One per <isa>.cpp; declared here, listed in perf/peak.cpp where compiled in.
extern const PeakKernel kScalarPeak;
extern const PeakKernel kSse2Peak;
extern const PeakKernel kAvx2Peak;
extern const PeakKernel kAvx512Peak;
extern const PeakKernel kAvx512Bf16Peak;
extern const PeakKernel kAmxPeak;
extern const PeakKernel kNeonPeak;
extern const PeakKernel kNeonBf16Peak;

}  // namespace heed::perf
