// A context's memory: the caller's allocator or the C library's.
#pragma once

#include <new>
#include <type_traits>
#include <utility>

#include "api/heed.h"
#include "engine/kernels/table.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

/// Throws an Error with HEED_STATUS_OUT_OF_MEMORY rather than return nullptr.
inline void* allocate(const heed_allocator& from, std::size_t size, std::size_t alignment) {
  void* const memory = from.allocate(from.user, size, alignment);
  if (memory == nullptr)
    fail(HEED_STATUS_OUT_OF_MEMORY, "the allocator returned NULL for %zu bytes", size);
  return memory;
}

template <class T, class... Arguments>
T* make(const heed_allocator& from, Arguments&&... arguments) {
  void* const memory = allocate(from, sizeof(T), alignof(T));
  try {
    return new (memory) T{std::forward<Arguments>(arguments)...};
  } catch (...) {
    from.release(from.user, memory, sizeof(T));
    throw;
  }
}

/// Destroys an object of make(). The allocator is copied first: it may live in the object.
template <class T>
void destroy(const heed_allocator& from, T* object) noexcept {
  const heed_allocator allocator = from;
  object->~T();
  allocator.release(allocator.user, object, sizeof(T));
}

/// Owns memory of an allocator: `size` values, uninitialised.
template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Array() = default;
  Array(const heed_allocator& allocator, std::int64_t size)
      : allocator_(allocator), size_(static_cast<std::size_t>(size)) {
    if (!(Size(size) * sizeof(T)).fits())
      fail(HEED_STATUS_OUT_OF_MEMORY, "%zu elements of %zu bytes overflow an address", size_,
           sizeof(T));
    if (size > 0) data_ = static_cast<T*>(allocate(allocator, bytes(), kAlignment));
  }
  ~Array() {
    if (data_ != nullptr) allocator_.release(allocator_.user, data_, bytes());
  }
  Array(Array&& other) noexcept { swap(other); }
  Array& operator=(Array&& other) noexcept {
    Array taken(std::move(other));
    swap(taken);
    return *this;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](std::int64_t i) { return data_[i]; }
  const T& operator[](std::int64_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }

 private:
  void swap(Array& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  heed_allocator allocator_{};
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace heed
