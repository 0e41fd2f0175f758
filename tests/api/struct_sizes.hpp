// Structs of the API in every size: as older and newer headers have them, and as none has.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "tests/api/support.hpp"

namespace api_test {

/// A struct as a program built against a later header would have it.
template <class T>
struct Longer {
  T known;
  unsigned char later[16];
};

template <class T>
Longer<T> longer(const T& known, unsigned char last) {
  Longer<T> result;
  std::memset(static_cast<void*>(&result), 0, sizeof result);
  result.known = known;
  result.known.struct_size = sizeof result;
  result.later[15] = last;
  return result;
}

/// Hands `call` the struct with sizes that no version has; `name` is what the message calls it.
template <class T, class Call>
void check_wrong_sizes(T given, const char* name, Call call) {
  const std::string field = std::string(name) + ".struct_size";
  for (const std::uint32_t size : {0U, 1U, 4U, 7U, 4097U, 0x7fffffffU, 0xffffffffU}) {
    given.struct_size = size;
    const std::string value = std::to_string(size);
    forget_last_error();
    check_refusal(call(&given), HEED_STATUS_INVALID_ARGUMENT,
                  {field.c_str(), value.c_str(), "_INIT"});
  }
}

template <class T, class Call>
void check_longer(const T& given, const char* name, Call call) {
  const std::string field = std::string(name) + ".struct_size";
  const Longer<T> quiet = longer(given, 0);
  {
    const heed_status status = call(&quiet.known);
    INFO(heed_last_error());
    CHECK(status == HEED_STATUS_OK);
  }
  const Longer<T> asks = longer(given, 1);
  const std::string size = std::to_string(sizeof asks);
  const std::string byte = std::to_string(sizeof asks - 1);
  const std::string bound = std::to_string(sizeof(T));
  forget_last_error();
  check_refusal(call(&asks.known), HEED_STATUS_UNSUPPORTED,
                {field.c_str(), size.c_str(), byte.c_str(), bound.c_str()});
}

/// A wrong struct_size of a struct that the library fills: refused, and not a byte written.
template <class T, class Call>
void check_wrong_info_sizes(T given, Call call) {
  for (const std::uint32_t size : {0U, 1U, 4U, 7U, 4097U, 0xffffffffU}) {
    T info = given;
    info.struct_size = size;
    T before;
    std::memcpy(static_cast<void*>(&before), &info, sizeof info);
    const std::string value = std::to_string(size);
    forget_last_error();
    check_refusal(call(&info), HEED_STATUS_INVALID_ARGUMENT,
                  {"info.struct_size", value.c_str(), "_INIT"});
    CHECK(std::memcmp(&info, &before, sizeof info) == 0);
  }
}

/// A longer struct is filled as far as the library knows it, the rest becomes 0; a shorter one
/// is not written past its end.
template <class T, class Call>
void check_info_sizes(const T& initial, Call call) {
  T known = initial;
  REQUIRE(call(&known) == HEED_STATUS_OK);

  Longer<T> big = longer(initial, 0xee);
  REQUIRE(call(&big.known) == HEED_STATUS_OK);
  CHECK(big.known.struct_size == sizeof big);
  CHECK(big.later[15] == 0);
  const auto* const fields = reinterpret_cast<const unsigned char*>(&known) + sizeof(std::uint32_t);
  const auto* const big_fields =
      reinterpret_cast<const unsigned char*>(&big.known) + sizeof(std::uint32_t);
  CHECK(std::memcmp(fields, big_fields, sizeof(T) - sizeof(std::uint32_t)) == 0);

  T small;
  std::memset(static_cast<void*>(&small), 0xee, sizeof small);
  small.struct_size = 8;
  REQUIRE(call(&small) == HEED_STATUS_OK);
  CHECK(small.struct_size == 8);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&small);
  CHECK(std::memcmp(bytes + 4, fields, 4) == 0);
  for (std::size_t i = 8; i < sizeof small; ++i) CHECK(bytes[i] == 0xee);
}

}  // namespace api_test
