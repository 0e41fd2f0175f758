// What the types of elements are called, take, and are read as: float64 if the tensors are, else
// float32.
#pragma once

#include <cstdint>

#include "engine/kernels/table.hpp"

namespace heed {

/// Bytes of one element.
std::int64_t bytes_of(ElementType type);

/// "f32", "f64", "bf16", "f16", "i8", "f8_e4m3" or "mask".
const char* name_of(ElementType type);

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
