// The FMA peak of one instruction set, as a plain function pointer. The only thing that the
// harness and peak/<isa>.cpp share; the rules of engine/kernels/table.hpp hold here too.
#pragma once

#include <cstdint>

namespace heed::perf {

struct PeakKernel {
  const char* isa;
  double flops_per_round;
  /// Multiplies and adds `rounds` times in every chain, in registers alone. The result depends
  /// on all of it, so that none of it can be left out.
  float (*run)(std::uint64_t rounds, float factor, float addend);
};

/// One per <isa>.cpp; declared here, listed in perf/peak.cpp where compiled in.
extern const PeakKernel kScalarPeak;
extern const PeakKernel kSse2Peak;
extern const PeakKernel kAvx2Peak;
extern const PeakKernel kAvx512Peak;
extern const PeakKernel kNeonPeak;

}  // namespace heed::perf
