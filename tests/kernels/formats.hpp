// Types of elements in memory, as the kernels and the C API call them, and their numbers in order.
#pragma once

#include <initializer_list>

#include "engine/tensor/layout.hpp"
#include "tests/oracle/dtype.hpp"

namespace heed_test {

/// Elements in memory.
struct Kind {
  heed::ElementType type;
  std::uint32_t dtype;

  std::size_t size() const { return static_cast<std::size_t>(format().bytes); }
  const Format& format() const { return format_of(dtype); }
  double value_at(const void* at) const { return decode(dtype, load_bits(dtype, at, 0)); }
  /// x rounded to nearest, to even between two; of a type without infinity at most its largest.
  double nearest(double x) const {
    return rounded(is_scaled(dtype) ? saturated(x, dtype) : x, format());
  }

  /// The numbers from 0 on, counted upwards; what would follow the largest one, after that.
  double number(std::uint64_t index) const {
    return from_magnitude_bits(index, format().digits - 1, bias());
  }
  /// How many of them are finite.
  std::uint64_t finite_count() const {
    return magnitude_bits(format().largest, format().digits - 1, bias()) + 1;
  }

 private:
  int bias() const { return 2 - format().digits - format().lowest; }
};

inline constexpr Kind kF32 = {heed::ElementType::kF32, HEED_DTYPE_F32};
inline constexpr Kind kF64 = {heed::ElementType::kF64, HEED_DTYPE_F64};
inline constexpr Kind kBf16 = {heed::ElementType::kBf16, HEED_DTYPE_BF16};
inline constexpr Kind kF16 = {heed::ElementType::kF16, HEED_DTYPE_F16};
inline constexpr Kind kF8 = {heed::ElementType::kF8E4M3, HEED_DTYPE_F8_E4M3};
inline constexpr Kind kI8 = {heed::ElementType::kI8, HEED_DTYPE_I8};

inline Kind kind_of(heed::ElementType type) {
  for (const Kind& kind : {kF32, kF64, kBf16, kF16, kF8})
    if (kind.type == type) return kind;
  return kI8;
}

}  // namespace heed_test
