// Structs of the API in every size: as older and newer headers have them, and as none has.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/api/support.hpp"

namespace api_test {

using StructBytes = std::vector<unsigned char>;

inline void set_size(StructBytes& given, std::uint32_t size) {
  std::memcpy(given.data(), &size, sizeof size);
}

/// Where the fields of a struct end, of which `widths` lists the bytes: L is a heed_layout, S a
/// heed_score_layout, M a heed_matrix_layout and R a heed_rotary. It is what programs were compiled
/// with: widths are only ever appended.
inline std::vector<std::uint32_t> ends_of(const std::string& widths) {
  std::vector<std::uint32_t> ends;
  std::uint32_t end = 0;
  for (const char width : widths) {
    end += width == 'L'   ? 40
           : width == 'S' ? 72
           : width == 'M' ? 32
           : width == 'R' ? 56
           : width == '8' ? 8
                          : 4;
    ends.push_back(end);
  }
  ends.erase(ends.begin());  // struct_size alone is no struct
  return ends;
}

/// A struct that a call takes or fills.
struct Given {
  std::string called;  ///< in messages
  std::string widths;
  StructBytes good;
  std::function<heed_status(void*)> call;
};

template <class T, class Call>
Given given(const char* called, const char* widths, const T& good, Call call) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&good);
  return {called, widths, {bytes, bytes + sizeof(T)}, [call](void* taken) {
            forget_last_error();
            return call(static_cast<T*>(taken));
          }};
}

/// Calls check(size, words) with the words of a refusal, none if it is accepted, for every size up
/// to the struct's own and for some that are absurd. Those that end where no field does are
/// refused, with the nearest that do.
template <class Check>
inline void each_size(const Given& s, Check check) {
  const std::vector<std::uint32_t> ends = ends_of(s.widths);
  REQUIRE(ends.back() == s.good.size());
  for (const std::uint32_t size : {0U, 1U, 4U, 7U, 4097U, 0x7fffffffU, 0xffffffffU})
    check(size, std::string("initialise the struct with its _INIT macro"));
  auto next = ends.begin();
  for (std::uint32_t size = ends.front(); size <= ends.back(); ++size) {
    if (size > *next) ++next;
    if (size == *next) {
      check(size, std::string());
    } else {
      check(size, "the nearest where one ends are " + std::to_string(next[-1]) + " and " +
                      std::to_string(*next));
    }
  }
}

inline void check_size_refused(const Given& s, heed_status status, std::uint32_t size,
                               const std::string& words) {
  check_refusal(status, HEED_STATUS_INVALID_ARGUMENT,
                s.called + ".struct_size is " + std::to_string(size) + " ... " + words);
}

/// As a program built against a later header would have it: 16 bytes more.
inline StructBytes longer(const Given& s, unsigned char last) {
  StructBytes bytes = s.good;
  bytes.resize(bytes.size() + 16, 0);
  bytes.back() = last;
  set_size(bytes, static_cast<std::uint32_t>(bytes.size()));
  return bytes;
}

/// A shorter struct is the whole one with defaults for what it lacks, whatever lies behind it.
inline void check_taken(const Given& s) {
  CAPTURE(s.called);
  each_size(s, [&](std::uint32_t size, const std::string& refused) {
    CAPTURE(size);
    StructBytes shorter = s.good;
    set_size(shorter, size);
    if (!refused.empty()) {
      check_size_refused(s, s.call(shorter.data()), size, refused);
      return;
    }
    StructBytes whole = s.good;
    std::fill(shorter.begin() + size, shorter.end(), 0xee);
    std::fill(whole.begin() + size, whole.end(), 0);
    const heed_status want = s.call(whole.data());
    const std::string message = want == HEED_STATUS_OK ? "" : heed_last_error();
    CHECK(message.find("struct_size") == std::string::npos);
    check_refusal(s.call(shorter.data()), want, message);
  });
  const heed_status quiet = s.call(longer(s, 0).data());
  INFO(heed_last_error());
  CHECK(quiet == HEED_STATUS_OK);
  StructBytes asks = longer(s, 1);
  const std::string size = std::to_string(asks.size());
  const std::string byte = std::to_string(asks.size() - 1);
  const std::string bound = std::to_string(s.good.size());
  check_refusal(s.call(asks.data()), HEED_STATUS_UNSUPPORTED,
                s.called + ".struct_size is " + size + " and byte " + byte +
                    " is not 0; this library knows " + bound + " bytes");
}

/// A struct is filled as far as both sides know it: a longer one ends in zeros, nothing is written
/// past the end of a shorter one or into one that is refused.
inline void check_filled(const Given& s) {
  CAPTURE(s.widths);
  StructBytes known = s.good;
  REQUIRE(s.call(known.data()) == HEED_STATUS_OK);
  each_size(s, [&](std::uint32_t size, const std::string& refused) {
    CAPTURE(size);
    StructBytes info(s.good.size(), 0xee);
    set_size(info, size);
    StructBytes want = info;
    if (!refused.empty())
      check_size_refused(s, s.call(info.data()), size, refused);
    else
      CHECK(s.call(info.data()) == HEED_STATUS_OK);
    if (refused.empty()) std::copy(known.begin() + 4, known.begin() + size, want.begin() + 4);
    CHECK(info == want);
  });
  StructBytes big = longer(s, 0xee);
  StructBytes want = longer(s, 0);
  std::copy(known.begin() + 4, known.end(), want.begin() + 4);
  CHECK(s.call(big.data()) == HEED_STATUS_OK);
  CHECK(big == want);
}

}  // namespace api_test
