#include "tests/fuzz/files.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
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

void damage(Draw& draw, std::string& bytes, std::size_t often,
            const std::vector<const char*>& words) {
  if (draw.one_in(8)) bytes = draw.rest();
  for (std::int64_t n = draw.integer(1, 3); n > 0; --n) {
    const std::size_t end = draw.one_in(4) ? bytes.size() : std::min(bytes.size(), often);
    const std::size_t at = draw.index(end + 1);
    const std::uint32_t kind = draw.choice(words.empty() ? 3 : 4);
    if (kind == 0 && at < bytes.size()) bytes[at] = static_cast<char>(draw.bits());
    if (kind == 1) bytes.erase(at, 1 + draw.index(8));
    if (kind == 2) bytes.insert(at, draw.text(12));
    if (kind == 3) bytes.insert(at, std::to_string(draw.hostile()));
    if (kind == 4) bytes.insert(at, draw.pick(words));
  }
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
