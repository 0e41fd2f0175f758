// Memory against pages that may not be touched, where a stray access ends the program.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace heed_test {

/// Which end of its tensor lies against the forbidden page.
enum class End { kFirst, kLast };

/// Memory between two forbidden pages, all bytes 0.
class Fenced {
 public:
  Fenced(std::size_t bytes, End end) : bytes_(bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inside = (bytes + page - 1) / page * page;
    size_ = inside + 2 * page;
    void* const all = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    all_ = static_cast<char*>(all);
    if (inside > 0 && mprotect(all_ + page, inside, PROT_READ | PROT_WRITE) != 0)
      throw std::bad_alloc();
    at_ = all_ + page + (end == End::kLast ? inside - bytes : 0);
  }
  ~Fenced() { munmap(all_, size_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  void* get() const { return at_; }
  std::size_t bytes() const { return bytes_; }
  void fill(unsigned char byte) const { std::memset(at_, byte, bytes_); }

 private:
  std::size_t bytes_;
  std::size_t size_ = 0;
  char* all_ = nullptr;
  char* at_ = nullptr;
};

}  // namespace heed_test
