// Armv8.6's BF16 adds products of pairs to NEON. All other kernels are compiled for neon.
#include "engine/kernels/pairs.hpp"

namespace heed {

const ProductKernels<float> kNeonBf16Pairs =
    table_of<PairEntries<Vec<float, xsimd::neon64>>>(2, 128);

}  // namespace heed
