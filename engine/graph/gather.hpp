// Rows of tensors over nodes or edges, as the kernels of edges want them: in the type of the
// arithmetic, features side by side and in whole units of kFeaturePadding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/dense/layout.hpp"
#include "engine/dense/tile.hpp"
#include "engine/graph/graph.hpp"
#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

/// Edges that are computed together: their scores lie in the L1 cache. Decides about rescaling,
/// and so about bits.
inline constexpr std::size_t kBatch = 32;

/// Rows are asked for about this many bytes before they are needed: enough to cover the latency of
/// memory, little enough to still be in the L1 cache then.
inline constexpr std::int64_t kBytesAhead = 4096;

/// Where rows lie that have been copied.
struct Consecutive {
  std::int32_t row[kBatch] = {};
  constexpr Consecutive() {
    for (std::size_t i = 0; i < kBatch; ++i) row[i] = static_cast<std::int32_t>(i);
  }
};
inline constexpr Consecutive kConsecutive;

/// A tensor and where its elements lie.
struct Tensor {
  const void* data;
  Layout layout;
};

template <class Real>
class Gather {
 public:
  static std::int64_t padded(std::int64_t features) {
    return round_up(features, static_cast<std::int64_t>(kFeaturePadding<Real>));
  }
  /// Whether the kernels can read the tensor where it lies.
  static bool in_place(const Layout& layout, std::int64_t features) {
    return layout.type == kTypeOf<Real> && layout.strides.feature == 1 &&
           features == padded(features);
  }

  /// `buffer`, [kBatch][heads][padded features], receives rows that are copied.
  Gather(const KernelTable<Real>& kernels, const Tensor& tensor, std::int64_t heads,
         std::int64_t features, Real* buffer)
      : kernels_(kernels),
        tensor_(tensor),
        heads_(heads),
        features_(features),
        padded_(padded(features)),
        in_place_(in_place(tensor.layout, features)),
        buffer_(buffer) {
    const std::int64_t row_bytes =
        std::max(heads * features * tensor.layout.bytes, std::int64_t{1});
    ahead_ = std::clamp<std::int64_t>(kBytesAhead / row_bytes, 2, kSourcesAhead);
  }

  std::size_t features() const { return static_cast<std::size_t>(padded_); }

  /// The rows that `source` lists, which goes on for kSourcesAhead more.
  EdgeRows<Real> rows(const std::int32_t* source, std::size_t edges) const {
    if (!in_place_) return copied(source, edges);
    const Strides& s = tensor_.layout.strides;
    return {static_cast<const Real*>(tensor_.data), source, s.row, s.head,
            static_cast<std::size_t>(ahead_)};
  }

  /// The same, copied to the buffer whatever they are.
  EdgeRows<Real> copied(const std::int32_t* source, std::size_t edges) const {
    for (std::size_t e = 0; e < edges; ++e) {
      prefetch(source[e + static_cast<std::size_t>(ahead_)]);
      copy(source[e], buffer_ + static_cast<std::int64_t>(e) * heads_ * padded_);
    }
    return {buffer_, kConsecutive.row, heads_ * padded_, padded_, 0};
  }

  /// One row, as [heads][padded features].
  void copy(std::int64_t row, Real* to) const {
    const Layout& layout = tensor_.layout;
    if (layout.strides.feature == 1 && padded_ == features_ &&
        (layout.strides.head == features_ || heads_ == 1)) {
      kernels_.read(layout.type, row_at(tensor_.data, layout, 0, 0, row), 1,
                    static_cast<std::size_t>(heads_ * features_), to);
      return;
    }
    for (std::int64_t h = 0; h < heads_; ++h, to += padded_) {
      kernels_.read(layout.type, row_at(tensor_.data, layout, 0, h, row), layout.strides.feature,
                    static_cast<std::size_t>(features_), to);
      std::fill(to + features_, to + padded_, Real{0});
    }
  }

 private:
  void prefetch(std::int64_t row) const {
    constexpr std::int64_t kLine = 64;
    const Layout& layout = tensor_.layout;
    if (layout.strides.feature != 1) return;
    for (std::int64_t h = 0; h < heads_; ++h) {
      const std::byte* const from = row_at(tensor_.data, layout, 0, h, row);
      for (std::int64_t at = 0; at < features_ * layout.bytes; at += kLine)
        __builtin_prefetch(from + at);
    }
  }

  const KernelTable<Real>& kernels_;
  Tensor tensor_;
  std::int64_t heads_;
  std::int64_t features_;
  std::int64_t padded_;
  bool in_place_;
  Real* buffer_;
  std::int64_t ahead_;
};

}  // namespace heed
