// A tensor [batch, heads, rows, features] of any type in any layout, with canaries wherever it has
// no element.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "api/heed.h"
#include "tests/support/canary.hpp"
#include "tests/support/dtype.hpp"

namespace heed_test {

using Axes = std::array<std::int64_t, 4>;

/// How a tensor lies in memory.
enum class Arrangement {
  kDefault,           ///< all strides 0 in the descriptor: contiguous [B, H, L, D]
  kContiguous,        ///< the same, with the strides spelled out
  kRowsOutside,       ///< [B, L, H, D], as projections leave it
  kTransposed,        ///< [B, H, D, L]: the feature stride is L
  kBatchInside,       ///< [H, L, D, B]
  kPadded,            ///< [B, H, L, D] with gaps after every row, head and batch
  kRowsReversed,      ///< the last row first
  kFeaturesReversed,  ///< the last feature first
  kCount
};

inline const char* name_of(Arrangement arrangement) {
  constexpr const char* kNames[] = {"default",       "contiguous",       "rows-outside",
                                    "transposed",    "batch-inside",     "padded",
                                    "rows-reversed", "features-reversed"};
  return kNames[static_cast<int>(arrangement)];
}

/// Strides for axes nested in the given order, outermost first, `gap` elements after every axis.
inline Axes nested(const Axes& shape, const std::array<std::size_t, 4>& order, std::int64_t gap) {
  Axes strides{};
  std::int64_t step = 1;
  for (std::size_t i = 4; i-- > 0;) {
    strides[order[i]] = step;
    step = step * std::max(shape[order[i]], std::int64_t{1}) + gap;
  }
  return strides;
}

inline Axes strides_of(Arrangement arrangement, const Axes& shape) {
  Axes strides = nested(shape, {0, 1, 2, 3}, arrangement == Arrangement::kPadded ? 5 : 0);
  if (arrangement == Arrangement::kRowsOutside) strides = nested(shape, {0, 2, 1, 3}, 0);
  if (arrangement == Arrangement::kTransposed) strides = nested(shape, {0, 1, 3, 2}, 0);
  if (arrangement == Arrangement::kBatchInside) strides = nested(shape, {1, 2, 3, 0}, 0);
  if (arrangement == Arrangement::kRowsReversed) strides[2] = -strides[2];
  if (arrangement == Arrangement::kFeaturesReversed) strides[3] = -strides[3];
  return strides;
}

/// Elements of a type, canaries at first, with kGuard bytes of canaries around them.
class Memory {
 public:
  static constexpr std::size_t kGuard = 256;

  /// `misalign` elements after a multiple of 64 bytes.
  Memory(std::uint32_t dtype, std::size_t elements, std::size_t misalign)
      : dtype_(dtype),
        size_(elements),
        misalign_(misalign),
        storage_(elements * width() + 2 * kGuard + 64 + misalign * width()) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
    begin_ = kGuard + (64 - address % 64) % 64 + misalign * width();
    const std::size_t count = whole();  // not in the loop, where every store might change it
    const std::uint64_t bits = canary();
    for (std::size_t i = 0; i < count; ++i) store_bits(dtype, guard(), index(i), bits);
  }

  /// A copy is aligned like the original, wherever it comes to lie.
  Memory(const Memory& other) : Memory(other.dtype_, other.size_, other.misalign_) {
    std::copy_n(other.guard(), whole() * width(), guard());
  }
  Memory(Memory&&) = default;
  Memory& operator=(const Memory&) = delete;
  Memory& operator=(Memory&&) = default;

  unsigned char* data() { return storage_.data() + begin_; }
  const unsigned char* data() const { return storage_.data() + begin_; }
  std::size_t size() const { return size_; }

  std::uint64_t bits(std::size_t i) const { return load_bits(dtype_, data(), index(i)); }
  void set_bits(std::size_t i, std::uint64_t bits) { store_bits(dtype_, data(), index(i), bits); }
  bool is_canary(std::size_t i) const { return bits(i) == canary(); }
  std::uint64_t canary() const { return canary_bits(dtype_); }

  /// Whether what lies before and after is untouched.
  bool guards_intact() const {
    const std::size_t before = kGuard / 2 / width();
    for (std::size_t i = 0; i < before; ++i)
      if (load_bits(dtype_, guard(), index(i)) != canary() || !is_canary(size_ + i)) return false;
    return true;
  }

 private:
  static std::int64_t index(std::size_t i) { return static_cast<std::int64_t>(i); }
  std::size_t width() const { return static_cast<std::size_t>(format_of(dtype_).bytes); }
  std::size_t whole() const { return size_ + kGuard / width(); }
  unsigned char* guard() { return data() - kGuard / 2; }
  const unsigned char* guard() const { return data() - kGuard / 2; }

  std::uint32_t dtype_;
  std::size_t size_;
  std::size_t misalign_;
  std::size_t begin_ = 0;
  std::vector<unsigned char> storage_;
};

