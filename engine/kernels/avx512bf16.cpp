// AVX512-BF16 adds products of pairs to AVX-512. All other kernels are compiled for avx512.
#include "engine/kernels/pairs.hpp"
#include "engine/kernels/row_pairs.hpp"

namespace heed {

using Floats = Vec<float, xsimd::avx512bw>;

const ProductKernels<float> kAvx512Bf16Pairs =
    table_of<PairEntries<Floats>>(2, 64, 1, kAddsToScores<Floats>);
const RowProducts<float> kAvx512Bf16RowPairs = row_pair_products<Floats>();

}  // namespace heed
