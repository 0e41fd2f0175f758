// What computes projections: heed's own kernels or, if one was found, a CBLAS library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed {

enum class Backend : std::uint8_t { kHeed, kCblas };

/// The kinds compiled in, the preferred one first.
std::size_t backend_count();
Backend backend_at(std::size_t index);
const char* name_of(Backend kind);

/// The named kind, or the preferred one for nullptr. Throws an Error that lists the choices;
/// `source` names where the name came from.
Backend choose_backend(const char* name, const char* source);

}  // namespace heed
