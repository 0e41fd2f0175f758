#include "engine/context/choices.hpp"

#include <cstring>

#include "engine/runtime/error.hpp"
#include "engine/runtime/text.hpp"

namespace heed {
namespace {

constexpr Backend kKinds[] = {
    Backend::kHeed,
#if defined(HEED_WITH_CBLAS)
    Backend::kCblas,
#endif
};

}  // namespace

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::kExact:
      return "exact";
    case Precision::kDefault:
      return "default";
    case Precision::kHigh:
      return "high";
    case Precision::kMedium:
      break;
  }
  return "medium";
}

std::optional<Precision> precision_named(std::string_view name) {
  for (const Precision precision :
       {Precision::kExact, Precision::kDefault, Precision::kHigh, Precision::kMedium})
    if (name == name_of(precision)) return precision;
  return std::nullopt;
}

std::size_t backend_count() { return sizeof kKinds / sizeof kKinds[0]; }
Backend backend_at(std::size_t index) { return kKinds[index]; }
const char* name_of(Backend kind) { return kind == Backend::kHeed ? "heed" : "cblas"; }

Backend choose_backend(const char* name, const char* source) {
  if (name == nullptr) return kKinds[0];
  Text choices;
  for (const Backend kind : kKinds) {
    if (std::strcmp(name, name_of(kind)) == 0) return kind;
    choices.add_item(name_of(kind));
  }
  fail(HEED_STATUS_INVALID_ARGUMENT, "%s is \"%.40s\"; this build has: %s", source, name,
       choices.c_str());
}

}  // namespace heed
