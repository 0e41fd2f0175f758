// Structs of the API in every size: as older and newer headers have them, and as none has.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

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

/// Where the fields of a struct end, of which `widths` lists the bytes: L is a heed_layout, S a
/// heed_score_layout and M a heed_matrix_layout. It is what programs were compiled with: widths are
/// only ever appended.
inline std::vector<std::uint32_t> ends_of(const std::string& widths) {
  std::vector<std::uint32_t> ends;
  std::uint32_t end = 0;
  for (const char width : widths) {
    end += width == 'L' ? 40 : width == 'S' ? 72 : width == 'M' ? 32 : width == '8' ? 8 : 4;
    ends.push_back(end);
  }
  ends.erase(ends.begin());  // struct_size alone is no struct
  return ends;
}

inline constexpr const char* kAttentionDesc = "448888888LLLL8888448884444888SSLLL";
inline constexpr const char* kAttentionArgs = "4488888888888888888";

/// Calls check(size, accepted) for every size up to the struct's own. Those that end where no field
/// does are refused, with the nearest that do.
template <class T, class Call, class Check>
void each_size(T given, const char* name, const std::string& widths, Call call, Check check) {
  const std::vector<std::uint32_t> ends = ends_of(widths);
  REQUIRE(ends.back() == sizeof(T));
  std::size_t next = 0;
  for (std::uint32_t size = ends.front(); size <= sizeof(T); ++size) {
    CAPTURE(name, size);
    next += size > ends[next] ? 1 : 0;
    T sized = given;
    sized.struct_size = size;
    forget_last_error();
    const heed_status status = call(&sized);
    const bool accepted = size == ends[next];
    if (accepted) {
      CHECK(std::string(heed_last_error()).find("struct_size") == std::string::npos);
    } else {
      const std::string is = std::string(name) + ".struct_size is " + std::to_string(size);
      const std::string nearest =
          std::to_string(ends[next - 1]) + " and " + std::to_string(ends[next]);
      check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, {is.c_str(), nearest.c_str()});
    }
    check(sized, status, accepted);
  }
}

template <class T, class Call>
void check_every_size(const T& given, const char* name, const std::string& widths, Call call) {
  each_size(given, name, widths, call, [](const T&, heed_status, bool) {});
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
void check_wrong_info_sizes(T given, const std::string& widths, Call call) {
  std::memset(static_cast<void*>(&given), 0xee, sizeof given);
  each_size(given, "info", widths, call, [](const T& info, heed_status status, bool accepted) {
    CHECK((status == HEED_STATUS_OK) == accepted);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&info);
    for (std::size_t i = accepted ? info.struct_size : 4; i < sizeof info; ++i)
      CHECK(bytes[i] == 0xee);
  });
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
