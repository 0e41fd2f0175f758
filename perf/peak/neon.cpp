#include "perf/peak/vector.hpp"

namespace heed::perf {

const PeakKernel kNeonPeak = peak_kernel<xsimd::neon64>("neon");

}  // namespace heed::perf
