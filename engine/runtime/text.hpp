// Texts of messages, and the one place that prints them.
#pragma once

#include <cstddef>

namespace heed {

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

/// For those who ask with HEED_VERBOSE or checked mode. Prints "heed: ", the message and a newline
/// to stderr, at once.
[[gnu::format(printf, 1, 2)]] void tell(const char* format, ...) noexcept;

}  // namespace heed
