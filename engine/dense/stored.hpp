// Keys and values of decoding: rows in the type that they are stored in, wherever they lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/dense/problem.hpp"
#include "engine/kernels/table.hpp"
#include "engine/tensor/element.hpp"

namespace heed {

/// The keys, or the values, of one head as the row kernels want them: where they lie if they can be
/// read there, else a block of them copied. Either gives the same bits.
template <class Real>
class Stored {
 public:
  /// The rows from `begin` on.
  struct Place {
    const Sequence& sequence;
    const StoredTensor tensor;
    std::int64_t head, begin;
  };

  /// Where rows that are not read where they lie are put, and what is found out about rows.
  struct Room {
    const void** pointers;  ///< to all rows
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
    each_row(place.tensor.data, layout_, 0, rows,
             [&](std::size_t j, const std::byte* at) { room_.pointers[j] = at; });
  }

  RowOrder order() const { return {lanes_, std::max(features_, lanes_)}; }

  /// Rows [begin, begin + count).
  StoredRows block(std::size_t begin, std::size_t count) const {
    const auto element = static_cast<std::size_t>(layout_.bytes);
    if (!copied_)
      return {layout_.type,
              room_.pointers + begin,
              count,
              features_,
              kAheadBytes / (features_ * element + 1),
              rows_ - begin,
              scales(begin, count)};
    const std::size_t bytes = order().features * element;
    each_row(place_.tensor.data, layout_, begin, count, [&](std::size_t j, const std::byte* at) {
      std::byte* const to = room_.copies + j * bytes;
      std::fill(to + features_ * element, to + bytes, std::byte{0});
      copy(at, to);
      room_.pointers[j] = to;
    });
    return {layout_.type, room_.pointers, count, order().features, 0, 0, scales(begin, count)};
  }

 private:
  /// Rows are prefetched so far ahead: to the L2 cache, past what the processor foresees.
  static constexpr std::size_t kAheadBytes = 16384;

  /// Calls function(j, address) for what belongs to each of the rows [begin, begin + count).
  template <class Function>
  void each_row(const void* data, const Layout& layout, std::size_t begin, std::size_t count,
                Function&& function) const {
    const std::int64_t stride = layout.strides.row * layout.bytes;
    for (std::size_t j = 0; j < count;) {
      const std::int64_t key = place_.begin + static_cast<std::int64_t>(begin + j);
      const std::byte* at = place_.sequence.key_row(data, layout, place_.head, key);
      const auto end = j + static_cast<std::size_t>(place_.sequence.keys_in_place(key));
      for (; j < std::min(end, count); ++j, at += stride) function(j, at);
    }
  }

  /// Where they lie if they do so one after the other, else gathered.
  const float* scales(std::size_t begin, std::size_t count) const {
    if (!is_scaled(layout_.type)) return nullptr;
    const StoredTensor& t = place_.tensor;
    const std::int64_t key = place_.begin + static_cast<std::int64_t>(begin);
    const bool together = t.scale_layout.strides.row == 1 &&
                          place_.sequence.keys_in_place(key) >= static_cast<std::int64_t>(count);
    if (together && !copies_scales_)
      return reinterpret_cast<const float*>(
          place_.sequence.key_row(t.scales, t.scale_layout, place_.head, key));
    each_row(t.scales, t.scale_layout, begin, count, [&](std::size_t j, const std::byte* at) {
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
