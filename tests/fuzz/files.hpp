// What heed reads and prints, without a disk or a screen.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/problem/draw.hpp"

namespace heed_test {

/// A file in memory.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(const std::string& bytes);
  const char* path() const { return path_.c_str(); }

 private:
  int file_;
  std::string path_;
};

/// Other bytes, or some inserted, removed or replaced: mostly among the first `often`, and where
/// there are `words` some of these too.
void damage(Draw& draw, std::string& bytes, std::size_t often,
            const std::vector<const char*>& words = {});

/// Takes what is printed on stderr while it lives. (Sanitizers print beside it.)
class PrintedErrors {
 public:
  PrintedErrors();
  ~PrintedErrors();
  PrintedErrors(const PrintedErrors&) = delete;
  PrintedErrors& operator=(const PrintedErrors&) = delete;

  std::string text();

 private:
  std::FILE* before_;
  char* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// One line of a message, which nothing from a file may turn into something that steers a terminal.
void check_message(const std::string& text, const char* begins);

}  // namespace heed_test
