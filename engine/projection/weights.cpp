#include "engine/projection/weights.hpp"

#include <algorithm>

#include "engine/dense/tile.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

/// A checked descriptor.
struct Source {
  Matrix matrix;
  Layout bias;
  bool float64;
};

constexpr auto kBlock = static_cast<std::int64_t>(kValueBlock);

Source check(const heed_weights_desc& desc) {
  if (desc.arithmetic != HEED_DTYPE_DEFAULT && desc.arithmetic != HEED_DTYPE_F32 &&
      desc.arithmetic != HEED_DTYPE_F64)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.arithmetic is %u; it must be 0, HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)",
         desc.arithmetic);
  if (desc.reserved != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.reserved is %u; it must be 0", desc.reserved);
  check_size("matrices", desc.matrices, 0);
  check_size("in", desc.in, 1);
  check_size("out", desc.out, 1);
  const bool float64 = desc.arithmetic == HEED_DTYPE_F64;
  return {check_matrix("desc.layout", desc.layout, desc.matrices, desc.in, desc.out, float64),
          check_vector("desc.bias_dtype", desc.bias_dtype, float64), float64};
}

/// As CBLAS libraries read it.
template <class Real>
void copy(const Kernels& all, const Source& source, const void* matrix, Real* to) {
  const Matrix& m = source.matrix;
  for (std::int64_t k = 0; k < m.in; ++k)
    kernels_of<Real>(all).read(
        m.layout.type, row_at(matrix, m.layout, k / m.in_each, 0, k % m.in_each),
        m.layout.strides.feature, static_cast<std::size_t>(m.out), to + k * m.out);
}

/// Packs one block of features out after the other, in the order of memory.
template <class Real>
void pack(const Kernels& all, const Source& source, const void* matrix, Real* to) {
  const KernelTable<Real>& kernels = kernels_of<Real>(all);
  const Matrix& m = source.matrix;
  Real wide[kTileIn * kBlock];
  for (std::int64_t k = 0; k < m.in; k += kTileIn) {
    const std::int64_t ins = std::min(kTileIn, m.in - k);
    for (std::int64_t x = 0; x < m.out; x += kBlock) {
      pack_tile(kernels, m, matrix, {k, ins, x, std::min(kBlock, m.out - x)}, wide, to);
      to += ins * kBlock;
    }
  }
}

template <class Real>
void fill(const Source& source, const void* matrix, const void* bias, heed_weights& weights) {
  const Kernels& kernels = *weights.context->kernels;
  auto* const data = reinterpret_cast<Real*>(weights.memory);
  if (weights.product == ProductKind::kCblas) {
    copy(kernels, source, matrix, data);
  } else {
    pack(kernels, source, matrix, data);
  }
  weights.data = data;
  if (bias == nullptr) return;
  Real* const own = data + source.matrix.in * round_up(source.matrix.out, kBlock);
  kernels_of<Real>(kernels).read(source.bias.type, bias, 1,
                                 static_cast<std::size_t>(source.matrix.out), own);
  weights.bias = own;
}

}  // namespace

heed_weights* make_weights(const heed_context& context, const heed_weights_desc& desc,
                           const void* matrix, const void* bias) {
  const Source source = check(desc);
  check_pointer("matrix", matrix, source.matrix.layout, true);
  check_pointer("bias", bias, source.bias, false);
  const Size rows = Size(source.matrix.in) + (bias != nullptr ? 1 : 0);
  const Size all = rows * round_up(Size(source.matrix.out), kBlock) * (source.float64 ? 8 : 4);
  const auto bytes = static_cast<std::size_t>(all.checked(
      "the prepared matrix",
      {{"desc.matrices", desc.matrices}, {"desc.in", desc.in}, {"desc.out", desc.out}}));

  heed_weights* const weights = make<heed_weights>(context.allocator);
  try {
    weights->memory =
        static_cast<std::byte*>(allocate(context.allocator, bytes, HEED_WORKSPACE_ALIGNMENT));
  } catch (...) {
    destroy(context.allocator, weights);
    throw;
  }
  weights->context = &context;
  weights->product = context.product;
  weights->float64 = source.float64;
  weights->in = source.matrix.in;
  weights->out = source.matrix.out;
  weights->bytes = bytes;
  if (source.float64) {
    fill<double>(source, matrix, bias, *weights);
  } else {
    fill<float>(source, matrix, bias, *weights);
  }
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
