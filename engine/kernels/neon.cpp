#include "engine/kernels/vector.hpp"

namespace heed {

const Kernels kNeonKernels = vector_kernels<xsimd::neon64>("neon", 128);

}  // namespace heed
