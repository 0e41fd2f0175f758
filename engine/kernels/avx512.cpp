#include "engine/kernels/vector.hpp"

namespace heed {

const Kernels kAvx512Kernels = vector_kernels<xsimd::avx512bw>("avx512", 64);

#if defined(HEED_ISA_AVX512BF16)
const Kernels kAvx512Bf16Kernels =
    vector_kernels<xsimd::avx512bw>("avx512bf16", 64, &kAvx512Bf16Pairs, &kAvx512Bf16RowPairs);
#endif

#if defined(HEED_ISA_AMX)
const Kernels kAmxKernels = vector_kernels<xsimd::avx512bw>(
    "amx", 64, &kAmxPairs, &kAvx512Bf16RowPairs,
    {&kAmxThreeParts, &kAmxTwoParts, &kAmxExactTwoParts, &kAmxExactOnePart});
#endif

}  // namespace heed
