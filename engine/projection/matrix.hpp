// Weight matrices as callers give them, and the order in which products read them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/table.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {

/// A product takes this many features in at a time: a panel's part and the weights of one block
/// of features out then stay in the L1 cache.
inline constexpr std::int64_t kTileIn = 128;

/// Where the elements of a checked matrix lie. Several matrices may lie one below the other:
/// feature in `i` is row i % in_each of matrix i / in_each.
struct Matrix {
  Layout layout;  ///< strides: batch from matrix to matrix, row over in, feature over out
  std::int64_t in_each;
  std::int64_t in;  ///< of all matrices
  std::int64_t out;
};

/// Throws an Error that names `field` (as in "desc.w_query") unless every address is in range and
/// the type fits the arithmetic. 0 matrices: one, with nothing to step to.
Matrix check_matrix(const char* field, const heed_matrix_layout& given, std::int64_t matrices,
                    std::int64_t in_each, std::int64_t out, bool float64);

/// Throws unless float64 arithmetic meets float64 and nothing else does.
void check_arithmetic(const char* field, ElementType type, bool float64);

/// The layout of vectors whose heed_dtype is the field `field`.
Layout check_vector(const char* field, std::uint32_t dtype, bool float64);

/// Features in [k, k + ins) by features out [x, x + outs) of a matrix: the unit of packing. Packed
/// as the kernels' pack_values does it, [out block][in][value_block].
struct TileOf {
  std::int64_t k, ins;
  std::int64_t x, outs;
};

/// Copies a tile to `wide` in the type of the arithmetic, as [ins][outs] or [outs][ins], whichever
/// is how it lies.
template <class Real>
MatrixView<Real> widen_tile(const KernelTable<Real>& kernels, const Matrix& matrix,
                            const void* data, const TileOf& tile, Real* wide);

/// Packs one tile; `wide` is as in widen_tile, and used where the matrix is of another type or
/// several.
template <class Real>
void pack_tile(const KernelTable<Real>& kernels, const Matrix& matrix, const void* data,
               const TileOf& tile, Real* wide, Real* packed);

extern template MatrixView<float> widen_tile(const KernelTable<float>&, const Matrix&, const void*,
                                             const TileOf&, float*);
extern template MatrixView<double> widen_tile(const KernelTable<double>&, const Matrix&,
                                              const void*, const TileOf&, double*);
extern template void pack_tile(const KernelTable<float>&, const Matrix&, const void*, const TileOf&,
                               float*, float*);
extern template void pack_tile(const KernelTable<double>&, const Matrix&, const void*,
                               const TileOf&, double*, double*);

}  // namespace heed
