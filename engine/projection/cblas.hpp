// Products by a BLAS library, one call for many rows on the caller's thread: how many threads the
// library uses, and the order of its sums, are its own business.
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
