// Files that heed reads and writes, and what it prints, also in checked mode.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/api/support.hpp"

namespace api_test {

/// Without a name, as long as it lives; it holds these bytes and stands at its beginning.
class File {
 public:
  explicit File(const std::string& bytes = "") : file_(std::tmpfile()) {
    REQUIRE(file_ != nullptr);
    REQUIRE(write(get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    rewind();
    path_ = "/dev/fd/" + std::to_string(get());
  }
  int get() const { return fileno(file_.get()); }
  const char* path() const { return path_.c_str(); }
  void rewind() const { REQUIRE(lseek(get(), 0, SEEK_SET) == 0); }
  off_t place() const { return lseek(get(), 0, SEEK_CUR); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };

  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
};

/// All that can be read, so much at a time.
inline std::string drain(int descriptor, std::size_t portion = 1 << 16) {
  std::string all;
  std::string some(portion, '\0');
  for (;;) {
    const ssize_t got = read(descriptor, some.data(), some.size());
    if (got == 0) return all;
    if (got > 0) all.append(some, 0, static_cast<std::size_t>(got));
  }
}

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

inline void check_contains(const std::string& text, const std::vector<std::string>& parts) {
  CAPTURE(text);
  for (const std::string& part : parts) {
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
