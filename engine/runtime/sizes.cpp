#include "engine/runtime/sizes.hpp"

#include <cstdio>

#include "engine/runtime/error.hpp"
#include "engine/runtime/text.hpp"

namespace heed {

void Size::refuse(const char* what, std::initializer_list<Field> fields) {
  Text text;
  for (const Field& field : fields) {
    char item[64];
    std::snprintf(item, sizeof item, "%s is %lld", field.name, static_cast<long long>(field.value));
    text.add_item(item);
  }
  fail(HEED_STATUS_INVALID_ARGUMENT, "%s; %s overflows an address", text.c_str(), what);
}

}  // namespace heed
