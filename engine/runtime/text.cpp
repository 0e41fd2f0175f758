#include "engine/runtime/text.hpp"

#include <cstdarg>
#include <cstdio>

namespace heed {

void Text::add(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int written = std::vsnprintf(text_ + used_, sizeof text_ - used_, format, arguments);
  va_end(arguments);
  if (written > 0)
    used_ = used_ + static_cast<std::size_t>(written) < sizeof text_
                ? used_ + static_cast<std::size_t>(written)
                : sizeof text_ - 1;
}

void tell(const char* format, ...) noexcept {
  char text[1024];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "heed: %s\n", text);
}

}  // namespace heed
