// Matrices prepared once: makes a heed_weights from its descriptor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/context/context.hpp"
#include "engine/projection/tiles.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/operands.hpp"
#include "engine/tensor/panels.hpp"

namespace heed {

/// How a matrix is prepared.
struct PreparedForm {
  bool float64;
  ElementType type;  ///< that it was given in
  std::int64_t in;
  std::int64_t out;
  Packing packing;
  std::size_t bytes;

  /// Whether the packed values have lost digits.
  bool is_rounded() const { return !packing.is_plain() && type != ElementType::kBf16; }
};

}  // namespace heed

/// The C API's opaque type. Values are of the arithmetic's type:
///
///   data  with Backend::kCblas [in][out]; else
///         [in / kTileIn][out / value_block][kTileIn][value_block],
///         the last tiles of `in` shorter, the last blocks of `out` padded with zeros; the same for
///         every instruction set
///   bias  [out]
///
/// Where the context multiplies pairs of bfloat16, a matrix of bfloat16 is kept in pairs instead,
/// every packing.tile_in() of `in` as the products' pack_values leaves them. Products of other
/// contexts widen or pack it again, tile by tile, and so do products of components:
/// two of a float are as long as the float.
struct heed_weights : heed::PreparedForm {
  const heed_context* context;  ///< for whose backend it is prepared
  heed::Array<std::byte> memory;
  const void* bias;  ///< in the memory, behind the matrix; nullptr: none

  const void* data() const { return memory.data(); }

  /// The tile that begins with feature in k, a multiple of packing.tile_in(), from feature out x
  /// on, a multiple of value_block.
  template <class Real>
  const Real* tile(std::int64_t k, std::int64_t x) const {
    const std::int64_t ins = std::min(packing.tile_in(), in - k);
    return static_cast<const Real*>(data()) +
           packing.lines(k) * heed::round_up(out, heed::kOutBlock) + packing.lines(ins) * x;
  }
};

namespace heed {

/// A checked descriptor, and the matrix and bias that it describes.
struct MatrixToPrepare {
  Matrix matrix;
  const void* data;
  Layout bias_layout;
  const void* bias;  ///< nullptr: none
  PreparedForm form;
};

inline Axes prepared_axes(const MatrixToPrepare& given) {
  const Matrix& m = given.matrix;
  return {{m.in / m.in_each, 1, m.in_each, m.out}, kMatrixNames};
}
inline Axes prepared_bias_axes(const MatrixToPrepare& given) {
  return vector_axes(given.matrix.out);
}
/// Messages call them by the names of arguments.
inline constexpr Operand<MatrixToPrepare> kWeightsOperands[] = {
    input({{"desc.layout", "matrix", "matrix", Form::kNone, 0, offsetof(MatrixToPrepare, data), 0},
           &MatrixToPrepare::matrix},
          prepared_axes),
    option({{"", "bias", "bias", Form::kNone, 0, offsetof(MatrixToPrepare, bias), 0},
            &MatrixToPrepare::bias_layout},
           prepared_bias_axes)
        .told(),
};

/// Throws an Error that names the field, its value and the bound.
MatrixToPrepare validate(const heed_context& context, const heed_weights_desc& desc,
                         const void* matrix, const void* bias);

/// A matrix and its bias, prepared or as a run's caller gave them.
struct MatrixArgument {
  const heed_weights* prepared;  ///< nullptr: the other fields apply
  Matrix matrix;
  const void* data;
  const void* bias = nullptr;  ///< [out], side by side; nullptr: none
  Layout bias_layout = {};

  /// The type that the matrix was given in.
  ElementType type() const { return prepared != nullptr ? prepared->type : matrix.layout.type; }
};

/// Whether a matrix of this type meets rows of `x` in pairs, in this context; rows and matrices of
/// other types do where the context may round them.
bool multiplies_pairs(const heed_context& context, ElementType x, ElementType matrix);

/// The components that rows of `x` and a matrix of this type are multiplied as. It depends on the
/// types alone, so that the bits of a row do not depend on how many there are.
Parts product_parts(const heed_context& context, ElementType x, ElementType matrix);

/// The most components that rows of `x` are multiplied as, whatever the matrix.
std::uint32_t most_product_parts(const heed_context& context, ElementType x);

/// A block of value_block features out from x on, of features in [k, k + ins), to
/// [ins][value_block]; k is a multiple of kTileIn.
template <class Real>
void read_block(const heed_weights& weights, std::int64_t k, std::int64_t ins, std::int64_t x,
                Real* to) {
  const Packing& packing = weights.packing;
  const std::int64_t step = packing.tile_in();
  for (std::int64_t done = 0; done < ins;) {
    const std::int64_t before = (k + done) % step;  // of the tile
    const std::int64_t some = std::min(step - before, ins - done);
    const Real* const from =
        weights.tile<Real>(k + done - before, x) + packing.lines(before) * kOutBlock;
    if (packing.is_plain())
      std::copy_n(from, some * kOutBlock, to + done * kOutBlock);
    else
      widen_block(from, packing.depth, some, to + done * kOutBlock);
    done += some;
  }
}

/// A matrix [in][out] of the arithmetic's type.
Matrix rows_side_by_side(bool float64, std::int64_t in, std::int64_t out);

/// One matrix transposed, without a bias, where it lies. One that is prepared, or several with gaps
/// between them, is copied to `buffer` first, [in][out] of the arithmetic's type.
MatrixArgument transposed(const Kernels& kernels, bool float64, const MatrixArgument& given,
                          void* buffer);
Matrix transposed(const Matrix& matrix);

/// The result shares the context.
heed_weights* make_weights(const heed_context& context, const MatrixToPrepare& given);
void release(heed_weights* weights) noexcept;

/// Either w, with or without b, or p; each with the name of its field, as in "args.w_query".
struct GivenMatrix {
  const char* w_field;
  const void* w;
  const char* b_field;
  const void* b;
  const char* p_field;
  const heed_weights* p;

  /// As products take it, by the layouts of the checked descriptor.
  MatrixArgument laid_out(const Matrix& matrix, const Layout& bias) const {
    return {p, matrix, w, b, bias};
  }
};

/// The matrix of an input, as in "query".
#define HEED_GIVEN_MATRIX(args, input)                                                        \
  heed::GivenMatrix {                                                                         \
    "args.w_" #input, (args).w_##input, "args.b_" #input, (args).b_##input, "args.p_" #input, \
        (args).p_##input                                                                      \
  }

/// The form of prepared matrices that a run's products want.
struct PreparedFor {
  Backend backend;
  bool rounds;  ///< they round matrices, too
};
PreparedFor prepared_for(const heed_context& context);

/// Throws an Error unless one of the two is given, and a prepared one fits the matrix.
void check_given(const GivenMatrix& given, const Matrix& matrix, bool float64,
                 const PreparedFor& products);

/// Throws unless what `field` names is prepared for the products of `of`, as in "plan".
void check_prepared(const char* field, const heed_weights& weights, const char* of,
                    const PreparedFor& products);

}  // namespace heed
