// What every call must keep to, and what happens where one does not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/element.hpp"
#include "tests/problem/draw.hpp"
#include "tests/problem/extent.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

/// Says what is wrong and ends the process, for libFuzzer to keep the case.
[[noreturn]] void finding(const std::string& what);
void demand(bool right, const char* what);

/// A call that did not succeed: a status that says so, and a message that names one of the fields,
/// given as their beginnings ("desc.").
void check_refused(heed_status status, std::initializer_list<const char*> fields);

/// A valid call succeeds, but that memory may not be had.
void check_accepted(heed_status status);

/// Of what heed has accepted: demands that there are such tensors and that addresses reach them.
/// Whether it is worth allocating here.
bool check_extent(const Extent& extent);
/// The same for keys or values, which may be of 8 bits.
bool check_stored(const Extent& extent);

/// Nobody has written any of it.
void check_untouched(const Tensor& tensor);
/// Elements within the oracle's bounds, and nothing else written.
void check_equal(const char* what, const Tensor& tensor, const std::vector<Element>& want);
/// Of an output that there may be memory for: untouched where `pointer` does not ask for it.
void check_wanted(const char* what, const std::optional<Tensor>& tensor, const void* pointer,
                  const std::vector<Element>& want);

/// The scalar instruction set, one thread, and an allocator that keeps to what it is asked for,
/// with redzones around it, and has little.
const Context& fuzz_context();

/// So many cases more; the process says at its end how many there were.
void count_cases(int cases);

/// How often the one case that the fuzzer's bytes make is damaged, each time in another way.
inline constexpr int kVariants = 63;

/// Calls once(draw, damaged): with the fuzzer's bytes and nothing damaged, and then with random
/// numbers that follow from them.
template <class Once>
void each_variant(Draw& draw, Once&& once) {
  const std::uint64_t seed = draw.bits();
  count_cases(1 + kVariants);
  once(draw, false);
  for (int n = 0; n < kVariants; ++n) {
    Draw random(seed + static_cast<std::uint64_t>(n));
    once(random, true);
  }
}

/// Planning takes microseconds, a run beside the oracle hundreds: not every variant is run.
inline bool worth_running(Draw& draw, bool damaged) { return !damaged || draw.one_in(12); }

/// A struct as callers hand it in: just struct_size bytes, seldom of another version or size.
template <class T>
class Versioned {
 public:
  Versioned(Draw& draw, const T& fields) : size_(sizeof(T)) {
    if (draw.one_in(16)) {
      size_ = draw.one_in(4) ? static_cast<std::uint32_t>(draw.hostile())
                             : static_cast<std::uint32_t>(draw.integer(0, sizeof(T) + 24));
      odd_ = true;
    }
    // Of what claims to be larger than this no library reads more than struct_size.
    bytes_.resize(size_ < 4 ? 4 : size_ > 4096 ? 4 : size_);
    bytes_.shrink_to_fit();
    std::memcpy(bytes_.data(), &fields, std::min(bytes_.size(), sizeof(T)));
    std::memcpy(bytes_.data(), &size_, sizeof size_);
    if (bytes_.size() > sizeof(T) && draw.one_in(2))
      bytes_[sizeof(T) + draw.bits() % (bytes_.size() - sizeof(T))] = 1;
  }

  T* get() { return reinterpret_cast<T*>(bytes_.data()); }
  const T* get() const { return reinterpret_cast<const T*>(bytes_.data()); }

  /// Of another size, so that it may be refused for that.
  bool odd() const { return odd_; }

  /// What it says to a library that knows T: what is not there is 0.
  T known() const {
    T fields;
    std::memset(&fields, 0, sizeof fields);
    std::memcpy(&fields, bytes_.data(), std::min(bytes_.size(), sizeof(T)));
    return fields;
  }

 private:
  std::uint32_t size_;
  bool odd_ = false;
  std::vector<unsigned char> bytes_;
};

}  // namespace heed_test
