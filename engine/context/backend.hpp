// What computes products: heed's own kernels or, where it was found, a CBLAS library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed {

enum class ProductKind : std::uint8_t { kHeed, kCblas };

/// The kinds compiled in, the preferred one first.
std::size_t product_kind_count();
ProductKind product_kind_at(std::size_t index);
const char* name_of(ProductKind kind);

/// The named kind, or the preferred one for nullptr. Throws an Error that lists the choices;
/// `source` names where the name came from.
ProductKind choose_product_kind(const char* name, const char* source);

}  // namespace heed
