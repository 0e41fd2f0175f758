#include "engine/runtime/tell.hpp"

#include <cstdarg>
#include <cstdio>

namespace heed {

void tell(const char* format, ...) noexcept {
  char text[1024];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "heed: %s\n", text);
}

}  // namespace heed
