// AMX-BF16 adds to AVX512-BF16: products of bfloat16 by tiles, and of floats split into components
// of bfloat16. avx512bf16.cpp has the products of rows; all other kernels are compiled for avx512.
#include "engine/kernels/tiles.hpp"

namespace heed {

using Floats = Vec<float, xsimd::avx512bw>;

const ProductKernels<float> kAmxPairs = tile_products<Floats, 1>();
const ProductKernels<float> kAmxTwoParts = tile_products<Floats, 2>();
const ProductKernels<float> kAmxExactOnePart = tile_products<Floats, 1, 3>();

}  // namespace heed
