// A context's memory: the caller's allocator or the C library's.
#pragma once

#include <new>
#include <utility>

#include "api/heed.h"
#include "engine/runtime/error.hpp"

namespace heed {

/// Checks a caller's allocator; the C library's for nullptr.
heed_allocator resolve_allocator(const heed_allocator* given);

/// Throws an Error with HEED_STATUS_OUT_OF_MEMORY rather than return nullptr.
void* allocate(const heed_allocator& from, std::size_t size, std::size_t alignment);

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

/// Destroys what make() made. The allocator is copied first: it may live in the object.
template <class T>
void destroy(const heed_allocator& from, T* object) noexcept {
  const heed_allocator allocator = from;
  object->~T();
  allocator.release(allocator.user, object, sizeof(T));
}

}  // namespace heed
