// The types of elements: their names and bytes, and the arithmetic that reads them: float64 if the
// tensors are, else float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/table.hpp"

namespace heed {

struct ElementKind {
  const char* name;
  std::int64_t bytes;
};
/// In the order of ElementType; all but the last are in the order of heed_dtype, too, which begins
/// with 1.
inline constexpr ElementKind kElementKinds[] = {{"f32", 4}, {"f64", 8},     {"bf16", 2}, {"f16", 2},
                                                {"i8", 1},  {"f8_e4m3", 1}, {"mask", 1}};

inline std::int64_t bytes_of(ElementType type) {
  return kElementKinds[static_cast<std::size_t>(type)].bytes;
}
inline const char* name_of(ElementType type) {
  return kElementKinds[static_cast<std::size_t>(type)].name;
}

/// Whether elements are integers or numbers of 8 bits, which scales that lie elsewhere multiply.
inline bool is_scaled(ElementType type) {
  return type == ElementType::kI8 || type == ElementType::kF8E4M3;
}

/// Whether elements have 16 bits.
inline bool is_half(ElementType type) {
  return type == ElementType::kBf16 || type == ElementType::kF16;
}

inline ElementType real_type(bool float64) {
  return float64 ? ElementType::kF64 : ElementType::kF32;
}
inline std::int64_t real_bytes(bool float64) { return float64 ? sizeof(double) : sizeof(float); }

/// Calls function(real), where the type of `real` is that of the arithmetic.
template <class Function>
decltype(auto) with_real(bool float64, Function&& function) {
  return float64 ? function(double{}) : function(float{});
}

template <class Real>
const KernelTable<Real>& kernels_of(const Kernels& kernels);
template <>
inline const KernelTable<float>& kernels_of(const Kernels& kernels) {
  return kernels.f32;
}
template <>
inline const KernelTable<double>& kernels_of(const Kernels& kernels) {
  return kernels.f64;
}

}  // namespace heed
