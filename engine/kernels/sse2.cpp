#include "engine/kernels/vector.hpp"

namespace heed {

const KernelTable kSse2Kernels = vector_kernels<xsimd::sse2>("sse2", 128);

}  // namespace heed
