// Products by a BLAS library, one call for many rows, on the caller's thread. The library decides
// how many threads it uses and in which order it sums.
#pragma once

#include "engine/projection/matmul.hpp"

namespace heed {

#if defined(HEED_WITH_CBLAS)
/// Lays out the plan's slab, which one thread uses.
void plan_cblas(MatmulPlan& plan);
void run_cblas(const Kernels& kernels, const Matmul& matmul, std::byte* slab);
#else
inline void plan_cblas(MatmulPlan&) {}
inline void run_cblas(const Kernels&, const Matmul&, std::byte*) {}
#endif

}  // namespace heed
