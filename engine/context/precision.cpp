#include "engine/context/precision.hpp"

namespace heed {

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

}  // namespace heed
