// Keys and values of decoding: rows in the type that they are stored in, wherever they lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/dense/problem.hpp"
#include "engine/kernels/table.hpp"
#include "engine/tensor/element.hpp"

namespace heed {

/// The keys, or the values, of some heads as the row kernels want them: where they lie if they can
/// be read there, else a block of them copied. Either gives the same bits.
template <class Real>
class Stored {
 public:
  /// Rows from `begin` on, of heads [head, last_head].
  struct Place {
    const Sequence& sequence;
    const void* data;
    const Layout& layout;
    std::int64_t head, last_head, begin;
  };

  /// `pointers` has room for the rows of one head and a block more, `copies` for a block. `widened`
  /// rows are always copied, as Real.
  Stored(const KernelTable<Real>& kernels, const Place& place, std::size_t rows,
         std::int64_t features, bool widened, const void** pointers, std::byte* copies)
      : kernels_(kernels),
        place_(place),
        layout_(place.layout),
        rows_(rows),
        features_(static_cast<std::size_t>(features)),
        widened_(widened || !is_read_as_it_is(layout_.type)),
        copied_(widened_ || layout_.strides.feature != 1 || features_ < kernels.rows.lanes),
        pointers_(pointers),
        copies_(copies) {
    if (copied_) return;
    const std::int64_t stride = layout_.strides.row * layout_.bytes;
    for (std::size_t j = 0; j < rows;) {
      const std::byte* at = row(place.head, j);
      const auto end = j + static_cast<std::size_t>(place.sequence.keys_in_place(
                               place.begin + static_cast<std::int64_t>(j)));
      for (; j < std::min(end, rows); ++j, at += stride) pointers_[j] = at;
    }
  }

  RowOrder order() const {
    const std::size_t lanes = kernels_.rows.lanes;
    return {lanes, std::max(features_, lanes)};
  }

  /// Rows [begin, begin + count) of a head.
  StoredRows block(std::int64_t head, std::size_t begin, std::size_t count) const {
    if (!copied_) return in_place(head, begin, count);
    const ElementType type = widened_ ? kTypeOf<Real> : layout_.type;
    const std::size_t features = order().features;
    const auto element = static_cast<std::size_t>(bytes_of(type));
    const std::size_t bytes = features * element;
    for (std::size_t j = 0; j < count; ++j) {
      std::byte* const to = copies_ + j * bytes;
      std::fill(to + features_ * element, to + bytes, std::byte{0});
      if (widened_) {
        kernels_.numbers.read(layout_.type, row(head, begin + j), layout_.strides.feature,
                              features_, reinterpret_cast<Real*>(to));
      } else {
        copy(row(head, begin + j), to);
      }
      pointers_[j] = to;
    }
    return {type, pointers_, count, features, nullptr, 0, 0};
  }

 private:
  /// Rows of one head are prefetched so far ahead: to the L2 cache, past what the processor
  /// foresees.
  static constexpr std::size_t kAheadBytes = 16384;

  static bool is_read_as_it_is(ElementType type) {
    return type == kTypeOf<Real> || (std::is_same_v<Real, float> && type != ElementType::kF64);
  }

  std::ptrdiff_t head_offset(std::int64_t head) const {
    return (head - place_.head) * layout_.strides.head * layout_.bytes;
  }

  StoredRows in_place(std::int64_t head, std::size_t begin, std::size_t count) const {
    StoredRows rows = {layout_.type, pointers_ + begin, count, features_, nullptr, 0, 0};
    if (head != place_.head) {
      for (std::size_t j = 0; j < count; ++j)
        pointers_[rows_ + j] = static_cast<const std::byte*>(rows.rows[j]) + head_offset(head);
      rows.rows = pointers_ + rows_;
    }
    // What is read next, if heads follow each other block by block.
    if (place_.head == place_.last_head) {
      const std::size_t row_bytes = features_ * static_cast<std::size_t>(layout_.bytes);
      set_next(rows, begin + kAheadBytes / (row_bytes + 1), head);
    } else if (head < place_.last_head) {
      set_next(rows, begin, head + 1);
    } else {
      set_next(rows, begin + count, place_.head);
    }
    return rows;
  }

  void set_next(StoredRows& rows, std::size_t begin, std::int64_t head) const {
    if (begin >= rows_) return;
    rows.next = pointers_ + begin;
    rows.next_offset = head_offset(head);
    rows.next_count = rows_ - begin;
  }

  const std::byte* row(std::int64_t head, std::size_t j) const {
    return place_.sequence.key_row(place_.data, layout_, head,
                                   place_.begin + static_cast<std::int64_t>(j));
  }

  void copy(const std::byte* from, std::byte* to) const {
    const auto bytes = static_cast<std::size_t>(layout_.bytes);
    for (std::size_t x = 0; x < features_; ++x, from += layout_.strides.feature * layout_.bytes)
      std::copy_n(from, bytes, to + x * bytes);
  }

  const KernelTable<Real>& kernels_;
  const Place place_;
  const Layout& layout_;
  const std::size_t rows_;
  const std::size_t features_;
  const bool widened_, copied_;
  const void** const pointers_;
  std::byte* const copies_;
};

}  // namespace heed
