#include "perf/peak/vector.hpp"

namespace heed::perf {

const PeakKernel kSse2Peak = peak_kernel<xsimd::sse2>("sse2");

}  // namespace heed::perf
