// What AMX-BF16 adds to AVX512-BF16: products of bfloat16 by tiles. Products of rows are those of
// avx512bf16.cpp, all other kernels those of avx512.cpp, which has the tables.
#include "engine/kernels/tiles.hpp"

namespace heed {

const ProductKernels<float> kAmxPairs = tile_products<Vec<float, xsimd::avx512bw>>();

}  // namespace heed
