#include "engine/kernels/vector.hpp"

namespace heed {

const Kernels kAvx512Kernels = vector_kernels<xsimd::avx512bw>("avx512", 64);

}  // namespace heed
