#include "engine/projection/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

// ---- Tiles --------------------------------------------------------------------------------------

template <class Real>
MatrixView<Real> widen_tile(const KernelTable<Real>& kernels, const Matrix& matrix,
                            const void* data, const TileOf& tile, Real* wide) {
  const Layout& layout = matrix.layout;
  const bool by_columns = magnitude(layout.strides.row) < magnitude(layout.strides.feature);
  const std::ptrdiff_t row_step = by_columns ? 1 : tile.outs;
  const std::ptrdiff_t column_step = by_columns ? tile.ins : 1;
  for (std::int64_t done = 0; done < tile.ins;) {
    const std::int64_t row = (tile.k + done) % matrix.in_each;
    const std::int64_t rows = std::min(matrix.in_each - row, tile.ins - done);
    const std::byte* const from = row_at(data, layout, (tile.k + done) / matrix.in_each, 0, row) +
                                  tile.x * layout.strides.feature * layout.bytes;
    Real* const to = wide + done * row_step;
    for (std::int64_t x = 0; by_columns && x < tile.outs; ++x)
      kernels.numbers.read(layout.type, from + x * layout.strides.feature * layout.bytes,
                           layout.strides.row, static_cast<std::size_t>(rows),
                           to + x * column_step);
    for (std::int64_t r = 0; !by_columns && r < rows; ++r)
      kernels.numbers.read(layout.type, from + r * layout.strides.row * layout.bytes,
                           layout.strides.feature, static_cast<std::size_t>(tile.outs),
                           to + r * row_step);
    done += rows;
  }
  return {wide, row_step, column_step};
}

namespace {

/// The largest number of bfloat16. Larger ones would be rounded to infinity.
constexpr float kLargest = 0x1.fep127F;

template <class Real>
void keep_finite(Real* values, std::int64_t count) {
  constexpr auto kMost = static_cast<Real>(kLargest);
  for (std::int64_t i = 0; i < count; ++i) {
    const Real size = std::fabs(values[i]);
    const bool lost = size > kMost && size < std::numeric_limits<Real>::infinity();
    values[i] = lost ? std::copysign(kMost, values[i]) : values[i];
  }
}

}  // namespace

template <class Real>
void pack_tile(const KernelTable<Real>& kernels, const ProductKernels<Real>& products,
               const Matrix& matrix, const void* data, const TileOf& tile, Real* wide,
               Real* packed) {
  const Layout& layout = matrix.layout;
  const bool rounds =
      products.depth != 1 && products.parts == 1 && layout.type != ElementType::kBf16;
  MatrixView<Real> view{};
  if (layout.type != kTypeOf<Real> || matrix.in_each != matrix.in || rounds) {
    view = widen_tile(kernels, matrix, data, tile, wide);
    if (rounds) keep_finite(wide, tile.ins * tile.outs);
  } else {
    view = {reinterpret_cast<const Real*>(row_at(data, layout, 0, 0, tile.k)) +
                tile.x * layout.strides.feature,
            layout.strides.row, layout.strides.feature};
  }
  products.pack_values(view, static_cast<std::size_t>(tile.ins),
                       static_cast<std::size_t>(tile.outs), packed);
}

template <class Real>
void widen_block(const Real* packed, std::uint32_t depth, std::int64_t ins, Real* to) {
  constexpr auto kBlock = static_cast<std::int64_t>(PanelGeometry::value_block);
  const auto* const halves = reinterpret_cast<const std::byte*>(packed);
  for (std::int64_t k = 0; k < ins; ++k)
    for (std::int64_t x = 0; x < kBlock; ++x) {
      const std::int64_t at = (k / depth * kBlock + x) * depth + k % depth;
      std::uint16_t half = 0;
      std::memcpy(&half, halves + at * 2, sizeof half);
      const std::uint32_t bits = std::uint32_t{half} << 16;
      float number = 0;
      std::memcpy(&number, &bits, sizeof number);
      to[k * kBlock + x] = static_cast<Real>(number);
    }
}

