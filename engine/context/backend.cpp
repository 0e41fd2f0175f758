#include "engine/context/backend.hpp"

#include <cstring>

#include "engine/runtime/error.hpp"
#include "engine/runtime/text.hpp"

namespace heed {
namespace {

constexpr ProductKind kKinds[] = {
    ProductKind::kHeed,
#if defined(HEED_WITH_CBLAS)
    ProductKind::kCblas,
#endif
};

}  // namespace

std::size_t product_kind_count() { return sizeof kKinds / sizeof kKinds[0]; }
ProductKind product_kind_at(std::size_t index) { return kKinds[index]; }
const char* name_of(ProductKind kind) { return kind == ProductKind::kHeed ? "heed" : "cblas"; }

ProductKind choose_product_kind(const char* name, const char* source) {
  if (name == nullptr) return kKinds[0];
  Text choices;
  for (const ProductKind kind : kKinds) {
    if (std::strcmp(name, name_of(kind)) == 0) return kind;
    choices.add_item(name_of(kind));
  }
  fail(HEED_STATUS_INVALID_ARGUMENT, "%s is \"%.40s\"; this build has: %s", source, name,
       choices.c_str());
}

}  // namespace heed
