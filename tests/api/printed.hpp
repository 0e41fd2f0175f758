// What the library prints, also in checked mode.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <initializer_list>
#include <string>

#include "tests/api/files.hpp"

namespace api_test {

/// What is written to a file descriptor between construction and text().
class Captured {
 public:
  explicit Captured(int descriptor) : descriptor_(descriptor) {
    flush();
    saved_ = dup(descriptor_);
    REQUIRE(saved_ >= 0);
    dup2(file_.get(), descriptor_);
  }
  ~Captured() { restore(); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  std::string text() {
    restore();
    file_.rewind();
    return drain(file_.get());
  }

 private:
  static void flush() {
    (void)std::fflush(stdout);
    (void)std::fflush(stderr);
  }
  void restore() {
    if (saved_ < 0) return;
    flush();
    dup2(saved_, descriptor_);
    close(saved_);
    saved_ = -1;
  }

  int descriptor_;
  File file_;
  int saved_ = -1;
};

inline void check_contains(const std::string& text, std::initializer_list<const char*> parts) {
  CAPTURE(text);
  for (const char* const part : parts) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

inline Context checked_context(std::uint32_t check) {
  heed_context_options options = serial_options();
  options.check = check;
  return make_context(&options);
}

}  // namespace api_test
