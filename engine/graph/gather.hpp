// Rows of tensors over nodes or edges, as the row kernels want them: in the type of the arithmetic,
// features side by side and padded to feature_padding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/graph/graph.hpp"
#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/layout.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

/// Some edges of one node, or of several that follow each other, in the graph's order.
struct Batch {
  std::int64_t begin;
  std::size_t edges;

  std::int64_t edge(std::size_t e) const { return begin + static_cast<std::int64_t>(e); }
};

/// Nodes are taken together while the rows that their edges lead to, which are gone over twice and
/// more, have no more bytes than this: a third of the L1 cache.
inline constexpr std::int64_t kTileBytes = 16384;

/// Rows are prefetched about this many bytes before they are read: where keys and values are as
/// wide, while the tile before is computed. Half as many come too late where a tile is gone over
/// head by head.
inline constexpr std::int64_t kBytesAhead = kTileBytes / 2;

/// Nodes that follow each other, with few edges all together.
struct NodeTile {
  std::int64_t first, nodes;
  Batch batch;
  const std::int64_t* offsets;  ///< [nodes + 1] where their edges begin, counted from anywhere
};

/// The places of copied rows: one after the other.
struct Consecutive {
  static constexpr std::size_t kRows = kNodeEdges + kSourcesAhead;
  std::int32_t row[kRows] = {};
  constexpr Consecutive() {
    for (std::size_t i = 0; i < kRows; ++i) row[i] = static_cast<std::int32_t>(i);
  }
};
inline constexpr Consecutive kConsecutive;

/// Rows of Reals one after the other, their strides in values, as if edges led to them in turn.
template <class Real>
EdgeRows consecutive_rows(const Real* data, std::size_t stride, std::size_t head_stride) {
  const auto bytes = [](std::size_t numbers) {
    return static_cast<std::ptrdiff_t>(numbers * sizeof(Real));
  };
  return {kTypeOf<Real>, data, kConsecutive.row, bytes(stride), bytes(head_stride)};
}

/// A tensor and where its elements lie.
struct Tensor {
  const void* data;
  Layout layout;
};

template <class Real>
class Gather {
 public:
  static std::int64_t padded(std::int64_t features) {
    return round_up(features, static_cast<std::int64_t>(RowKernels<Real>::feature_padding));
  }
  static std::size_t padded_size(std::int64_t features) {
    return static_cast<std::size_t>(padded(features));
  }
  /// Whether each head of a row is padded Reals side by side; whether kernels of products can read
  /// it where it lies, in whatever type.
  static bool has_padded_reals(const Layout& layout, std::int64_t features) {
    return has_rows_of(kTypeOf<Real>, layout) && features == padded(features);
  }
  static bool in_place(const Layout& layout, std::int64_t features) {
    const bool readable = layout.type == kTypeOf<Real> ||
                          (kTypeOf<Real> == ElementType::kF32 && is_half(layout.type));
    return readable && layout.strides.feature == 1 && features == padded(features);
  }

  /// `buffer`, [edges][heads][padded features], receives rows that are copied: the ones that
  /// kernels of products cannot read or, if kernels want `reals`, the ones that are no padded
  /// Reals.
  Gather(const KernelTable<Real>& kernels, const Tensor& tensor, std::int64_t heads,
         std::int64_t features, Real* buffer, bool reals = false)
      : Gather(kernels, tensor, heads, features, padded(features), buffer,
               reals ? has_padded_reals(tensor.layout, features)
                     : in_place(tensor.layout, features)) {}

  /// Rows of a number for each head, as if heads were features of one head, without padding.
  static Gather of_heads(const KernelTable<Real>& kernels, Tensor tensor, std::int64_t heads,
                         Real* buffer) {
    Strides& strides = tensor.layout.strides;
    strides.feature = heads == 1 ? 1 : strides.head;
    return {kernels, tensor, 1, heads, heads, buffer, has_rows_of(kTypeOf<Real>, tensor.layout)};
  }

