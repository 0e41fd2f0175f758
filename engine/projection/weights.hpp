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

/// The result shares the context.
heed_weights* make_weights(const heed_context& context, const MatrixToPrepare& given);
void release(heed_weights* weights) noexcept;

}  // namespace heed
