#include "engine/runtime/error.hpp"

#include <cstdarg>
#include <cstdio>

#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

thread_local char latest[sizeof(Error::message)] = "";

/// Ends the list of arguments, which its caller has begun.
[[noreturn, gnu::format(printf, 2, 0)]] void throw_error(heed_status status, const char* format,
                                                         std::va_list arguments) {
  Error error{};
  error.status = status;
  std::vsnprintf(error.message, sizeof error.message, format, arguments);
  va_end(arguments);
  throw error;
}

}  // namespace

void fail(heed_status status, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  throw_error(status, format, arguments);
}

void refuse(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  throw_error(HEED_STATUS_INVALID_ARGUMENT, format, arguments);
}

void check_reserved(const char* field, std::uint32_t value) {
  if (value != 0) refuse("%s is %u; it must be 0", field, value);
}

void check_zero(const char* field, std::int64_t value, const char* why) {
  if (value != 0) refuse("%s is %lld; it must be 0 %s", field, lld(value), why);
}

void set_last_error(const char* message) noexcept {
  std::snprintf(latest, sizeof latest, "%s", message);
}

const char* last_error() noexcept { return latest; }

void Size::refuse(const char* what, std::initializer_list<Field> fields) {
  Text text;
  for (const Field& field : fields) {
    char item[64];
    std::snprintf(item, sizeof item, "%s is %lld", field.name, lld(field.value));
    text.add_item(item);
  }
  heed::refuse("%s; %s overflows an address", text.c_str(), what);
}

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
