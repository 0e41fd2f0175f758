#include "perf/peak/vector.hpp"

namespace heed::perf {

const PeakKernel kAvx2Peak = peak_kernel<xsimd::fma3<xsimd::avx2>>("avx2");

}  // namespace heed::perf
