#include "engine/kernels/vector.hpp"

namespace heed {

const Kernels kNeonKernels = vector_kernels<xsimd::neon64>("neon", 128);

#if defined(HEED_ISA_NEONBF16)
const Kernels kNeonBf16Kernels = vector_kernels<xsimd::neon64>("neonbf16", 128, &kNeonBf16Pairs);
#endif

}  // namespace heed
