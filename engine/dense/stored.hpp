// Keys and values of decoding: rows in the type that they are stored in, wherever they lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/dense/plan.hpp"
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

  /// Rows of a head that are read after others, and prefetched while those are read.
  struct Next {
    const Stored* from;  ///< nullptr: nothing is prefetched
    std::int64_t head;
    std::size_t begin;
  };

  /// Where rows that are not read where they lie are put, and what is found out about rows.
  struct Room {
    std::byte* copies;  ///< of a block of them
    float* scales;      ///< of a block
  };

  /// With `copies` the rows and scales of a block are copied in any case, and may be changed.
  Stored(const KernelTable<Real>& kernels, const Place& place, std::size_t rows,
         std::int64_t features, bool copies, const Room& room)
      : place_(place),
        layout_(place.tensor.layout),
        lanes_(kernels.rows.lanes),
        left_(static_cast<std::size_t>(place.sequence.key_length - place.begin)),
        features_(static_cast<std::size_t>(features)),
        copies_scales_(copies),
        copied_(copies || layout_.strides.feature != 1 || features_ < lanes_),
        first_(rows == 0
                   ? nullptr
                   : place.sequence.key_row(place.tensor.data, layout_, place.head, place.begin)),
        room_(room) {}

  RowOrder order() const { return {lanes_, std::max(features_, lanes_)}; }

  /// How many rows block() takes: a chunk's where one run holds them, and nothing is copied.
  std::int64_t most_rows() const {
    const bool gathers = is_scaled(layout_.type) && place_.tensor.scale_layout.strides.row != 1;
    if (copied_ || gathers || place_.sequence.pages != nullptr)
      return std::int64_t{StoredRows::kMostRows};
    return kDecodeChunk;
  }

  /// Rows [begin, begin + count) of a head, where no run of StoredRows ends before its time: keys
  /// are cut at multiples of kRunRows, as pages are.
  StoredRows block(std::int64_t head, std::size_t begin, std::size_t count,
                   const Next& next) const {
    StoredRows rows;  // runs are written as they are found: to clear them takes as long
    rows.type = layout_.type;
    rows.count = count;
    rows.features = order().features;
    rows.scales = scales(head, begin, count);
    rows.run_count = 0;
    if (copied_)
      copy_rows(rows, head, begin);
    else
      find_runs(rows, head, begin, next);
    return rows;
  }

  /// Rows of one head are prefetched so far ahead: to the L2 cache, past what the processor
  /// foresees. Pages have a multiple of it.
  std::size_t rows_ahead() const {
    constexpr std::size_t kAheadRows = 32;
    constexpr std::size_t kLeastAhead = 4096;
    constexpr std::size_t kMostAhead = 8192;
    const std::size_t row_bytes = features_ * static_cast<std::size_t>(layout_.bytes);
    const std::size_t bytes = std::clamp(kAheadRows * row_bytes, kLeastAhead, kMostAhead);
    constexpr std::size_t kStep = StoredRows::kRunRows;
    return (std::max(bytes / row_bytes, std::size_t{1}) + kStep - 1) / kStep * kStep;
  }
  bool one_head() const { return place_.head == place_.last_head; }
  std::int64_t head_after(std::int64_t head) const {
    return head == place_.last_head ? place_.head : head + 1;
  }

 private:
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

  /// Row j of a head, and how many of the sequence's follow it at the stride.
  struct Start {
    const std::byte* row;
    std::size_t in_place;
  };
  Start start(std::int64_t head, std::size_t j) const {
    if (j >= left_) return {nullptr, 0};
    if (place_.sequence.pages == nullptr)
      return {first_ + (head - place_.head) * layout_.strides.head * layout_.bytes +
                  static_cast<std::int64_t>(j) * layout_.strides.row * layout_.bytes,
              left_ - j};
    const std::int64_t key = place_.begin + static_cast<std::int64_t>(j);
    const auto in_place = static_cast<std::size_t>(place_.sequence.keys_in_place(key));
    return {place_.sequence.key_row(place_.tensor.data, layout_, head, key),
            std::min(in_place, left_ - j)};
  }

  /// A run ends where rows end that follow each other, or the ones to be read next.
  void find_runs(StoredRows& rows, std::int64_t head, std::size_t begin, const Next& next) const {
    rows.stride = layout_.strides.row * layout_.bytes;
    const Stored* const fetched = next.from != nullptr && !next.from->copied_ ? next.from : nullptr;
    rows.next_stride =
        fetched != nullptr ? fetched->layout_.strides.row * fetched->layout_.bytes : 0;
    for (std::size_t j = 0; j < rows.count;) {
      const Start from = start(head, begin + j);
      const Start later =
          fetched != nullptr ? fetched->start(next.head, next.begin + j) : Start{nullptr, 0};
      std::size_t count = std::min(from.in_place, rows.count - j);
      if (next.begin + j + later.in_place < left_ && later.in_place > 0)
        count = std::min(count, later.in_place);
      rows.runs[rows.run_count++] = {from.row, count, later.row, later.in_place};
      j += count;
    }
  }

  void copy_rows(StoredRows& rows, std::int64_t head, std::size_t begin) const {
    const auto element = static_cast<std::size_t>(layout_.bytes);
    const std::size_t bytes = rows.features * element;
    each_row(place_.tensor.data, layout_, head, begin, rows.count,
             [&](std::size_t j, const std::byte* at) {
               std::byte* const to = room_.copies + j * bytes;
               std::fill(to + features_ * element, to + bytes, std::byte{0});
               copy(at, to);
             });
    rows.stride = static_cast<std::ptrdiff_t>(bytes);
    rows.next_stride = 0;
    rows.runs[0] = {room_.copies, rows.count, nullptr, 0};
    rows.run_count = 1;
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
  const std::size_t lanes_;
  const std::size_t left_;  ///< rows of the sequence from the first one on
  const std::size_t features_;
  const bool copies_scales_, copied_;
  const std::byte* const first_;  ///< row 0 of the first head
  const Room room_;
};

}  // namespace heed