template MatrixView<float> widen_tile(const KernelTable<float>&, const Matrix&, const void*,
                                      const TileOf&, float*);
template MatrixView<double> widen_tile(const KernelTable<double>&, const Matrix&, const void*,
                                       const TileOf&, double*);
template void pack_tile(const KernelTable<float>&, const ProductKernels<float>&, const Matrix&,
                        const void*, const TileOf&, float*, float*);
template void pack_tile(const KernelTable<double>&, const ProductKernels<double>&, const Matrix&,
                        const void*, const TileOf&, double*, double*);
template void widen_block(const float*, std::uint32_t, std::int64_t, float*);
template void widen_block(const double*, std::uint32_t, std::int64_t, double*);

namespace {

constexpr auto kBlock = static_cast<std::int64_t>(PanelGeometry::value_block);

/// Copies the matrix as CBLAS libraries read it.
template <class Real>
void copy(const Kernels& all, const Matrix& m, const void* data, Real* to) {
  for (std::int64_t k = 0; k < m.in; ++k)
    kernels_of<Real>(all).numbers.read(
        m.layout.type, row_at(data, m.layout, k / m.in_each, 0, k % m.in_each),
        m.layout.strides.feature, static_cast<std::size_t>(m.out), to + k * m.out);
}

/// Packs one block of features out after the other, in the order of memory.
template <class Real>
void pack(const Kernels& all, const MatrixToPrepare& given, Real* to) {
  const KernelTable<Real>& kernels = kernels_of<Real>(all);
  const ProductKernels<Real>& products = products_of(kernels, pairs_if(!given.packing.is_plain()));
  const Matrix& m = given.matrix;
  const std::int64_t step = given.packing.tile_in();
  Real wide[kMostTileIn * kBlock];
  for (std::int64_t k = 0; k < m.in; k += step) {
    const std::int64_t ins = std::min(step, m.in - k);
    for (std::int64_t x = 0; x < m.out; x += kBlock) {
      pack_tile(kernels, products, m, given.data, {k, ins, x, std::min(kBlock, m.out - x)}, wide,
                to);
      to += given.packing.lines(ins) * kBlock;
    }
  }
}

/// The other way, to [in][out].
template <class Real>
void unpack(const heed_weights& weights, Real* to) {
  Real block[kTileIn * kBlock];
  for (std::int64_t k = 0; k < weights.in; k += kTileIn) {
    const std::int64_t ins = std::min(kTileIn, weights.in - k);
    for (std::int64_t x = 0; x < weights.out; x += kBlock) {
      read_block(weights, k, ins, x, block);
      for (std::int64_t i = 0; i < ins; ++i)
        std::copy_n(block + i * kBlock, std::min(kBlock, weights.out - x),
                    to + (k + i) * weights.out + x);
    }
  }
}

template <class Real>
void fill(const MatrixToPrepare& given, heed_weights& weights) {
  const Kernels& kernels = *weights.context->kernels;
  auto* const data = reinterpret_cast<Real*>(weights.memory);
  if (weights.backend == Backend::kCblas) {
    copy(kernels, given.matrix, given.data, data);
  } else {
    pack(kernels, given, data);
  }
  weights.data = data;
  if (given.bias == nullptr) return;
  Real* const own =
      data + given.packing.lines(given.matrix.in) * round_up(given.matrix.out, kBlock);
  kernels_of<Real>(kernels).numbers.read(given.bias_layout.type, given.bias, 1,
                                         static_cast<std::size_t>(given.matrix.out), own);
  weights.bias = own;
}

}  // namespace

