// Keys and values of decoding: rows in the type that they are stored in, wherever they lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/dense/panel.hpp"

namespace heed {

/// The keys, or the values, of some heads as the row kernels want them: where they lie if they can
/// be read there, else a block of them copied. Either gives the same bits.
template <class Real>
class Stored {
 public:
  /// Rows from key `begin` on, of heads [head, last_head].
  struct RowSpan {
    std::int64_t head, last_head, begin;
  };

  /// The rows after a block, which are prefetched while the block is read.
  struct Next {
    const Stored* from;  ///< nullptr: nothing is prefetched
    std::int64_t head;
    std::size_t begin;
    /// So many of the block's own rows are prefetched last: the first of them belong to it.
    std::size_t ahead = 0;
    /// Rows of all heads, one after the other, of which this block prefetches its share.
    bool all_heads = false;
  };

  /// Rows and scales that are not read where they lie are put into these buffers, a block at a
  /// time; with `copies` all are, and may be changed there.
  Stored(const AttentionThread<Real>& on, const StoredTensor& tensor, std::int64_t features,
         const RowSpan& span, bool copies, std::size_t Slab::*rows, std::size_t Slab::*scales)
      : on_(on),
        tensor_(tensor),
        layout_(tensor.layout),
        span_(span),
        lanes_(on.kernels.rows.lanes),
        left_(static_cast<std::size_t>(on.sequence.key_length - span.begin)),
        features_(static_cast<std::size_t>(features)),
        copies_scales_(copies),
        copied_(copies || layout_.strides.feature != 1 || features_ < lanes_),
        copies_(reinterpret_cast<std::byte*>(on.buffer(rows))),
        scales_(reinterpret_cast<float*>(on.buffer(scales))) {}

  RowOrder order() const { return {lanes_, std::max(features_, lanes_)}; }

  /// How many rows block() takes: a chunk's where one run holds them, and nothing is copied.
  std::int64_t most_rows() const {
    const bool gathers = is_scaled(layout_.type) && tensor_.scale_layout.strides.row != 1;
    if (copied_ || gathers || on_.sequence.pages != nullptr)
      return std::int64_t{StoredRows::kMostRows};
    return kDecodeChunk;
  }

  /// Rows [begin, begin + count) of a head. In pages they are at most kMostRows, and end with a
  /// multiple of kRunRows or the sequence, so that kMostRuns runs hold them wherever they begin.
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

  /// The rows to prefetch while rows [begin, begin + count) of a head are read: in the order in
  /// which memory is read, where one head or several are read block by block.
  Next after(std::int64_t head, std::size_t begin, std::size_t count) const {
    if (one_head()) return {this, head, begin + rows_ahead()};
    if (heads_in_rows()) return {this, head, begin + count, 0, true};
    const bool last = head == span_.last_head;
    return {this, last ? span_.head : head + 1, last ? begin + count : begin,
            std::min(rows_ahead(), count)};
  }
  bool one_head() const { return span_.head == span_.last_head; }

  /// How many rows of one of several heads a block has, in turns: a page's, unless it has all heads
  /// of a row side by side.
  std::int64_t rows_of_heads(std::int64_t turn) const {
    if (heads_in_rows() || on_.sequence.pages == nullptr) return turn;
    const std::int64_t rows = std::min<std::int64_t>(on_.sequence.page_rows, StoredRows::kMostRows);
    return std::max(rows / turn * turn, turn);
  }

 private:
  /// Calls function(j, address) for each of the rows [begin, begin + count).
  template <class Function>
  void each_row(const void* data, const Layout& layout, std::int64_t head, std::size_t begin,
                std::size_t count, Function&& function) const {
    const std::int64_t stride = layout.strides.row * layout.bytes;
    for (std::size_t j = 0; j < count;) {
      const std::int64_t key = span_.begin + static_cast<std::int64_t>(begin + j);
      const std::byte* at = on_.sequence.key_row(data, layout, head, key);
      const auto end = j + static_cast<std::size_t>(on_.sequence.keys_in_place(key));
      for (; j < std::min(end, count); ++j, at += stride) function(j, at);
    }
  }

  /// Rows are prefetched so far ahead: to the L2 cache, past what the processor foresees. Pages
  /// have a multiple of it.
  std::size_t rows_ahead() const {
    constexpr std::size_t kAheadRows = 32;
    constexpr std::size_t kLeastAhead = 4096;
    constexpr std::size_t kMostAhead = 8192;
    const std::size_t row_bytes = features_ * static_cast<std::size_t>(layout_.bytes);
    const std::size_t bytes = std::clamp(kAheadRows * row_bytes, kLeastAhead, kMostAhead);
    constexpr std::size_t kStep = StoredRows::kRunRows;
    return (std::max(bytes / row_bytes, std::size_t{1}) + kStep - 1) / kStep * kStep;
  }

