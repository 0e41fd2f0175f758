// A caller's memory that is watched, and refused if a test wants so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "tests/support/calls.hpp"

namespace heed_test {

/// An allocator that counts its blocks, checks what it is given back, and refuses the n-th request
/// if told to. It takes memory from aligned_alloc alone, which may fail, and is for one thread at a
/// time: heed asks on the calling thread.
class CountingAllocator {
 public:
  static constexpr std::size_t kNever = SIZE_MAX;

  explicit CountingAllocator(std::size_t refuse_at = kNever) : refuse_at_(refuse_at) {
    given_.user = this;
    given_.allocate = allocate;
    given_.release = release;
  }
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  const heed_allocator& get() const { return given_; }
  /// Of a serial context that gets its memory here.
  heed_context_options options() const {
    auto options = sized<heed_context_options>();
    options.executor_name = "serial";
    options.allocator = &given_;
    return options;
  }

  /// Counts from here on; the n-th request from now is refused.
  void restart(std::size_t refuse_at = kNever) {
    requests_ = 0;
    refuse_at_ = refuse_at;
  }
  std::size_t requests() const { return requests_; }
  std::size_t live() const { return live_; }
  std::size_t bytes() const { return bytes_; }
  /// Whether all sizes and alignments made sense, and what was given back was this memory.
  bool sound() const { return sound_; }
  /// Of the last request that was refused.
  std::size_t refused_bytes() const { return refused_bytes_; }

 private:
  /// Stands before each block, an alignment away.
  struct Header {
    CountingAllocator* owner;
    std::size_t size, ahead;
  };

  static void* allocate(void* user, std::size_t size, std::size_t alignment) {
    auto& self = *static_cast<CountingAllocator*>(user);
    self.sound_ = self.sound_ && size > 0 && alignment > 0 && (alignment & (alignment - 1)) == 0;
    if (self.requests_++ == self.refuse_at_) {
      self.refused_bytes_ = size;
      return nullptr;
    }
    const std::size_t ahead = std::max<std::size_t>(alignment, 64);
    auto* const all = static_cast<char*>(std::aligned_alloc(ahead, (size / ahead + 2) * ahead));
    if (all == nullptr) return nullptr;
    reinterpret_cast<Header*>(all + ahead)[-1] = {&self, size, ahead};
    ++self.live_;
    self.bytes_ += size;
    return all + ahead;
  }

  static void release(void* user, void* memory, std::size_t size) {
    auto& self = *static_cast<CountingAllocator*>(user);
    Header& header = static_cast<Header*>(memory)[-1];
    self.sound_ = self.sound_ && header.owner == &self && header.size == size;
    if (header.owner != &self) return;  // not from here, or given back twice
    header.owner = nullptr;
    --self.live_;
    self.bytes_ -= header.size;
    std::free(static_cast<char*>(memory) - header.ahead);
  }

  heed_allocator given_ = sized<heed_allocator>();
  std::size_t refuse_at_;
  std::size_t requests_ = 0;
  std::size_t live_ = 0;
  std::size_t bytes_ = 0;
  std::size_t refused_bytes_ = 0;
  bool sound_ = true;
};

}  // namespace heed_test
