#include "engine/projection/weights.hpp"

#include <algorithm>

#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
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
  if (context.kernels->f32.by_parts.three == nullptr || context.backend != Backend::kHeed ||
      context.precision == Precision::kExact || x == ElementType::kF64)
    return {};
  const auto are = [&](ElementType type) { return x == type && matrix == type; };
  const bool high = context.precision == Precision::kHigh && are(ElementType::kF32);
  return {high || are(ElementType::kF16) ? std::uint32_t{2} : std::uint32_t{3}};
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
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.arithmetic is %u; it must be 0, HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)",
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
  check_pointer("matrix", matrix, given.matrix.layout, true);
  check_pointer("bias", bias, given.bias_layout, false);
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

}  // namespace heed
