// A caller's memory that is watched.
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include "heed.h"

namespace api_test {

/// An allocator that remembers every block, checks what it is given back, and refuses the
/// n-th request if told to.
class CountingAllocator {
 public:
  static constexpr std::size_t kNever = SIZE_MAX;

  explicit CountingAllocator(std::size_t refuse_at = kNever) : refuse_at_(refuse_at) {}

  heed_allocator get() {
    heed_allocator allocator = HEED_ALLOCATOR_INIT;
    allocator.user = this;
    allocator.allocate = [](void* user, std::size_t size, std::size_t alignment) {
      return static_cast<CountingAllocator*>(user)->allocate(size, alignment);
    };
    allocator.release = [](void* user, void* memory, std::size_t size) {
      static_cast<CountingAllocator*>(user)->release(memory, size);
    };
    return allocator;
  }

  /// Counts from here on; the n-th request from now is refused.
  void restart(std::size_t refuse_at = kNever) {
    requests_ = 0;
    refuse_at_ = refuse_at;
  }
  std::size_t requests() const { return requests_; }
  std::size_t live() const { return blocks_.size(); }
  std::size_t bytes() const {
    std::size_t all = 0;
    for (const Block& block : blocks_) all += block.size;
    return all;
  }
  bool sound() const { return sound_; }

 private:
  struct Block {
    void* memory;
    std::size_t size;
    std::size_t alignment;
  };

  void* allocate(std::size_t size, std::size_t alignment) {
    sound_ = sound_ && size > 0 && alignment > 0 && (alignment & (alignment - 1)) == 0;
    if (requests_++ == refuse_at_) return nullptr;
    void* const memory = ::operator new (size, std::align_val_t{alignment});
    blocks_.push_back({memory, size, alignment});
    return memory;
  }

  void release(void* memory, std::size_t size) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].memory != memory) continue;
      sound_ = sound_ && blocks_[i].size == size;
      ::operator delete (memory, std::align_val_t{blocks_[i].alignment});
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    sound_ = false;  // not ours, or given back twice
  }

  std::size_t refuse_at_;
  std::size_t requests_ = 0;
  bool sound_ = true;
  std::vector<Block> blocks_;
};

}  // namespace api_test
