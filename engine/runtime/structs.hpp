// Public structs across versions: each begins with its size as the caller compiled it.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine/runtime/error.hpp"

namespace heed {

/// No struct of the API comes near this size: a larger struct_size is an uninitialised one.
inline constexpr std::uint32_t kMaxStructSize = 4096;

/// The first offset from `end` on that has this alignment.
constexpr std::size_t aligned(std::size_t end, std::size_t alignment) {
  return (end + alignment - 1) / alignment * alignment;
}

/// The offsets at which the fields of a struct end, found by making one from AnyFields.
struct FieldEnds {
  std::size_t ends[64];
  std::size_t count;

  constexpr std::size_t last() const { return count == 0 ? 0 : ends[count - 1]; }
};

/// Converts to whatever field it initialises, and notes where that ends.
struct AnyField {
  FieldEnds* fields;

  template <class Field>
  constexpr operator Field() const {
    struct Alone {
      Field field;
    };
    fields->ends[fields->count++] = aligned(fields->last(), alignof(Field)) + sizeof(Alone);
    return Field{};
  }
};

// Fields are counted by initialising some of them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
/// The ends of so many fields, if T has as many.
template <class T, std::size_t... I>
constexpr auto field_ends(std::index_sequence<I...>)
    -> decltype(T{((void)I, AnyField{nullptr})...}, FieldEnds{}) {
  FieldEnds fields{};
  [[maybe_unused]] const T made{((void)I, AnyField{&fields})...};
  return fields;
}
#pragma GCC diagnostic pop

template <class T, std::size_t kCount, class = void>
inline constexpr bool kHasFields = false;
template <class T, std::size_t kCount>
inline constexpr bool kHasFields<
    T, kCount, std::void_t<decltype(field_ends<T>(std::make_index_sequence<kCount>()))>> = true;

/// The ends of all fields.
template <class T, std::size_t kCount = 2>
constexpr FieldEnds field_ends() {
  if constexpr (kHasFields<T, kCount + 1>) {
    return field_ends<T, kCount + 1>();
  } else {
    return field_ends<T>(std::make_index_sequence<kCount>());
  }
}

/// The sizes that the struct has had in headers up to this one: it ended after one of its fields,
/// or after the padding that followed.
template <class T>
struct StructSizes {
  static constexpr FieldEnds kFields = field_ends<T>();
  static_assert(aligned(kFields.last(), alignof(T)) == sizeof(T), "a field is missing");

  /// The least such size from `size` on; sizeof(T) at most.
  static constexpr std::size_t from(std::size_t size) {
    for (std::size_t i = 1; i < kFields.count; ++i) {  // no header had struct_size alone
      if (kFields.ends[i] >= size) return kFields.ends[i];
      if (aligned(kFields.ends[i], alignof(T)) == size) return size;
    }
    return sizeof(T);
  }
  /// The greatest such size below `size`.
  static constexpr std::size_t below(std::size_t size) {
    std::size_t found = kFields.ends[1];
    for (std::size_t next = found; next < size; next = from(next + 1)) found = next;
    return found;
  }
};

template <class T>
std::uint32_t checked_struct_size(const T* given, const char* name) {
  if (given == nullptr) refuse("%s is NULL", name);
  using Sizes = StructSizes<T>;
  std::uint32_t size;
  std::memcpy(&size, given, sizeof size);
  if (size < 2 * sizeof(std::uint32_t) || size > kMaxStructSize)
    refuse("%s.struct_size is %u; initialise the struct with its _INIT macro", name, size);
  if (size < sizeof(T) && Sizes::from(size) != size)
    refuse("%s.struct_size is %u, inside a field; the nearest where one ends are %zu and %zu", name,
           size, Sizes::below(size), Sizes::from(size));
  return size;
}

/// The caller's struct as this library knows it, of that size, so that it may be read again: fields
/// missing from a shorter one are 0, and additional bytes of a longer one must be 0.
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
  known.struct_size = sizeof known;
  return known;
}

/// Fills the fields of the caller's struct that both sides know; the others become 0.
template <class T>
void write_struct(T* given, T known, const char* name) {
  const std::uint32_t size = checked_struct_size(given, name);
  known.struct_size = size;
  std::memset(static_cast<void*>(given), 0, size);
  std::memcpy(static_cast<void*>(given), &known, size < sizeof known ? size : sizeof known);
}

}  // namespace heed
