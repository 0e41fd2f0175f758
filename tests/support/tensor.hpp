// A tensor [batch, heads, rows, features] of any type in any layout, with canaries wherever it has
// no element.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/dtype.hpp"
#include "tests/oracle/inputs.hpp"
#include "tests/support/canary.hpp"
#include "tests/support/fenced.hpp"

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>  // its macros do nothing without AddressSanitizer
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace heed_test {

using Axes = std::array<std::int64_t, 4>;

/// Bits that say that nobody has written an element: a NaN, but for bytes.
inline std::uint64_t canary_bits(std::uint32_t dtype) {
  return kCanaryBits64 >> (64 - 8 * format_of(dtype).bytes);
}

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

Axes strides_of(Arrangement arrangement, const Axes& shape);

/// As long as it lives, tensors that are made begin or end at a page that may not be touched.
class FencedTensors {
 public:
  explicit FencedTensors(End end) { fence() = end; }
  ~FencedTensors() { fence().reset(); }
  FencedTensors(const FencedTensors&) = delete;
  FencedTensors& operator=(const FencedTensors&) = delete;

  static std::optional<End>& fence() {
    static std::optional<End> fence;
    return fence;
  }
};

/// Elements of a type, canaries at first, with kGuard bytes of canaries around them, which
/// AddressSanitizer lets nobody touch; or with fences instead.
class Memory {
 public:
  static constexpr std::size_t kGuard = 256;

  /// `misalign` elements after a multiple of 64 bytes, where there is no fence.
  Memory(std::uint32_t dtype, std::size_t elements, std::size_t misalign,
         std::optional<End> fence = {})
      : dtype_(dtype), size_(elements), misalign_(misalign) {
    if (fence) {
      fenced_ = std::make_unique<Fenced>(elements * width(), *fence);
      if (elements > 0) fill_with_canaries(data(), elements * width());
      return;
    }
    storage_.resize(elements * width() + 2 * kGuard + 64 + misalign * width());
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
    begin_ = kGuard + (64 - address % 64) % 64 + misalign * width();
    fill_with_canaries(guard(), whole() * width());
    close();
  }

  /// A copy is aligned like the original, wherever it comes to lie.
  Memory(const Memory& other);
  Memory(Memory&&) = default;
  Memory& operator=(const Memory&) = delete;
  Memory& operator=(Memory&&) = default;

  unsigned char* data() {
    return fenced_ ? static_cast<unsigned char*>(fenced_->get()) : storage_.data() + begin_;
  }
  const unsigned char* data() const { return const_cast<Memory*>(this)->data(); }
  std::size_t size() const { return size_; }

  std::uint64_t bits(std::size_t i) const { return load_bits(dtype_, data(), index(i)); }
  void set_bits(std::size_t i, std::uint64_t bits) { store_bits(dtype_, data(), index(i), bits); }
  bool is_canary(std::size_t i) const { return bits(i) == canary(); }
  std::uint64_t canary() const { return canary_bits(dtype_); }

  /// Whether what lies before and after is untouched.
  bool guards_intact() const;

 private:
  static std::int64_t index(std::size_t i) { return static_cast<std::int64_t>(i); }
  std::size_t width() const { return static_cast<std::size_t>(format_of(dtype_).bytes); }
  std::size_t whole() const { return size_ + kGuard / width(); }
  unsigned char* guard() { return data() - kGuard / 2; }
  const unsigned char* guard() const { return data() - kGuard / 2; }

  /// Doubles what is filled: no store per element.
  void fill_with_canaries(unsigned char* to, std::size_t bytes) const;

  /// Whether AddressSanitizer minds that the guards are looked at.
  void close() const {
    ASAN_POISON_MEMORY_REGION(storage_.data(), begin_);
    ASAN_POISON_MEMORY_REGION(end(),
                              static_cast<std::size_t>(storage_.data() + storage_.size() - end()));
  }
  void open() const { ASAN_UNPOISON_MEMORY_REGION(storage_.data(), storage_.size()); }
  const unsigned char* end() const { return data() + size_ * width(); }

  std::uint32_t dtype_;
  std::size_t size_;
  std::size_t misalign_;
  std::size_t begin_ = 0;
  std::vector<unsigned char> storage_;
  std::unique_ptr<Fenced> fenced_;
};

/// The elements of a tensor as they were found in memory, in the order [B, H, L, D].
struct Numbers {
  std::uint32_t dtype = HEED_DTYPE_F32;
  std::vector<std::uint64_t> bits = {};
  Axes shape = {};

  std::size_t size() const { return bits.size(); }
  double operator[](std::size_t i) const;
  bool written(std::size_t i) const;
};

/// All that a run of attention, a block, a graph or a merge writes; empty: not asked for.
struct Outputs {
  Numbers out = {}, lse = {}, weights = {}, column_sums = {};
};

bool same_bits(const Numbers& a, const Numbers& b);
bool same_bits(const Outputs& a, const Outputs& b);

/// heed_strides for strides that repeat where they are 0, unless all are.
std::uint32_t strides_said(const Axes& strides);

class Tensor {
 public:
  /// The element [0, 0, 0, 0] lies `misalign` elements off a multiple of 64 bytes, as long as no
  /// stride is negative.
  Tensor(const Axes& shape, const Axes& strides, std::size_t misalign = 0,
         std::uint32_t dtype = HEED_DTYPE_F32);

  /// NULL if it has no elements.
  void* data();
  const void* data() const;
  const Axes& shape() const { return shape_; }
  const Axes& strides() const { return strides_; }
  std::uint32_t dtype() const { return dtype_; }

  double get(const Axes& index) const;
  void set(const Axes& index, double x);

  /// An element of a float32 tensor.
  float& at(const Axes& index);
  float at(const Axes& index) const { return const_cast<Tensor*>(this)->at(index); }

  /// Whether elements share a place because a stride is 0.
  bool repeats() const;

  heed_layout layout() const;

  /// As the oracle reads it.
  Source source() const {
    return {data(), dtype_, {strides_[0], strides_[1], strides_[2], strides_[3]}};
  }

  /// Calls function(index) for every element, in the order [B, H, L, D].
  template <class Function>
  void each(Function&& function) const {
    if (empty()) return;  // whatever the other sizes are
    Axes at{};
    for (at[0] = 0; at[0] < shape_[0]; ++at[0])
      for (at[1] = 0; at[1] < shape_[1]; ++at[1])
        for (at[2] = 0; at[2] < shape_[2]; ++at[2])
          for (at[3] = 0; at[3] < shape_[3]; ++at[3]) function(at);
  }

  /// Elements in the order [B, H, L, D], whatever the layout, from function() or function(index).
  /// Where strides of 0 let several share a place, the last one stays.
  template <class Function>
  void fill(Function&& function) {
    each([&](const Axes& index) {
      if constexpr (std::is_invocable_v<Function, const Axes&>)
        set(index, static_cast<double>(function(index)));
      else
        set(index, static_cast<double>(function()));
    });
  }

  /// Sets the elements for which where(index) is true.
  template <class Where>
  void set_where(Where&& where, double x) {
    each([&](const Axes& index) {
      if (where(index)) set(index, x);
    });
  }

  /// The numbers of another tensor of this shape.
  void assign(const Tensor& from) {
    fill([&](const Axes& index) { return from.get(index); });
  }

  /// Puts canaries everywhere.
  void clear();

  Numbers numbers() const;

  /// Whether everything that is no element is untouched.
  bool padding_intact() const;

 private:
  std::ptrdiff_t width() const { return format_of(dtype_).bytes; }
  bool empty() const { return std::count(shape_.begin(), shape_.end(), 0) > 0; }

  void require_float32() const;
  std::size_t extent() const;

  /// Where element [0, 0, 0, 0] lies in the buffer: after all that negative strides reach.
  std::size_t origin() const;

  std::size_t offset(const Axes& at) const;

  std::uint32_t dtype_;
  Axes shape_;
  Axes strides_;
  Memory memory_;
};

inline Numbers numbers_of(const std::optional<Tensor>& tensor) {
  return tensor ? tensor->numbers() : Numbers{};
}

/// A tensor that lies so; by default of float32.
Tensor placed(const Axes& shape, Arrangement arrangement, std::uint32_t dtype,
              std::size_t misalign);

/// What a descriptor says of a tensor that lies so and was given that type, which may be a default.
heed_layout layout_of(const Tensor& tensor, Arrangement arrangement, std::uint32_t dtype);
/// The same of a mask, a bias or its gradient.
heed_score_layout score_layout_of(const Tensor& tensor, Arrangement arrangement,
                                  std::uint32_t dtype);

/// Several, as the oracle reads them.
std::vector<Source> sources_of(const std::vector<Tensor>& tensors);

}  // namespace heed_test
