// An aligned array of numbers between canaries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/canary.hpp"

namespace heed_test {

/// `size` numbers, canaries at first, with kGuard more canaries before and after them. They
/// begin `misalign` numbers after a multiple of 64 bytes.
template <class Real>
class BasicBuffer {
 public:
  static constexpr std::size_t kGuard = 64;

  explicit BasicBuffer(std::size_t size, std::size_t misalign = 0)
      : size_(size),
        misalign_(misalign),
        storage_(size + 2 * kGuard + 16 + misalign, canary_of<Real>()) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    begin_ = kGuard + (64 - address % 64) % 64 / sizeof(Real) + misalign;
  }

  /// A copy is aligned like the original, wherever it comes to lie.
  BasicBuffer(const BasicBuffer& other) : BasicBuffer(other.size_, other.misalign_) {
    std::copy_n(other.data() - kGuard, size_ + 2 * kGuard, data() - kGuard);
  }
  BasicBuffer(BasicBuffer&&) = default;
  BasicBuffer& operator=(const BasicBuffer&) = delete;
  BasicBuffer& operator=(BasicBuffer&&) = default;

  Real* data() { return storage_.data() + begin_; }
  const Real* data() const { return storage_.data() + begin_; }
  std::size_t size() const { return size_; }
  Real& operator[](std::size_t i) { return data()[i]; }
  Real operator[](std::size_t i) const { return data()[i]; }

  template <class Function>
  void fill(Function&& function) {
    std::generate_n(data(), size_, function);
  }

  /// Whether everything from element `used` on, and everything before the first, is untouched.
  bool intact_from(std::size_t used) const {
    return std::all_of(storage_.begin(), storage_.begin() + offset(0), is_canary) &&
           std::all_of(storage_.begin() + offset(used), storage_.end(), is_canary);
  }
  bool intact() const { return intact_from(size_); }

 private:
  std::ptrdiff_t offset(std::size_t i) const { return static_cast<std::ptrdiff_t>(begin_ + i); }

  std::size_t size_;
  std::size_t misalign_;
  std::size_t begin_ = 0;
  std::vector<Real> storage_;
};

using Buffer = BasicBuffer<float>;

}  // namespace heed_test
