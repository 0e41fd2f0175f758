// A text of fixed capacity, for messages; what does not fit is cut.
#pragma once

#include <cstddef>

namespace heed {

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

}  // namespace heed
