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

/// Whether the rows to be read next are prefetched, and how those of keys and values follow each
/// other.
enum class Fetches { kNothing, kInBlocks, kInTurns };

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
    std::byte* copies;  ///< of a block of them
    float* scales;      ///< of a block
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
        first_(rows == 0
                   ? nullptr
                   : place.sequence.key_row(place.tensor.data, layout_, place.head, place.begin)),
        room_(room) {}

  RowOrder order() const { return {lanes_, std::max(features_, lanes_)}; }

  /// How many rows block() takes: a chunk's where one run holds them, and nothing is copied.
  std::int64_t most_rows() const {
    const bool gathers = is_scaled(layout_.type) && place_.tensor.scale_layout.strides.row != 1;
    if (copied_ || gathers || place_.sequence.pages != nullptr)
      return std::int64_t{StoredRows::kRunRows * StoredRows::kMostRuns};
    return kDecodeChunk;
  }

  /// Rows [begin, begin + count) of a head, where no run of StoredRows ends before its time: keys
  /// are cut at multiples of kRunRows, as pages are.
  StoredRows block(std::int64_t head, std::size_t begin, std::size_t count, Fetches fetches) const {
    StoredRows rows;  // runs are written as they are found: to clear them takes as long
    rows.type = layout_.type;
    rows.count = count;
    rows.features = order().features;
    rows.scales = scales(head, begin, count);
    rows.run_count = 0;
    if (copied_)
      copy_rows(rows, head, begin);
    else
      find_runs(rows, head, begin, fetches);
    return rows;
  }

 private:
  /// Rows of one head are prefetched so far ahead: to the L2 cache, past what the processor
  /// foresees.
  static constexpr std::size_t kAheadRows = 32;
  static constexpr std::size_t kLeastAhead = 4096;
  static constexpr std::size_t kMostAhead = 16384;
  /// The same where keys and values are read in turns of kRunRows.
  static constexpr std::size_t kAheadInTurns = 6144;

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

  /// Row j of a head, and how many follow it at the stride.
  struct Start {
    const std::byte* row;
    std::size_t in_place;
  };
  Start start(std::int64_t head, std::size_t j) const {
    if (j >= rows_) return {nullptr, 0};
    if (place_.sequence.pages == nullptr)
      return {first_ + (head - place_.head) * layout_.strides.head * layout_.bytes +
                  static_cast<std::int64_t>(j) * layout_.strides.row * layout_.bytes,
              rows_ - j};
    const std::int64_t key = place_.begin + static_cast<std::int64_t>(j);
    const auto in_place = static_cast<std::size_t>(place_.sequence.keys_in_place(key));
    return {place_.sequence.key_row(place_.tensor.data, layout_, head, key),
            std::min(in_place, rows_ - j)};
  }

  /// A run ends where rows end that follow each other, or the ones to be read next.
  void find_runs(StoredRows& rows, std::int64_t head, std::size_t begin, Fetches fetches) const {
    rows.stride = layout_.strides.row * layout_.bytes;
    // What is read next, if heads follow each other block by block.
    std::int64_t next_head = head + 1;
    std::size_t next_begin = begin;
    if (place_.head == place_.last_head) {
      next_head = head;
      next_begin += rows_ahead(fetches == Fetches::kInTurns);
    } else if (head == place_.last_head) {
      next_head = place_.head;
      next_begin += rows.count;
    }
    for (std::size_t j = 0; j < rows.count;) {
      const Start from = start(head, begin + j);
      const Start next =
          fetches != Fetches::kNothing ? start(next_head, next_begin + j) : Start{nullptr, 0};
      std::size_t count = std::min(from.in_place, rows.count - j);
      if (next_begin + j + next.in_place < rows_ && next.in_place > 0)
        count = std::min(count, next.in_place);
      rows.runs[rows.run_count++] = {from.row, count, next.row, next.in_place};
      j += count;
    }
  }

  std::size_t rows_ahead(bool in_turns) const {
    const std::size_t row_bytes = features_ * static_cast<std::size_t>(layout_.bytes);
    const std::size_t bytes =
        in_turns ? kAheadInTurns : std::clamp(kAheadRows * row_bytes, kLeastAhead, kMostAhead);
    const std::size_t rows = std::max(bytes / row_bytes, std::size_t{1});
    if (in_turns && place_.sequence.pages == nullptr) return rows;
    constexpr std::size_t kStep = StoredRows::kRunRows;  // of which pages have a multiple
    return (rows + kStep - 1) / kStep * kStep;
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
  const std::size_t lanes_, rows_, features_;
  const bool copies_scales_, copied_;
  const std::byte* const first_;  ///< row 0 of the first head
  const Room room_;
};

}  // namespace heed
