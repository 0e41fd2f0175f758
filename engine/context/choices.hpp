// What a context lets its users choose: how exact results are, and what computes projections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "api/heed.h"

namespace heed {

/// How exact results have to be: on that depends which kernels may use units of 16-bit numbers.
enum class Precision : std::uint8_t {
  kExact = HEED_PRECISION_EXACT,      ///< as float32 multiply-adds compute
  kDefault = HEED_PRECISION_DEFAULT,  ///< weights of 16-bit tensors are rounded to 16 bits
  kHigh = HEED_PRECISION_HIGH,        ///< float32 by parts may lose 2^-16 of a product
  kMedium = HEED_PRECISION_MEDIUM,    ///< float32 may be rounded to bfloat16
};

/// "exact", "default", "high" or "medium".
const char* name_of(Precision precision);
std::optional<Precision> precision_named(std::string_view name);

/// heed's own kernels compute projections or, if one was found, a CBLAS library.
enum class Backend : std::uint8_t { kHeed, kCblas };

/// The kinds compiled in, the preferred one first.
std::size_t backend_count();
Backend backend_at(std::size_t index);
const char* name_of(Backend kind);

/// The named kind, or the preferred one for nullptr. Throws an Error that lists the choices;
/// `source` names where the name came from.
Backend choose_backend(const char* name, const char* source);

}  // namespace heed
