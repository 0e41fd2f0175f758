#include "engine/runtime/allocator.hpp"

#include <cstdint>
#include <cstdlib>
#if defined(_WIN32)
#include <malloc.h>
#endif

namespace heed {
namespace {

void* c_allocate(void*, std::size_t size, std::size_t alignment) {
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (rounded < size) return nullptr;
#if defined(_WIN32)
  return _aligned_malloc(rounded, alignment);
#else
  return std::aligned_alloc(alignment < sizeof(void*) ? sizeof(void*) : alignment, rounded);
#endif
}

void c_release(void*, void* memory, std::size_t) {
#if defined(_WIN32)
  _aligned_free(memory);
#else
  std::free(memory);
#endif
}

}  // namespace

heed_allocator resolve_allocator(const heed_allocator* given) {
  if (given == nullptr)
    return {static_cast<std::uint32_t>(sizeof(heed_allocator)), 0, nullptr, c_allocate, c_release};
  check_reserved("options.allocator.reserved", given->reserved);
  if (given->allocate == nullptr)
    refuse("options.allocator.allocate is NULL; it must be a function");
  if (given->release == nullptr) refuse("options.allocator.release is NULL; it must be a function");
  return *given;
}

void* allocate(const heed_allocator& from, std::size_t size, std::size_t alignment) {
  void* const memory = from.allocate(from.user, size, alignment);
  if (memory == nullptr)
    fail(HEED_STATUS_OUT_OF_MEMORY, "the allocator returned NULL for %zu bytes", size);
  return memory;
}

}  // namespace heed
