#include "engine/kernels/vector.hpp"

namespace heed {

const Kernels kSse2Kernels = vector_kernels<xsimd::sse2>("sse2", 128);

}  // namespace heed
