// How a refusal travels: thrown as an Error inside the engine, turned into a status and a message
// at the C boundary, which no exception leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>

#include "api/heed.h"

namespace heed {

/// A status and its message. The text is stored inside, so that reporting needs no memory.
struct Error {
  heed_status status;
  char message[320];
};

/// Throws an Error with a printf-style message that names the field, its value and the bound.
[[noreturn, gnu::format(printf, 2, 3)]] void fail(heed_status status, const char* format, ...);

/// The same of an argument that is invalid.
[[noreturn, gnu::format(printf, 1, 2)]] void refuse(const char* format, ...);

/// A value for %lld of such a message.
inline long long lld(std::int64_t number) { return number; }

/// Throws unless the field `field`, as in "desc.reserved", is 0.
void check_reserved(const char* field, std::uint32_t value);
/// The same, saying why, as in "with desc.pages 0".
void check_zero(const char* field, std::int64_t value, const char* why);

/// The latest message of this thread, for heed_last_error().
void set_last_error(const char* message) noexcept;
const char* last_error() noexcept;

/// Runs function. Messages of refusals say which struct of a request was refused: they begin with
/// `where`, as in "desc.attention: desc.scale ...".
template <class Function>
auto within(const char* where, Function&& function) {
  try {
    return function();
  } catch (const Error& inner) {
    fail(inner.status, "%s: %s", where, inner.message);
  }
}

/// Runs function at the C boundary: an exception becomes a status and the latest message.
template <class Function>
heed_status guarded(Function&& function) noexcept {
  try {
    function();
    return HEED_STATUS_OK;
  } catch (const Error& error) {
    set_last_error(error.message);
    return error.status;
  } catch (const std::bad_alloc&) {
    set_last_error("the C++ runtime is out of memory");
    return HEED_STATUS_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return HEED_STATUS_INTERNAL;
  } catch (...) {
    set_last_error("an exception of unknown type");
    return HEED_STATUS_INTERNAL;
  }
}

template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) refuse("%s is NULL", name);
  return *pointer;
}

/// A text of fixed capacity: longer ones are cut.
class Text {
 public:
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...);
  void add_if(bool condition, const char* text) {
    if (condition) add("%s", text);
  }
  /// Adds ", item", the first one without a comma.
  void add_item(const char* item) { add("%s%s", used_ == 0 ? "" : ", ", item); }

  const char* c_str() const { return text_; }

 private:
  char text_[384] = "";
  std::size_t used_ = 0;
};

/// For users who ask with HEED_VERBOSE or checked mode. Prints "heed: ", the message and a newline
/// to stderr, at once.
[[gnu::format(printf, 1, 2)]] void tell(const char* format, ...) noexcept;

}  // namespace heed