template <class Real>
void read_block(const heed_weights& weights, std::int64_t k, std::int64_t ins, std::int64_t x,
                Real* to) {
  const Packing& packing = weights.packing;
  const std::int64_t step = packing.tile_in();
  for (std::int64_t done = 0; done < ins;) {
    const std::int64_t before = (k + done) % step;  // of the tile
    const std::int64_t some = std::min(step - before, ins - done);
    const Real* const from =
        weights.tile<Real>(k + done - before, x) + packing.lines(before) * kBlock;
    if (packing.is_plain())
      std::copy_n(from, some * kBlock, to + done * kBlock);
    else
      widen_block(from, packing.depth, some, to + done * kBlock);
    done += some;
  }
}

template void read_block(const heed_weights&, std::int64_t, std::int64_t, std::int64_t, float*);
template void read_block(const heed_weights&, std::int64_t, std::int64_t, std::int64_t, double*);

Matrix rows_side_by_side(bool float64, std::int64_t in, std::int64_t out) {
  return {{real_type(float64), real_bytes(float64), {0, 0, out, 1}}, in, in, out};
}

PlainMatrix plain_matrix(const Kernels& kernels, bool float64, const MatrixArgument& given,
                         void* buffer) {
  const heed_weights* const prepared = given.prepared;
  const Matrix& m = *given.matrix;
  if (prepared == nullptr && m.in_each == m.in) return {m, given.data};
  const Matrix rows = rows_side_by_side(float64, m.in, m.out);
  if (prepared != nullptr && prepared->backend == Backend::kCblas) return {rows, prepared->data};
  with_real(float64, [&](auto real) {
    auto* const to = static_cast<decltype(real)*>(buffer);
    prepared == nullptr ? copy(kernels, m, given.data, to) : unpack(*prepared, to);
  });
  return {rows, buffer};
}

PlainMatrix transposed(const PlainMatrix& matrix) {
  const Strides& s = matrix.matrix.layout.strides;
  PlainMatrix result = matrix;
  result.matrix.layout.strides = {0, 0, s.feature, s.row};
  result.matrix.in = result.matrix.in_each = matrix.matrix.out;
  result.matrix.out = matrix.matrix.in;
  return result;
}

bool multiplies_pairs(const heed_context& context, ElementType x, ElementType matrix) {
  if (!has_pairs(context) || context.backend != Backend::kHeed || x == ElementType::kF64)
    return false;
  return context.precision == Precision::kMedium ||
         (x == ElementType::kBf16 && matrix == ElementType::kBf16);
}

Parts product_parts(const heed_context& context, ElementType x, ElementType matrix) {
  if (multiplies_pairs(context, x, matrix)) return {1};
  if (context.kernels->f32.by_parts.two == nullptr || context.backend != Backend::kHeed ||
      context.precision == Precision::kExact || x == ElementType::kF64)
    return {};
  const auto are = [&](ElementType type) { return x == type && matrix == type; };
  const bool high = context.precision == Precision::kHigh && are(ElementType::kF32);
  return {high || are(ElementType::kF16) ? std::uint32_t{2} : std::uint32_t{0}};
}

std::uint32_t most_product_parts(const heed_context& context, ElementType x) {
  std::uint32_t most = 0;
  for (const ElementType matrix : {ElementType::kF32, ElementType::kBf16, ElementType::kF16})
    most = std::max(most, product_parts(context, x, matrix).count);
  return most;
}

