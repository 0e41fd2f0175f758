#include "tests/fuzz/files.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cctype>

#include "tests/fuzz/check.hpp"

namespace heed_test {

MemoryFile::MemoryFile() : file_(memfd_create("case", 0)) {
  demand(file_ >= 0, "no file in memory");
  path_ = "/proc/self/fd/" + std::to_string(file_);
}

MemoryFile::~MemoryFile() { close(file_); }

void MemoryFile::write(const std::string& bytes) {
  const auto size = static_cast<ssize_t>(bytes.size());
  demand(ftruncate(file_, 0) == 0 && pwrite(file_, bytes.data(), bytes.size(), 0) == size,
         "no room for a file in memory");
}

std::string MemoryFile::read() const {
  std::string bytes(static_cast<std::size_t>(lseek(file_, 0, SEEK_END)), '\0');
  const auto size = static_cast<ssize_t>(bytes.size());
  demand(pread(file_, bytes.data(), bytes.size(), 0) == size, "a file in memory is gone");
  return bytes;
}

PrintedErrors::PrintedErrors() : before_(stderr) { stderr = open_memstream(&bytes_, &size_); }

PrintedErrors::~PrintedErrors() {
  std::fclose(stderr);
  std::free(bytes_);
  stderr = before_;
}

std::string PrintedErrors::text() {
  std::fflush(stderr);
  return {bytes_, size_};
}

void check_message(const std::string& text, const char* begins) {
  demand(text.rfind(begins, 0) == 0, "a message does not begin with the file that it is about");
  for (const char c : text)
    demand(!std::iscntrl(static_cast<unsigned char>(c)), "a message can steer a terminal");
}

}  // namespace heed_test
