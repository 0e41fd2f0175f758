// Matrices prepared once: makes a heed_weights from its descriptor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/context/context.hpp"
#include "engine/projection/matrix.hpp"

/// The C API's opaque type. Numbers are of the arithmetic's type:
///
///   data  with Backend::kCblas [in][out]; else
///         [in / kTileIn][out / value_block][kTileIn][value_block],
///         the last parts of `in` shorter, those of `out` padded with zeros; the same for every
///         instruction set
///   bias  [out]
struct heed_weights {
  const heed_context* context;
  heed::Backend backend;  ///< the one it is prepared for
  bool float64;
  std::int64_t in;
  std::int64_t out;
  std::size_t bytes;  ///< of memory
  std::byte* memory;
  const void* data;
  const void* bias;  ///< nullptr: none
};

namespace heed {

/// A checked descriptor, and the matrix and bias that it describes.
struct MatrixToPrepare {
  Matrix matrix;
  const void* data;
  Layout bias_layout;
  const void* bias;  ///< nullptr: none
  bool float64;
  std::size_t bytes;  ///< once prepared
};

/// Throws an Error that names the field, its value and the bound.
MatrixToPrepare validate(const heed_weights_desc& desc, const void* matrix, const void* bias);

/// A matrix and its bias, prepared or as a run's caller gave them.
struct MatrixArgument {
  const heed_weights* prepared;  ///< nullptr: the other fields apply
  const Matrix* matrix;
  const void* data;
  const void* bias;  ///< [out], side by side; nullptr: none
  Layout bias_layout;
};

/// A matrix [in][out] of the arithmetic's type.
Matrix rows_side_by_side(bool float64, std::int64_t in, std::int64_t out);

/// One matrix, without a bias, whose rows are a stride apart.
struct PlainMatrix {
  Matrix matrix;
  const void* data;
};

/// The matrix where it lies. One that is prepared, or several with gaps between them, is copied to
/// `room`, [in][out] of the arithmetic's type.
PlainMatrix plain_matrix(const Kernels& kernels, bool float64, const MatrixArgument& given,
                         void* room);
PlainMatrix transposed(const PlainMatrix& matrix);

/// The result shares the context.
heed_weights* make_weights(const heed_context& context, const MatrixToPrepare& given);
void release(heed_weights* weights) noexcept;

}  // namespace heed