MatrixToPrepare validate(const heed_context& context, const heed_weights_desc& desc,
                         const void* matrix, const void* bias) {
  if (desc.arithmetic != HEED_DTYPE_DEFAULT && desc.arithmetic != HEED_DTYPE_F32 &&
      desc.arithmetic != HEED_DTYPE_F64)
    refuse("desc.arithmetic is %u; it must be 0, HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)",
           desc.arithmetic);
  check_reserved("desc.reserved", desc.reserved);
  check_size("matrices", desc.matrices, 0);
  check_size("in", desc.in, 1);
  check_size("out", desc.out, 1);
  const bool float64 = desc.arithmetic == HEED_DTYPE_F64;
  MatrixToPrepare given = {
      check_matrix("desc.layout", desc.layout, desc.matrices, desc.in, desc.out, float64),
      matrix,
      check_vector("desc.bias_dtype", desc.bias_dtype, float64),
      bias,
      float64,
      {},
      0};
  if (multiplies_pairs(context, float64 ? ElementType::kF64 : ElementType::kBf16,
                       given.matrix.layout.type))
    given.packing.depth = context.kernels->f32.pairs->depth;
  check_pointers<kWeightsOperands>(given, &given, float64);
  const Size rows = Size(given.packing.lines(given.matrix.in)) + (bias != nullptr ? 1 : 0);
  const Size bytes = rows * round_up(Size(given.matrix.out), kBlock) * real_bytes(float64);
  given.bytes = static_cast<std::size_t>(bytes.checked(
      "the prepared matrix",
      {{"desc.matrices", desc.matrices}, {"desc.in", desc.in}, {"desc.out", desc.out}}));
  return given;
}

heed_weights* make_weights(const heed_context& context, const MatrixToPrepare& given) {
  heed_weights* const weights = make<heed_weights>(context.allocator);
  try {
    weights->memory =
        static_cast<std::byte*>(allocate(context.allocator, given.bytes, HEED_WORKSPACE_ALIGNMENT));
  } catch (...) {
    destroy(context.allocator, weights);
    throw;
  }
  weights->context = &context;
  weights->backend = context.backend;
  weights->float64 = given.float64;
  weights->type = given.matrix.layout.type;
  weights->packing = given.packing;
  weights->rounded = !given.packing.is_plain() && weights->type != ElementType::kBf16;
  weights->in = given.matrix.in;
  weights->out = given.matrix.out;
  weights->bytes = given.bytes;
  with_real(given.float64, [&](auto real) { fill<decltype(real)>(given, *weights); });
  share(context);
  return weights;
}

void release(heed_weights* weights) noexcept {
  const heed_context* const context = weights->context;
  const heed_allocator& allocator = context->allocator;
  allocator.release(allocator.user, weights->memory, weights->bytes);
  destroy(allocator, weights);
  release(context);
}

namespace {

void check_fits(const GivenMatrix& given, const Matrix& matrix, bool float64,
                const PreparedFor& products) {
  const heed_weights& weights = *given.p;
  check_prepared(given.p_field, weights, "plan", products);
  if (given.b != nullptr)
    refuse("%s is given; it must be NULL with %s, which has its bias inside", given.b_field,
           given.p_field);
  if (weights.in != matrix.in || weights.out != matrix.out)
    refuse("%s is prepared from %lld features to %lld; it must be from %lld to %lld", given.p_field,
           lld(weights.in), lld(weights.out), lld(matrix.in), lld(matrix.out));
  if (weights.float64 != float64)
    refuse("%s is prepared for %s arithmetic; this plan's is %s", given.p_field,
           weights.float64 ? "float64" : "float32", float64 ? "float64" : "float32");
}

}  // namespace

PreparedFor prepared_for(const heed_context& context) {
  return {context.backend, has_pairs(context) && context.precision == Precision::kMedium};
}

void check_prepared(const char* field, const heed_weights& weights, const char* of,
                    const PreparedFor& products) {
  if (weights.backend != products.backend)
    refuse("%s is prepared with a context whose product is \"%s\"; this %s's is \"%s\"", field,
           name_of(weights.backend), of, name_of(products.backend));
  if (weights.rounded && !products.rounds)
    refuse(
        "%s is prepared with a context whose precision is \"medium\", which rounded it to "
        "bfloat16; "
        "this %s does not round matrices",
        field, of);
}

void check_given(const GivenMatrix& given, const Matrix& matrix, bool float64,
                 const PreparedFor& products) {
  if ((given.w != nullptr) == (given.p != nullptr))
    refuse("%s and %s are both %s; give one of them", given.w_field, given.p_field,
           given.w == nullptr ? "NULL" : "given");
  if (given.p != nullptr) check_fits(given, matrix, float64, products);
}

}  // namespace heed
