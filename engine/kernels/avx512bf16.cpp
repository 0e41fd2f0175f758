// AVX512-BF16 adds products of pairs to AVX-512. All other kernels are compiled for avx512.
#include "engine/kernels/pairs.hpp"
#include "engine/kernels/row_pairs.hpp"

namespace heed {

const ProductKernels<float> kAvx512Bf16Pairs =
    table_of<PairEntries<Vec<float, xsimd::avx512bw>>>(2, 64);
const RowProducts<float> kAvx512Bf16RowPairs = row_pair_products<Vec<float, xsimd::avx512bw>>();

}  // namespace heed
