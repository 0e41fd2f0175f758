// Public structs across versions: each begins with its size as the caller compiled it.
#pragma once

#include <cstdint>
#include <cstring>

#include "engine/runtime/error.hpp"

namespace heed {

/// No struct of the API comes near this size: a larger struct_size is an uninitialised one.
inline constexpr std::uint32_t kMaxStructSize = 4096;

inline std::uint32_t checked_struct_size(const void* given, const char* name) {
  if (given == nullptr) fail(HEED_STATUS_INVALID_ARGUMENT, "%s is NULL", name);
  std::uint32_t size;
  std::memcpy(&size, given, sizeof size);
  if (size < 2 * sizeof(std::uint32_t) || size > kMaxStructSize)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "%s.struct_size is %u; initialise the struct with its _INIT macro", name, size);
  return size;
}

/// The caller's struct as this library knows it: fields that a shorter one lacks are 0, and
/// what a longer one adds must be 0.
template <class T>
T read_struct(const T* given, const char* name) {
  const std::uint32_t size = checked_struct_size(given, name);
  T known;
  std::memset(&known, 0, sizeof known);
  std::memcpy(&known, given, size < sizeof known ? size : sizeof known);
  const char* const bytes = reinterpret_cast<const char*>(given);
  for (std::size_t i = sizeof known; i < size; ++i)
    if (bytes[i] != 0)
      fail(HEED_STATUS_UNSUPPORTED,
           "%s.struct_size is %u and byte %zu is not 0; this library knows %zu bytes", name, size,
           i, sizeof known);
  return known;
}

/// Fills the part of the caller's struct that both sides know; the rest becomes 0.
template <class T>
void write_struct(T* given, T known, const char* name) {
  const std::uint32_t size = checked_struct_size(given, name);
  known.struct_size = size;
  std::memset(static_cast<void*>(given), 0, size);
  std::memcpy(static_cast<void*>(given), &known, size < sizeof known ? size : sizeof known);
}

}  // namespace heed
