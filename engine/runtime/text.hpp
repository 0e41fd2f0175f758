// A short text of fixed capacity, for lists of choices in error messages.
#pragma once

#include <cstdio>
#include <cstring>

namespace heed {

class Text {
 public:
  /// Appends ", item"; what does not fit is cut.
  void append_item(const char* item) {
    const std::size_t used = std::strlen(text_);
    std::snprintf(text_ + used, sizeof text_ - used, "%s%s", used == 0 ? "" : ", ", item);
  }
  const char* c_str() const { return text_; }

 private:
  char text_[256] = "";
};

}  // namespace heed
