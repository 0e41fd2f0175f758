// The four number formats of tensors, spelled out bit by bit: what checks a library must not
// share its conversions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed::perf {

/// `type` is a heed_dtype other than HEED_DTYPE_DEFAULT, here and below.
std::size_t size_of(std::uint32_t type);

double read_number(std::uint32_t type, const void* memory);

/// Rounds to nearest even. bfloat16 is rounded by way of float32.
void write_number(std::uint32_t type, double number, void* memory);

/// How far rounding to a format can be off: by `unit` times the number, or by `underflow` where it
/// is too small for that.
struct Rounding {
  double unit;
  double underflow;
};
Rounding rounding_of(std::uint32_t type);

}  // namespace heed::perf
