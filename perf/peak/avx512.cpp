#include "perf/peak/vector.hpp"

namespace heed::perf {

const PeakKernel kAvx512Peak = peak_kernel<xsimd::avx512bw>("avx512");

}  // namespace heed::perf
