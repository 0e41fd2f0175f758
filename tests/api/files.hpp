// Files that heed reads and writes.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

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

}  // namespace api_test
