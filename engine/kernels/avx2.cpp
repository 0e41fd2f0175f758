#include "engine/kernels/vector.hpp"

namespace heed {

const Kernels kAvx2Kernels = vector_kernels<xsimd::fma3<xsimd::avx2>>("avx2", 128);

}  // namespace heed
