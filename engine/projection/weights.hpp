// Matrices prepared once: makes a heed_weights from its descriptor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/context/context.hpp"
#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/operands.hpp"
#include "engine/tensor/panels.hpp"

namespace heed {

/// A product takes this many features in at a time, so that a panel's share of x and the weights of
/// one block of features out stay in the L1 cache; of pairs twice as many, which take as much.
inline constexpr std::int64_t kTileIn = 128;
inline constexpr std::int64_t kMostTileIn = 2 * kTileIn;

/// How products want features in: ProductKernels::depth of them at a time, each in so many parts.
struct Packing {
  std::uint32_t depth = 1;
  std::uint32_t parts = 1;

  template <class Real>
  static Packing of(const ProductKernels<Real>& products) {
    return {products.depth, products.parts};
  }
  bool operator==(const Packing& other) const {
    return depth == other.depth && parts == other.parts;
  }
  /// Values are packed as they are.
  bool is_plain() const { return depth == 1; }
  /// Features in of a tile.
  std::int64_t tile_in() const { return is_plain() || parts > 1 ? kTileIn : kMostTileIn; }
  /// Reals of `depth` features in of one feature out.
  std::int64_t elements() const {
    return is_plain() ? 1 : std::int64_t{depth} / 2 * std::int64_t{parts};
  }
  /// Reals of so many features in of one feature out.
  std::int64_t lines(std::int64_t ins) const {
    return ceil_div(ins, std::int64_t{depth}) * elements();
  }
};

/// Features in [k, k + ins) by features out [x, x + outs) of a matrix: the unit of packing. Packed
/// as the kernels' pack_values does it, [out block][in][value_block].
struct TileOf {
  std::int64_t k, ins;
  std::int64_t x, outs;
};

/// Copies a tile to `wide` in the type of the arithmetic, as [ins][outs] or [outs][ins], as it lies
/// in the matrix.
template <class Real>
MatrixView<Real> widen_tile(const KernelTable<Real>& kernels, const Matrix& matrix,
                            const void* data, const TileOf& tile, Real* wide);

/// Packs one tile for these products. `wide`, as in widen_tile, is used if the matrix has another
/// type, is several matrices or is rounded: to one bfloat16, where finite values stay finite.
template <class Real>
void pack_tile(const KernelTable<Real>& kernels, const ProductKernels<Real>& products,
               const Matrix& matrix, const void* data, const TileOf& tile, Real* wide,
               Real* packed);

/// A packed tile of so many features in.
template <class Real>
ValueView<Real> packed_view(const Real* packed, const Packing& packing, std::int64_t ins) {
  constexpr auto kBlock = static_cast<std::ptrdiff_t>(PanelGeometry::value_block);
  return {packed, kBlock * packing.elements(), packing.elements(), packing.lines(ins) * kBlock};
}

/// One block of features out of a tile that is packed in pairs, to [ins][value_block].
template <class Real>
void widen_block(const Real* packed, std::uint32_t depth, std::int64_t ins, Real* to);

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
/// contexts widen or pack it again, tile by tile, and so do products of parts of floats:
/// two parts of a float are as long as the float.
struct heed_weights {
  const heed_context* context;
  heed::Backend backend;  ///< the one it is prepared for
  bool float64;
  heed::ElementType type;  ///< that it was given in
  heed::Packing packing;
  bool rounded;  ///< the packed values have lost digits
  std::int64_t in;
  std::int64_t out;
  std::size_t bytes;  ///< of memory
  std::byte* memory;
  const void* data;
  const void* bias;  ///< nullptr: none

  /// The tile that begins with feature in k, a multiple of packing.tile_in(), from feature out x
  /// on, a multiple of value_block.
  template <class Real>
  const Real* tile(std::int64_t k, std::int64_t x) const {
    constexpr auto kBlock = static_cast<std::int64_t>(heed::PanelGeometry::value_block);
    const std::int64_t ins = std::min(packing.tile_in(), in - k);
    return static_cast<const Real*>(data) + packing.lines(k) * heed::round_up(out, kBlock) +
           packing.lines(ins) * x;
  }
};

namespace heed {

/// A checked descriptor, and the matrix and bias that it describes.
struct MatrixToPrepare {
  Matrix matrix;
  const void* data;
  Layout bias_layout;
  const void* bias;  ///< nullptr: none
  bool float64;
  Packing packing;    ///< see heed_weights
  std::size_t bytes;  ///< once prepared
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
  const Matrix* matrix;
  const void* data;
  const void* bias;  ///< [out], side by side; nullptr: none
  Layout bias_layout;

  /// The type that the matrix was given in.
  ElementType type() const { return prepared != nullptr ? prepared->type : matrix->layout.type; }
};

/// Whether a matrix of this type meets rows of `x` in pairs, in this context; rows and matrices of
/// other types do where the context may round them.
bool multiplies_pairs(const heed_context& context, ElementType x, ElementType matrix);

/// The parts that rows of `x` and a matrix of this type are multiplied as. It depends on the types
/// alone, so that the bits of a row do not depend on how many there are.
Parts product_parts(const heed_context& context, ElementType x, ElementType matrix);

/// The most parts that rows of `x` are multiplied as, whatever the matrix.
std::uint32_t most_product_parts(const heed_context& context, ElementType x);

/// A block of value_block features out from x on, of features in [k, k + ins), to
/// [ins][value_block]; k is a multiple of kTileIn.
template <class Real>
void read_block(const heed_weights& weights, std::int64_t k, std::int64_t ins, std::int64_t x,
                Real* to);

/// A matrix [in][out] of the arithmetic's type.
Matrix rows_side_by_side(bool float64, std::int64_t in, std::int64_t out);

/// One matrix, without a bias, whose rows are a stride apart.
struct PlainMatrix {
  Matrix matrix;
  const void* data;
};

/// The matrix where it lies. One that is prepared, or several with gaps between them, is copied to
/// `buffer`, [in][out] of the arithmetic's type.
PlainMatrix plain_matrix(const Kernels& kernels, bool float64, const MatrixArgument& given,
                         void* buffer);
PlainMatrix transposed(const PlainMatrix& matrix);

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
};

/// The matrix of an input, as in "query".
#define HEED_GIVEN_MATRIX(args, input)                                                        \
  {                                                                                           \
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
