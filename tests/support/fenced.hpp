// Memory against pages that may not be touched, where a stray access ends the program.
#pragma once

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#include <windows.h>
#undef far
#undef near
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <cstring>
#include <new>

namespace heed_test {

/// Which end of its tensor lies against the forbidden page.
enum class End { kFirst, kLast };

/// Memory between two forbidden pages, all bytes 0.
class Fenced {
 public:
  Fenced(std::size_t bytes, End end) : bytes_(bytes) {
    const std::size_t page = page_bytes();
    const std::size_t inside = (bytes + page - 1) / page * page;
    size_ = inside + 2 * page;
    all_ = static_cast<char*>(forbidden(size_));
    if (all_ == nullptr || (inside > 0 && !allow(all_ + page, inside))) throw std::bad_alloc();
    at_ = all_ + page + (end == End::kLast ? inside - bytes : 0);
  }
  ~Fenced() { release(all_, size_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  void* get() const { return at_; }
  std::size_t bytes() const { return bytes_; }
  void fill(unsigned char byte) const { std::memset(at_, byte, bytes_); }

 private:
#if defined(_WIN32)
  static std::size_t page_bytes() { return 4096; }
  static void* forbidden(std::size_t bytes) {
    return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_NOACCESS);
  }
  static bool allow(void* at, std::size_t bytes) {
    DWORD before = 0;
    return VirtualProtect(at, bytes, PAGE_READWRITE, &before) != 0;
  }
  static void release(void* at, std::size_t) { VirtualFree(at, 0, MEM_RELEASE); }
#else
  static std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  static void* forbidden(std::size_t bytes) {
    void* const at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? nullptr : at;
  }
  static bool allow(void* at, std::size_t bytes) {
    return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
  }
  static void release(void* at, std::size_t bytes) { munmap(at, bytes); }
#endif

  std::size_t bytes_;
  std::size_t size_ = 0;
  char* all_ = nullptr;
  char* at_ = nullptr;
};

}  // namespace heed_test
