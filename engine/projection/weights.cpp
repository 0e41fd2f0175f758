#include "engine/projection/weights.hpp"

#include <algorithm>
#include <utility>

#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

namespace {

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
  const ProductKernels<Real>& products =
      products_of(kernels, pairs_if(!given.form.packing.is_plain()));
  const Matrix& m = given.matrix;
  const std::int64_t step = given.form.packing.tile_in();
  Real wide[kMostTileIn * kOutBlock];
  for (std::int64_t k = 0; k < m.in; k += step) {
    const std::int64_t ins = std::min(step, m.in - k);
    for (std::int64_t x = 0; x < m.out; x += kOutBlock) {
      pack_tile(kernels, products, m, given.data, {k, ins, x, std::min(kOutBlock, m.out - x)}, wide,
                to);
      to += given.form.packing.lines(ins) * kOutBlock;
    }
  }
}

/// The other way, to [in][out].
template <class Real>
void unpack(const heed_weights& weights, Real* to) {
  Real block[kTileIn * kOutBlock];
  for (std::int64_t k = 0; k < weights.in; k += kTileIn) {
    const std::int64_t ins = std::min(kTileIn, weights.in - k);
    for (std::int64_t x = 0; x < weights.out; x += kOutBlock) {
      read_block(weights, k, ins, x, block);
      for (std::int64_t i = 0; i < ins; ++i)
        std::copy_n(block + i * kOutBlock, std::min(kOutBlock, weights.out - x),
                    to + (k + i) * weights.out + x);
    }
  }
}

template <class Real>
void fill(const MatrixToPrepare& given, heed_weights& weights) {
  const Kernels& kernels = *weights.context->kernels;
  auto* const data = reinterpret_cast<Real*>(weights.memory.data());
  weights.context->backend == Backend::kCblas ? copy(kernels, given.matrix, given.data, data)
                                              : pack(kernels, given, data);
  if (given.bias == nullptr) return;
  Real* const own = data + weights.packing.lines(weights.in) * round_up(weights.out, kOutBlock);
  kernels_of<Real>(kernels).numbers.read(given.bias_layout.type, given.bias, 1,
                                         static_cast<std::size_t>(weights.out), own);
  weights.bias = own;
}

}  // namespace

Matrix rows_side_by_side(bool float64, std::int64_t in, std::int64_t out) {
  return {{real_type(float64), real_bytes(float64), {0, 0, out, 1}}, in, in, out};
}

Matrix transposed(const Matrix& matrix) {
  Matrix result = matrix;
  const Strides& s = matrix.layout.strides;
  result.layout.strides = {0, 0, s.feature, s.row};
  result.in = result.in_each = matrix.out;
  result.out = matrix.in;
  return result;
}

MatrixArgument transposed(const Kernels& kernels, bool float64, const MatrixArgument& given,
                          void* buffer) {
  const heed_weights* const prepared = given.prepared;
  const Matrix& m = given.matrix;
  if (prepared == nullptr && m.in_each == m.in) return {nullptr, transposed(m), given.data};
  const Matrix rows = transposed(rows_side_by_side(float64, m.in, m.out));
  if (prepared != nullptr && prepared->context->backend == Backend::kCblas)
    return {nullptr, rows, prepared->data()};
  with_real(float64, [&](auto real) {
    auto* const to = static_cast<decltype(real)*>(buffer);
    prepared == nullptr ? copy(kernels, m, given.data, to) : unpack(*prepared, to);
  });
  return {nullptr, rows, buffer};
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
      {}};
  PreparedForm& form = given.form;
  form = {float64, given.matrix.layout.type, given.matrix.in, given.matrix.out, {}, 0};
  if (multiplies_pairs(context, float64 ? ElementType::kF64 : ElementType::kBf16, form.type))
    form.packing.depth = context.kernels->f32.pairs->depth;
  check_pointers<kWeightsOperands>(given, &given, float64);
  const Size rows = Size(form.packing.lines(form.in)) + (bias != nullptr ? 1 : 0);
  const Size bytes = rows * round_up(Size(form.out), kOutBlock) * real_bytes(float64);
  form.bytes = static_cast<std::size_t>(bytes.checked(
      "the prepared matrix",
      {{"desc.matrices", desc.matrices}, {"desc.in", desc.in}, {"desc.out", desc.out}}));
  return given;
}

heed_weights* make_weights(const heed_context& context, const MatrixToPrepare& given) {
  Array<std::byte> memory(context.allocator, static_cast<std::int64_t>(given.form.bytes));
  heed_weights* const weights =
      make<heed_weights>(context.allocator, given.form, &context, std::move(memory), nullptr);
  with_real(weights->float64, [&](auto real) { fill<decltype(real)>(given, *weights); });
  share(context);
  return weights;
}

void release(heed_weights* weights) noexcept {
  const heed_context* const context = weights->context;
  destroy(context->allocator, weights);
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
  const Backend backend = weights.context->backend;
  if (backend != products.backend)
    refuse("%s is prepared with a context whose product is \"%s\"; this %s's is \"%s\"", field,
           name_of(backend), of, name_of(products.backend));
  if (weights.is_rounded() && !products.rounds)
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