  std::size_t features() const { return static_cast<std::size_t>(padded_); }
  /// Whether whole() copies none.
  bool has_whole_rows() const { return side_by_side_ && tensor_.layout.type == kTypeOf<Real>; }

  /// The rows that `source` lists, prefetched as they are read; the list goes on for kSourcesAhead
  /// more.
  EdgeRows rows(const std::int32_t* source, std::size_t edges) const {
    EdgeRows rows = rows_;
    if (in_place_) {
      rows.source = source;
      return rows;
    }
    for (std::size_t e = 0; e < edges; ++e)
      copy_ahead(source + e, buffer_ + static_cast<std::int64_t>(e) * heads_ * padded_);
    return rows;
  }

  /// One row as [heads][padded features]: where it lies, or copied to `buffer`.
  const Real* whole(std::int64_t row, Real* buffer) const {
    if (has_whole_rows())
      return reinterpret_cast<const Real*>(row_at(tensor_.data, tensor_.layout, 0, 0, row));
    copy(row, buffer);
    return buffer;
  }

  /// The rows from this one on as they lie, or that one alone, copied to `buffer`.
  NodeRows<const Real> from(std::int64_t row, Real* buffer) const {
    return {whole(row, buffer), tensor_.layout.strides.row};
  }

  /// One row times a factor, as [heads][padded features].
  void copy_scaled(std::int64_t row, Real factor, Real* __restrict to) const {
    const std::int64_t size = heads_ * padded_;
    const Real* const from = whole(row, to);
// -O2 alone does one number a turn, a tenth of a small graph's time.
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < size; ++i) to[i] = from[i] * factor;
  }

  /// One row, as [heads][padded features].
  void copy(std::int64_t row, Real* to) const {
    const Layout& layout = tensor_.layout;
    if (features_ == 1 && layout.type == kTypeOf<Real>) {
      const auto* const from =
          reinterpret_cast<const Real*>(row_at(tensor_.data, layout, 0, 0, row));
      std::fill_n(to, heads_ * padded_, Real{0});
      for (std::int64_t h = 0; h < heads_; ++h) to[h * padded_] = from[h * layout.strides.head];
      return;
    }
    if (side_by_side_) {
      kernels_.numbers.read(layout.type, row_at(tensor_.data, layout, 0, 0, row), 1,
                            static_cast<std::size_t>(heads_ * features_), to);
      return;
    }
    for (std::int64_t h = 0; h < heads_; ++h, to += padded_) {
      kernels_.numbers.read(layout.type, row_at(tensor_.data, layout, 0, h, row),
                            layout.strides.feature, static_cast<std::size_t>(features_), to);
      std::fill(to + features_, to + padded_, Real{0});
    }
  }

  /// copy() of the first row of a list, while a later one is prefetched.
  void copy_ahead(const std::int32_t* source, Real* to) const {
    prefetch(source[ahead_]);
    copy(*source, to);
  }

  /// The own rows of as many nodes as these, which follow them: gathered rows between one's own
  /// keep the processor from seeing that its own follow each other.
  [[gnu::always_inline]] void prefetch_after(const NodeTile& tile) const {
    for (std::int64_t i = 0; i < tile.nodes; ++i) prefetch(tile.first + tile.nodes + i);
  }

  /// Whether another tensor has the same rows.
  bool is(const Gather& other) const {
    const Strides& a = tensor_.layout.strides;
    const Strides& b = other.tensor_.layout.strides;
    return tensor_.data == other.tensor_.data && run_bytes_ == other.run_bytes_ &&
           runs_ == other.runs_ && a.row == b.row && (runs_ == 1 || a.head == b.head);
  }

  /// Bytes of a row where it lies.
  std::int64_t row_bytes() const { return runs_ * run_bytes_; }

 private:
  Gather(const KernelTable<Real>& kernels, const Tensor& tensor, std::int64_t heads,
         std::int64_t features, std::int64_t padded, Real* buffer, bool in_place)
      : kernels_(kernels),
        tensor_(tensor),
        heads_(heads),
        features_(features),
        padded_(padded),
        in_place_(in_place),
        buffer_(buffer) {
    const auto& [type, bytes, strides] = tensor.layout;
    rows_ = in_place_ ? EdgeRows{type,
                                 tensor.data,
                                 nullptr,
                                 strides.row * bytes,
                                 strides.head * bytes,
                                 static_cast<std::size_t>(ahead_)}
                      : consecutive_rows(buffer, static_cast<std::size_t>(heads * padded_),
                                         this->features());
  }

  /// Prefetches a row. In line, because g++ 12 drops calls of functions that only prefetch.
  [[gnu::always_inline]] void prefetch(std::int64_t row) const {
    constexpr std::int64_t kLine = 64;
    const Strides& s = tensor_.layout.strides;
    const auto* from =
        static_cast<const std::byte*>(tensor_.data) + row * s.row * tensor_.layout.bytes;
    for (std::int64_t h = 0; h < runs_; ++h, from += s.head * tensor_.layout.bytes)
      for (std::int64_t at = 0; at < run_bytes_; at += kLine) __builtin_prefetch(from + at);
  }

  const KernelTable<Real>& kernels_;
  Tensor tensor_;
  std::int64_t heads_;
  std::int64_t features_;
  std::int64_t padded_;
  bool in_place_;
  bool one_run_ = tensor_.layout.strides.head == features_;  ///< heads lie side by side
  bool side_by_side_ = tensor_.layout.strides.feature == 1 && padded_ == features_ &&
                       (one_run_ || heads_ == 1);  ///< all values of a row, without padding
  Real* buffer_;
  EdgeRows rows_;  ///< without their sources where they are read where they lie
  std::int64_t runs_ = one_run_ ? 1 : heads_;  ///< stretches of memory that a row is made of
  std::int64_t run_bytes_ = heads_ / runs_ * features_ * tensor_.layout.bytes;
  std::int64_t ahead_ = std::clamp<std::int64_t>(
      kBytesAhead / std::max<std::int64_t>(runs_ * run_bytes_, 1), 2, kSourcesAhead);
};

