// Assembles the kernel table of one xsimd architecture. An <isa>.cpp includes this, names its
// architecture and is compiled with that architecture's flags.
#pragma once

#include "engine/kernels/exp2.hpp"
#include "engine/kernels/pack.hpp"
#include "engine/kernels/product.hpp"
#include "engine/kernels/softmax.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// Calls function(W) with the compile-time number of vectors of a panel.
template <class Function>
HEED_INLINE void with_vectors(std::size_t vectors, Function&& function) {
  switch (vectors) {
    case 1:
      return function(std::integral_constant<std::size_t, 1>{});
    case 2:
      return function(std::integral_constant<std::size_t, 2>{});
    default:
      return function(std::integral_constant<std::size_t, 3>{});
  }
}

template <class Arch>
struct VectorKernels {
  static void pack_query(const float* const* rows, std::size_t row_count,
                         std::ptrdiff_t feature_stride, std::size_t features, float scale,
                         float* panel, std::size_t vectors) {
    with_vectors(vectors, [&](auto w) {
      heed::pack_query<Arch, w>(rows, row_count, feature_stride, features, scale, panel);
    });
  }
  static void scores(const MatrixView& key, std::size_t keys, const float* panel,
                     std::size_t features, float* out, std::size_t vectors) {
    with_vectors(vectors, [&](auto w) { heed::scores<Arch, w>(key, keys, panel, features, out); });
  }
  static void mask(float* scores, std::size_t keys, const float* limit, std::size_t vectors) {
    with_vectors(vectors, [&](auto w) { heed::mask<Arch, w>(scores, keys, limit); });
  }
  static void softmax(float* scores, std::size_t keys, const RowState& rows,
                      std::size_t value_features, std::size_t vectors) {
    with_vectors(vectors,
                 [&](auto w) { heed::softmax<Arch, w>(scores, keys, rows, value_features); });
  }
  static void weights(const MatrixView& key, std::size_t keys, const float* panel,
                      std::size_t features, float* out, std::size_t pending, const RowState& rows,
                      std::size_t value_features, std::size_t vectors) {
    with_vectors(vectors, [&](auto w) {
      heed::weights<Arch, w>(key, keys, panel, features, out, pending, rows, value_features);
    });
  }
  static void accumulate(const ValueView& value, std::size_t keys, const float* weights,
                         float* accumulators, std::size_t features, bool fresh,
                         std::size_t vectors) {
    with_vectors(vectors, [&](auto w) {
      heed::accumulate<Arch, w>(value, keys, weights, accumulators, features, fresh);
    });
  }
  static void finish(float* accumulators, const float* sum, std::size_t features,
                     float* const* out_rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                     std::size_t vectors) {
    with_vectors(vectors, [&](auto w) {
      heed::finish<Arch, w>(accumulators, sum, features, out_rows, row_count, feature_stride);
    });
  }
};

/// `key_step` keys of a full panel should fill about a third of the L1 cache with scores.
template <class Arch>
constexpr KernelTable vector_kernels(const char* isa, std::uint32_t key_step) {
  static_assert(3 * kLanes<Arch> <= kMaxPanel);
  using Kernels = VectorKernels<Arch>;
  return {isa,
          static_cast<std::uint32_t>(kLanes<Arch>),
          3,
          key_step,
          Kernels::pack_query,
          Kernels::scores,
          Kernels::mask,
          Kernels::softmax,
          Kernels::weights,
          heed::pack_values<Arch>,
          Kernels::accumulate,
          Kernels::finish,
          heed::exp2_array<Arch>};
}

}  // namespace
}  // namespace heed
