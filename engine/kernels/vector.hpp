// Assembles the kernel tables of one xsimd architecture. An <isa>.cpp includes this, names its
// architecture and is compiled with that architecture's flags.
#pragma once

#include "engine/kernels/adjust.hpp"
#include "engine/kernels/convert.hpp"
#include "engine/kernels/edges.hpp"
#include "engine/kernels/exp2.hpp"
#include "engine/kernels/hardest.hpp"
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

/// The entries of the table that are compiled once for each number of vectors.
template <class V>
struct VectorKernels {
  using Real = RealOf<V>;

  static void pack_query(const Real* const* rows, std::size_t row_count,
                         std::ptrdiff_t feature_stride, std::size_t features, Real scale,
                         Real* panel, std::size_t vectors) {
    with_vectors(vectors, [&](auto w) {
      heed::pack_query<V, w>(rows, row_count, feature_stride, features, scale, panel);
    });
  }
  static void scores(const MatrixView<Real>& key, const KeyRanges& keys, const Real* panel,
                     std::size_t features, Real* out, std::size_t vectors) {
    with_vectors(vectors, [&](auto w) { heed::scores<V, w>(key, keys, panel, features, out); });
  }
  static void softcap(Real* scores, std::size_t keys, Real factor, std::size_t vectors) {
    with_vectors(vectors, [&](auto w) { heed::softcap<V, w>(scores, keys, factor); });
  }
  static void alibi(Real* scores, std::size_t keys, const Real* position, const Real* slope,
                    std::size_t vectors) {
    with_vectors(vectors, [&](auto w) { heed::alibi<V, w>(scores, keys, position, slope); });
  }
  static void add_rows(Real* scores, std::size_t keys, const Real* const* rows,
                       std::size_t row_count, Real factor, std::size_t vectors) {
    with_vectors(vectors,
                 [&](auto w) { heed::add_rows<V, w>(scores, keys, rows, row_count, factor); });
  }
  static void mask_rows(Real* scores, std::size_t keys, const std::uint8_t* const* rows,
                        std::size_t row_count, std::size_t vectors) {
    with_vectors(vectors, [&](auto w) { heed::mask_rows<V, w>(scores, keys, rows, row_count); });
  }
  static void mask(Real* scores, std::size_t keys, const Real* first, const Real* limit,
                   std::size_t vectors) {
    with_vectors(vectors, [&](auto w) { heed::mask<V, w>(scores, keys, first, limit); });
  }
  static void softmax(Real* scores, const KeyRanges& keys, std::size_t pending,
                      const RowState<Real>& rows, std::size_t accumulated, std::size_t vectors) {
    with_vectors(vectors,
                 [&](auto w) { heed::softmax<V, w>(scores, keys, pending, rows, accumulated); });
  }
  static void exponentials(Real* scores, std::size_t keys, const Real* reference, Real* sum,
                           std::size_t vectors) {
    with_vectors(vectors,
                 [&](auto w) { heed::exponentials<V, w>(scores, all_keys(keys), reference, sum); });
  }
  static void hardest(const Real* scores, std::size_t keys, Real* best, Real* index,
                      std::size_t vectors) {
    with_vectors(vectors, [&](auto w) { heed::hardest<V, w>(scores, keys, best, index); });
  }
  static void weights(const MatrixView<Real>& key, std::size_t keys, const Real* panel,
                      std::size_t features, Real* out, std::size_t pending,
                      const RowState<Real>& rows, std::size_t accumulated, std::size_t vectors) {
    with_vectors(vectors, [&](auto w) {
      heed::weights<V, w>(key, keys, panel, features, out, pending, rows, accumulated);
    });
  }
  static void accumulate(const ValueView<Real>& value, const KeyRanges& keys, std::size_t first_run,
                         const Real* weights, Real* accumulators, std::size_t features, bool fresh,
                         std::size_t vectors) {
    with_vectors(vectors, [&](auto w) {
      heed::accumulate<V, w>(value, keys, first_run, weights, accumulators, features, fresh);
    });
  }
  static void finish(const Real* accumulators, const Real* sum, std::size_t features,
                     Real* const* out_rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                     std::size_t vectors) {
    with_vectors(vectors, [&](auto w) {
      heed::finish<V, w>(accumulators, sum, features, out_rows, row_count, feature_stride);
    });
  }
  static void normalise(const Real* accumulators, const Real* sum, std::size_t features, Real* to,
                        std::size_t vectors) {
    with_vectors(vectors, [&](auto w) { heed::normalise<V, w>(accumulators, sum, features, to); });
  }
};

template <class V>
constexpr KernelTable<RealOf<V>> vector_table(const char* isa, std::uint32_t key_step) {
  static_assert(kMaxVectors * kLanes<V> <= kMaxPanel);
  using Kernels = VectorKernels<V>;
  return {isa,
          static_cast<std::uint32_t>(kLanes<V>),
          kMaxVectors,
          key_step,
          Kernels::pack_query,
          Kernels::scores,
          Kernels::softcap,
          Kernels::alibi,
          Kernels::add_rows,
          Kernels::mask_rows,
          Kernels::mask,
          Kernels::softmax,
          Kernels::exponentials,
          Kernels::hardest,
          Kernels::weights,
          heed::pack_values<V>,
          Kernels::accumulate,
          heed::all_finite<V>,
          Kernels::finish,
          Kernels::normalise,
          heed::edge_scores<V>,
          heed::edge_values<V>,
          heed::exp2_array<V>,
          heed::read<RealOf<V>>,
          heed::write<RealOf<V>>};
}

/// `key_step` keys of a full panel should fill about a third of the L1 cache with scores, which
/// are as many bytes for either type.
template <class Arch>
constexpr Kernels vector_kernels(const char* isa, std::uint32_t key_step) {
  return {vector_table<Vec<float, Arch>>(isa, key_step),
          vector_table<Vec<double, Arch>>(isa, key_step)};
}

}  // namespace
}  // namespace heed
