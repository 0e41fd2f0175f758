// The instruction set and the type that a family's file is compiled for: cmake/kernels.cmake names
// them, as HEED_KERNEL_ISA and HEED_KERNEL_TYPE, for every pair that there is.
#pragma once

#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// Its xsimd architecture, and how many keys of a full panel should fill about a third of the L1
/// cache with scores, which are as many bytes for either type.
struct Sse2 {
  using Arch = xsimd::sse2;
  static constexpr std::uint32_t kKeyBlock = 128;
};
struct Avx2 {
  using Arch = xsimd::fma3<xsimd::avx2>;
  static constexpr std::uint32_t kKeyBlock = 128;
};
struct Avx512 {
  using Arch = xsimd::avx512bw;
  static constexpr std::uint32_t kKeyBlock = 64;
};
struct Neon {
  using Arch = xsimd::neon64;
  static constexpr std::uint32_t kKeyBlock = 128;
};

struct TypeF32 {
  using Real = float;
};
struct TypeF64 {
  using Real = double;
};

#define HEED_PASTE(a, b) a##b
#define HEED_PASTED(a, b) HEED_PASTE(a, b)

/// The name of the table of a family, as table.hpp declares it: kAvx2PanelsF32.
#define HEED_FAMILY_TABLE(family) \
  HEED_PASTED(HEED_PASTED(k, HEED_KERNEL_ISA), HEED_PASTED(family, HEED_KERNEL_TYPE))

using Isa = HEED_KERNEL_ISA;
using Real = HEED_PASTED(Type, HEED_KERNEL_TYPE)::Real;
using Vector = Vec<Real, Isa::Arch>;

}  // namespace
}  // namespace heed