/// The elements of a tensor as they were found in memory, in the order [B, H, L, D].
struct Numbers {
  std::uint32_t dtype = HEED_DTYPE_F32;
  std::vector<std::uint64_t> bits = {};

  std::size_t size() const { return bits.size(); }
  double operator[](std::size_t i) const { return decode(dtype, bits[i]); }
  bool written(std::size_t i) const { return bits[i] != canary_bits(dtype); }
};

inline bool same_bits(const Numbers& a, const Numbers& b) { return a.bits == b.bits; }

class Tensor {
 public:
  /// The element [0, 0, 0, 0] lies `misalign` elements off a multiple of 64 bytes, as long as no
  /// stride is negative.
  Tensor(const Axes& shape, const Axes& strides, std::size_t misalign = 0,
         std::uint32_t dtype = HEED_DTYPE_F32)
      : dtype_(dtype), shape_(shape), strides_(strides), memory_(dtype, extent(), misalign) {}

  void* data() { return memory_.data() + static_cast<std::ptrdiff_t>(origin()) * width(); }
  const void* data() const {
    return memory_.data() + static_cast<std::ptrdiff_t>(origin()) * width();
  }
  const Axes& shape() const { return shape_; }
  const Axes& strides() const { return strides_; }
  std::uint32_t dtype() const { return dtype_; }

  double get(const Axes& index) const { return decode(dtype_, memory_.bits(offset(index))); }
  void set(const Axes& index, double x) { memory_.set_bits(offset(index), encode(dtype_, x)); }

  /// An element of a float32 tensor.
  float& at(const Axes& index) {
    require_float32();
    return *reinterpret_cast<float*>(memory_.data() + offset(index) * sizeof(float));
  }
  float at(const Axes& index) const { return const_cast<Tensor*>(this)->at(index); }

  heed_layout layout() const {
    return {dtype_, 0, strides_[0], strides_[1], strides_[2], strides_[3]};
  }

  /// Calls function(index) for every element, in the order [B, H, L, D].
  template <class Function>
  void each(Function&& function) const {
    Axes at{};
    for (at[0] = 0; at[0] < shape_[0]; ++at[0])
      for (at[1] = 0; at[1] < shape_[1]; ++at[1])
        for (at[2] = 0; at[2] < shape_[2]; ++at[2])
          for (at[3] = 0; at[3] < shape_[3]; ++at[3]) function(at);
  }

  /// Elements in the order [B, H, L, D], whatever the layout. Where strides of 0 let several
  /// share a place, the last one stays.
  template <class Function>
  void fill(Function&& function) {
    each([&](const Axes& index) { set(index, static_cast<double>(function())); });
  }

  /// Puts canaries everywhere.
  void clear() {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_.set_bits(i, memory_.canary());
  }

  std::vector<float> elements() const {
    require_float32();
    std::vector<float> all;
    each([&](const Axes& index) { all.push_back(at(index)); });
    return all;
  }

  Numbers numbers() const {
    Numbers all{dtype_, {}};
    each([&](const Axes& index) { all.bits.push_back(memory_.bits(offset(index))); });
    return all;
  }

  /// Whether everything that is no element is untouched.
  bool padding_intact() const {
    if (!memory_.guards_intact()) return false;
    std::vector<bool> used(memory_.size(), false);
    each([&](const Axes& at) { used[offset(at)] = true; });
    for (std::size_t i = 0; i < used.size(); ++i)
      if (!used[i] && !memory_.is_canary(i)) return false;
    return true;
  }

 private:
  std::ptrdiff_t width() const { return format_of(dtype_).bytes; }
  bool empty() const { return shape_[0] * shape_[1] * shape_[2] * shape_[3] == 0; }

  void require_float32() const {
    if (dtype_ != HEED_DTYPE_F32) throw std::logic_error("this tensor is not float32");
  }

  std::size_t extent() const {
    if (empty()) return 0;
    std::int64_t size = 1;
    for (std::size_t axis = 0; axis < 4; ++axis)
      size += (shape_[axis] - 1) * (strides_[axis] < 0 ? -strides_[axis] : strides_[axis]);
    return static_cast<std::size_t>(size);
  }

  /// Where element [0, 0, 0, 0] lies in the buffer: after all that negative strides reach.
  std::size_t origin() const {
    std::int64_t before = 0;
    for (std::size_t axis = 0; axis < 4 && !empty(); ++axis)
      before -= strides_[axis] < 0 ? (shape_[axis] - 1) * strides_[axis] : 0;
    return static_cast<std::size_t>(before);
  }

  std::size_t offset(const Axes& at) const {
    std::int64_t offset = static_cast<std::int64_t>(origin());
    for (std::size_t axis = 0; axis < 4; ++axis) offset += at[axis] * strides_[axis];
    return static_cast<std::size_t>(offset);
  }

  std::uint32_t dtype_;
  Axes shape_;
  Axes strides_;
  Memory memory_;
};

}  // namespace heed_test
