// How exact results have to be: what lets kernels use units of 16-bit numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "api/heed.h"

namespace heed {

enum class Precision : std::uint8_t {
  kExact = HEED_PRECISION_EXACT,      ///< as float32 multiply-adds compute
  kDefault = HEED_PRECISION_DEFAULT,  ///< weights of 16-bit tensors are rounded to 16 bits
  kHigh = HEED_PRECISION_HIGH,        ///< float32 by parts may lose 2^-16 of a product
  kMedium = HEED_PRECISION_MEDIUM,    ///< float32 may be rounded to bfloat16
};

/// "exact", "default", "high" or "medium".
const char* name_of(Precision precision);
std::optional<Precision> precision_named(std::string_view name);

}  // namespace heed
