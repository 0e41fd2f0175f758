// Keys and values of decoding: rows in the type that they are stored in, wherever they lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

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
    const StoredTensor tensor;
    std::int64_t head, last_head, begin;
  };

  /// Where rows that are not read where they lie are put, and what is found out about rows.
  struct Room {
    const void** pointers;  ///< to all rows of one head, and to a block of them
    std::byte* copies;      ///< of a block of them
    float* scales;          ///< of a block
  };

  /// With `copies` the rows and scales of a block are copied in any case, and may be changed.
  Stored(const KernelTable<Real>& kernels, const Place& place, std::size_t rows,
         std::int64_t features, bool copies, const Room& room)
      : place_(place),
        layout_(place.tensor.layout),
        lanes_(kernels.rows.lanes),
        rows_(rows),
        features_(static_cast<std::size_t>(features)),
        copies_scales_(copies),
        copied_(copies || layout_.strides.feature != 1 || features_ < lanes_),
        room_(room) {
    if (copied_) return;
    each_row(place.tensor.data, layout_, place.head, 0, rows,
             [&](std::size_t j, const std::byte* at) { room_.pointers[j] = at; });
  }

  RowOrder order() const { return {lanes_, std::max(features_, lanes_)}; }

  /// Rows [begin, begin + count) of a head.
  StoredRows block(std::int64_t head, std::size_t begin, std::size_t count) const {
    const float* const scales = this->scales(head, begin, count);
    if (!copied_) return in_place(head, begin, count, scales);
    const auto element = static_cast<std::size_t>(layout_.bytes);
    const std::size_t bytes = order().features * element;
    each_row(place_.tensor.data, layout_, head, begin, count,
             [&](std::size_t j, const std::byte* at) {
               std::byte* const to = room_.copies + j * bytes;
               std::fill(to + features_ * element, to + bytes, std::byte{0});
               copy(at, to);
               room_.pointers[j] = to;
             });
    return {layout_.type, room_.pointers, count, order().features, scales, nullptr, 0, 0};
  }

 private:
  /// Rows of one head are prefetched so far ahead: to the L2 cache, past what the processor
  /// foresees.
  static constexpr std::size_t kAheadBytes = 16384;

  /// Calls function(j, address) for what belongs to each of the rows [begin, begin + count).
  template <class Function>
  void each_row(const void* data, const Layout& layout, std::int64_t head, std::size_t begin,
                std::size_t count, Function&& function) const {
    const std::int64_t stride = layout.strides.row * layout.bytes;
    for (std::size_t j = 0; j < count;) {
      const std::int64_t key = place_.begin + static_cast<std::int64_t>(begin + j);
      const std::byte* at = place_.sequence.key_row(data, layout, head, key);
      const auto end = j + static_cast<std::size_t>(place_.sequence.keys_in_place(key));
      for (; j < std::min(end, count); ++j, at += stride) function(j, at);
    }
  }

  std::ptrdiff_t head_offset(std::int64_t head) const {
    return (head - place_.head) * layout_.strides.head * layout_.bytes;
  }

  StoredRows in_place(std::int64_t head, std::size_t begin, std::size_t count,
                      const float* scales) const {
    StoredRows rows = {
        layout_.type, room_.pointers + begin, count, features_, scales, nullptr, 0, 0};
    if (head != place_.head) {
      for (std::size_t j = 0; j < count; ++j)
        room_.pointers[rows_ + j] = static_cast<const std::byte*>(rows.rows[j]) + head_offset(head);
      rows.rows = room_.pointers + rows_;
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
    rows.next = room_.pointers + begin;
    rows.next_offset = head_offset(head);
    rows.next_count = rows_ - begin;
  }

  /// Where they lie if they do so one after the other, else gathered.
  const float* scales(std::int64_t head, std::size_t begin, std::size_t count) const {
    if (!is_scaled(layout_.type)) return nullptr;
    const StoredTensor& t = place_.tensor;
    const std::int64_t key = place_.begin + static_cast<std::int64_t>(begin);
    const bool together = t.scale_layout.strides.row == 1 &&
                          place_.sequence.keys_in_place(key) >= static_cast<std::int64_t>(count);
    if (together && !copies_scales_)
      return reinterpret_cast<const float*>(
          place_.sequence.key_row(t.scales, t.scale_layout, head, key));
    each_row(t.scales, t.scale_layout, head, begin, count, [&](std::size_t j, const std::byte* at) {
      room_.scales[j] = *reinterpret_cast<const float*>(at);
    });
    return room_.scales;
  }

  void copy(const std::byte* from, std::byte* to) const {
    const auto bytes = static_cast<std::size_t>(layout_.bytes);
    for (std::size_t x = 0; x < features_; ++x, from += layout_.strides.feature * layout_.bytes)
      std::copy_n(from, bytes, to + x * bytes);
  }

  const Place place_;
  const Layout& layout_;
  const std::size_t lanes_, rows_, features_;
  const bool copies_scales_, copied_;
  const Room room_;
};

}  // namespace heed