  /// Whether the heads lie one after the other, and fill a row.
  bool heads_in_rows() const {
    const auto features = static_cast<std::int64_t>(features_);
    return layout_.strides.head == features &&
           layout_.strides.row == (span_.last_head - span_.head + 1) * features;
  }

  /// Row j of a head, and how many of the sequence's follow it at the stride.
  struct Start {
    const std::byte* row;
    std::size_t in_place;
  };
  Start start(std::int64_t head, std::size_t j) const {
    if (j >= left_) return {nullptr, 0};
    const std::int64_t key = span_.begin + static_cast<std::int64_t>(j);
    const auto in_place = static_cast<std::size_t>(on_.sequence.keys_in_place(key));
    return {on_.sequence.key_row(tensor_.data, layout_, head, key), std::min(in_place, left_ - j)};
  }

  /// The row that is prefetched while row j of a block is read, and how many follow it.
  Start next_start(const Next& next, const StoredRows& rows, std::int64_t head, std::size_t begin,
                   std::size_t j) const {
    if (next.all_heads) {
      const auto heads = static_cast<std::size_t>(span_.last_head - span_.head + 1);
      const std::size_t index = static_cast<std::size_t>(head - span_.head) * rows.count + j;
      const Start row = start(span_.head, next.begin + index / heads);
      const std::size_t before = index % heads;
      if (row.in_place == 0) return row;
      return {row.row + static_cast<std::int64_t>(before) * rows.next_stride,
              row.in_place * heads - before};
    }
    if (next.ahead == 0) return next.from->start(next.head, next.begin + j);
    if (j + next.ahead >= rows.count)
      return start(next.head, next.begin + j + next.ahead - rows.count);
    const Start own = start(head, begin + j + next.ahead);
    return {own.row, std::min(own.in_place, rows.count - j - next.ahead)};
  }

  /// A run ends where rows end that follow each other, or the ones to be read next.
  void find_runs(StoredRows& rows, std::int64_t head, std::size_t begin, const Next& next) const {
    rows.stride = layout_.strides.row * layout_.bytes;
    const bool fetches = next.from != nullptr && !next.from->copied_;
    const Layout& layout = fetches ? next.from->layout_ : layout_;
    rows.next_stride = (next.all_heads ? layout.strides.head : layout.strides.row) * layout.bytes;
    for (std::size_t j = 0; j < rows.count;) {
      const Start from = this->start(head, begin + j);
      const Start later = fetches ? next_start(next, rows, head, begin, j) : Start{nullptr, 0};
      std::size_t count = std::min(from.in_place, rows.count - j);
      // Where fewer follow, the sequence ends, or rows of a page that nobody prefetches.
      constexpr std::size_t kStep = StoredRows::kRunRows;
      if (later.in_place >= kStep) count = std::min(count, later.in_place / kStep * kStep);
      rows.runs[rows.run_count++] = {from.row, count, later.row, later.in_place};
      j += count;
    }
  }

  void copy_rows(StoredRows& rows, std::int64_t head, std::size_t begin) const {
    const auto element = static_cast<std::size_t>(layout_.bytes);
    const std::size_t bytes = rows.features * element;
    const std::int64_t step = layout_.strides.feature * layout_.bytes;
    each_row(tensor_.data, layout_, head, begin, rows.count,
             [&](std::size_t j, const std::byte* at) {
               std::byte* const to = copies_ + j * bytes;
               std::fill(to + features_ * element, to + bytes, std::byte{0});
               for (std::size_t x = 0; x < features_; ++x, at += step)
                 std::copy_n(at, element, to + x * element);
             });
    rows.stride = static_cast<std::ptrdiff_t>(bytes);
    rows.next_stride = 0;
    rows.runs[0] = {copies_, rows.count, nullptr, 0};
    rows.run_count = 1;
  }

  /// Where they lie if they do so one after the other, else gathered.
  const float* scales(std::int64_t head, std::size_t begin, std::size_t count) const {
    if (!is_scaled(layout_.type)) return nullptr;
    const std::int64_t key = span_.begin + static_cast<std::int64_t>(begin);
    const bool together = tensor_.scale_layout.strides.row == 1 &&
                          on_.sequence.keys_in_place(key) >= static_cast<std::int64_t>(count);
    if (together && !copies_scales_)
      return reinterpret_cast<const float*>(
          on_.sequence.key_row(tensor_.scales, tensor_.scale_layout, head, key));
    each_row(tensor_.scales, tensor_.scale_layout, head, begin, count,
             [&](std::size_t j, const std::byte* at) {
               scales_[j] = *reinterpret_cast<const float*>(at);
             });
    return scales_;
  }

  const AttentionThread<Real> on_;
  const StoredTensor tensor_;
  const Layout& layout_;
  const RowSpan span_;
  const std::size_t lanes_;
  const std::size_t left_;  ///< rows of the sequence from the first one on
  const std::size_t features_;
  const bool copies_scales_, copied_;
  std::byte* const copies_;
  float* const scales_;
};

}  // namespace heed
