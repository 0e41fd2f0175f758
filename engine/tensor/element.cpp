#include "engine/tensor/element.hpp"

namespace heed {

std::int64_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return 4;
    case ElementType::kF64:
      return 8;
    case ElementType::kBf16:
    case ElementType::kF16:
      return 2;
    case ElementType::kI8:
    case ElementType::kF8E4M3:
    case ElementType::kMask:
      break;
  }
  return 1;
}

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return "f32";
    case ElementType::kF64:
      return "f64";
    case ElementType::kBf16:
      return "bf16";
    case ElementType::kF16:
      return "f16";
    case ElementType::kI8:
      return "i8";
    case ElementType::kF8E4M3:
      return "f8_e4m3";
    case ElementType::kMask:
      break;
  }
  return "mask";
}

}  // namespace heed
