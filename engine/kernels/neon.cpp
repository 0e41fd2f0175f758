#include "engine/kernels/vector.hpp"

namespace heed {

const KernelTable kNeonKernels = vector_kernels<xsimd::neon64>("neon", 128);

}  // namespace heed
