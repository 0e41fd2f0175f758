// What AVX512-BF16 adds to AVX-512: products of pairs. All other kernels are those of avx512.cpp,
// which has the tables.
#include "engine/kernels/pairs.hpp"
#include "engine/kernels/row_pairs.hpp"

namespace heed {

const ProductKernels<float> kAvx512Bf16Pairs =
    table_of<PairEntries<Vec<float, xsimd::avx512bw>>>(2, 64);
const RowProducts<float> kAvx512Bf16RowPairs = row_pair_products<Vec<float, xsimd::avx512bw>>();

}  // namespace heed
