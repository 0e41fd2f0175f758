// What Armv8.6's BF16 adds to NEON: products of pairs. All other kernels are those of neon.cpp,
// which has the tables.
#include "engine/kernels/pairs.hpp"

namespace heed {

const ProductKernels<float> kNeonBf16Pairs =
    table_of<PairEntries<Vec<float, xsimd::neon64>>>(2, 128);

}  // namespace heed
