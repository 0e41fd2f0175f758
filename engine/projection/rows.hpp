// Rows that products read and write, where the caller keeps them or transposed in panels.
//
// Panels, [panel][width][pitch], hold the features of a few rows, one feature's values side by
// side. The panels of a tensor follow each other in the order of ItemCut; `width` is rounded up to
// row_padding, because kernels write whole groups.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/context/context.hpp"
#include "engine/kernels/table.hpp"
#include "engine/tensor/layout.hpp"
#include "engine/tensor/panels.hpp"

namespace heed {

/// Rows of a tensor [batch][row][feature], numbered through: row t is row t % per_batch of batch
/// item t / per_batch.
struct InputRows {
  const void* data;
  Layout layout;
  std::int64_t per_batch;

  const std::byte* at(std::int64_t t) const {
    return row_at(data, layout, t / per_batch, 0, t % per_batch);
  }
  /// How many rows from t on, of `count`, lie a stride apart.
  std::int64_t in_step(std::int64_t t, std::int64_t count) const {
    const bool whole = layout.strides.batch == per_batch * layout.strides.row;
    return whole ? count - t : std::min(count - t, per_batch - t % per_batch);
  }
};

/// The same with features split between heads: feature x is x % per_head of head x / per_head.
struct OutputRows {
  void* data;
  Layout layout;
  std::int64_t per_batch;
  std::int64_t per_head;

  std::byte* at(std::int64_t t, std::int64_t x) const {
    return row_at(data, layout, t / per_batch, x / per_head, t % per_batch) +
           x % per_head * layout.strides.feature * layout.bytes;
  }
};

/// All of a tensor's rows, in panels.
struct PackJob {
  bool float64;
  InputRows from;
  std::int64_t items;  ///< of `rows` each, see ItemCut
  std::int64_t rows;
  std::int64_t features;
  void* panels;
};

/// Bytes of slab that pack_panels needs for each worker.
std::size_t pack_slab_bytes(const heed_context& context, bool float64);

void pack_panels(const heed_context& context, const PackJob& job, std::uint32_t workers,
                 std::byte* slabs, std::size_t slab_bytes);

}  // namespace heed