/// The rows that kernels of nodes write for a tile. They lie in a tensor if kernels may write it,
/// and if it has [heads][padded features] of Real side by side or, with `one_per_head`, [heads];
/// else in a buffer, which has one row.
template <class Real>
class TileRows {
 public:
  TileRows(bool may_write, void* data, const Layout& layout, std::int64_t heads,
           std::int64_t features, bool one_per_head, Real* buffer)
      : data_(data),
        layout_(layout),
        size_(heads * features),
        buffer_(buffer),
        in_place_(may_write && data != nullptr && layout.type == kTypeOf<Real> &&
                  (heads == 1 || layout.strides.head == features) &&
                  (one_per_head || Gather<Real>::has_padded_reals(layout, features))) {}

  bool in_place() const { return in_place_; }

  NodeRows<Real> of(const NodeTile& tile) const {
    if (!in_place_) return {buffer_, 0};
    const std::int64_t stride = layout_.strides.row;
    auto* const first = reinterpret_cast<Real*>(row_at(data_, layout_, 0, 0, tile.first));
    // A store that misses every cache fills the queue of the stores behind it.
    constexpr std::int64_t kLine = 64 / sizeof(Real);
    for (std::int64_t i = tile.nodes; i < 2 * tile.nodes; ++i)
      for (std::int64_t x = 0; x < size_; x += kLine) __builtin_prefetch(first + i * stride + x, 1);
    return {first, stride};
  }

 private:
  void* const data_;
  const Layout& layout_;
  const std::int64_t size_;
  Real* const buffer_;
  const bool in_place_;
};

}  // namespace heed
