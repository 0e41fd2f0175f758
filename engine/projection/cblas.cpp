#include <cblas.h>

#include <algorithm>
#include <climits>

#include "engine/projection/matmul.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// Rows of one call: more would be no faster, and so the rows that must be widened or copied for it
/// stay few.
constexpr std::int64_t kCallRows = 1024;

/// These libraries take sizes and strides as int.
bool fits(std::int64_t size) { return size > 0 && size <= INT_MAX; }

void gemm(CBLAS_TRANSPOSE a_order, CBLAS_TRANSPOSE b_order, int m, int n, int k, const float* a,
          int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, a_order, b_order, m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
}
void gemm(CBLAS_TRANSPOSE a_order, CBLAS_TRANSPOSE b_order, int m, int n, int k, const double* a,
          int lda, const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, a_order, b_order, m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
}

/// A matrix as the library reads it: rows or columns side by side, `stride` apart.
template <class Real>
struct BlasMatrix {
  Real* data;
  std::int64_t stride;
  CBLAS_TRANSPOSE order;
};

template <class Real>
class CblasMatmul {
 public:
  CblasMatmul(const KernelTable<Real>& kernels, const Matmul& matmul, std::byte* slab)
      : kernels_(kernels), matmul_(matmul), plan_(*matmul.plan), slab_(slab) {}

  /// Rows [begin, end).
  void multiply(std::int64_t begin, std::int64_t end) const {
    const std::int64_t in = plan_.size.in;
    const BlasMatrix<const Real> in_place = weights();
    const bool whole = in_place.data != nullptr;
    const std::int64_t step = whole ? in : kTileIn;
    const BlasMatrix<const Real> x = input(begin, end);
    const BlasMatrix<Real> y = output();
    Real* const to =
        y.data == nullptr ? buffer(plan_.slab.accumulators) : y.data + begin * y.stride;
    const std::int64_t stride = y.data == nullptr ? plan_.size.out : y.stride;
    if (matmul_.adds && y.data == nullptr) read_output(begin, end);
    const bool started = matmul_.adds || start_from_bias(end - begin, to, stride);
    for (std::int64_t k = 0; k < in; k += step) {
      const std::int64_t ins = std::min(step, in - k);
      const BlasMatrix<const Real> w = whole ? in_place : weights(k, ins);
      gemm(x.order, w.order, static_cast<int>(end - begin), static_cast<int>(plan_.size.out),
           static_cast<int>(ins), x.data + (x.order == CblasNoTrans ? k : k * x.stride),
           static_cast<int>(x.stride), w.data, static_cast<int>(w.stride),
           k == 0 && !started ? Real{0} : Real{1}, to, static_cast<int>(stride));
    }
    if (y.data == nullptr) store(begin, end);
  }

 private:
  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  /// Whether the rows of all batch items follow each other.
  static bool one_matrix(const Layout& layout, std::int64_t per_batch, std::int64_t rows) {
    return rows <= per_batch || layout.strides.batch == per_batch * layout.strides.row;
  }

  /// Rows of x where they lie, or copied.
  BlasMatrix<const Real> input(std::int64_t begin, std::int64_t end) const {
    const InputRows& x = matmul_.x;
    const Strides& s = x.layout.strides;
    const std::int64_t in = plan_.size.in;
    if (x.layout.type == kTypeOf<Real> && one_matrix(x.layout, x.per_batch, matmul_.rows)) {
      const auto* const from = static_cast<const Real*>(x.data) + begin * s.row;
      if (s.feature == 1 && s.row >= in && fits(s.row)) return {from, s.row, CblasNoTrans};
      if (s.row == 1 && s.feature >= end - begin && fits(s.feature))
        return {from, s.feature, CblasTrans};
    }
    Real* const copy = buffer(plan_.slab.x);
    for (std::int64_t t = begin; t < end; ++t)
      kernels_.numbers.read(x.layout.type, x.at(t), s.feature, static_cast<std::size_t>(in),
                            copy + (t - begin) * in);
    return {copy, in, CblasNoTrans};
  }

  /// Rows of y where they lie; no data if they cannot be written there.
  BlasMatrix<Real> output() const {
    const OutputRows& y = matmul_.y;
    const Strides& s = y.layout.strides;
    const std::int64_t out = plan_.size.out;
    const bool one_head = y.per_head >= out || s.head == y.per_head;
    const bool in_place = y.layout.type == kTypeOf<Real> && s.feature == 1 && one_head &&
                          s.row >= out && fits(s.row) &&
                          one_matrix(y.layout, y.per_batch, matmul_.rows);
    return {in_place ? static_cast<Real*>(y.data) : nullptr, s.row, CblasNoTrans};
  }

  /// The matrix where it lies; no data if it must be widened.
  BlasMatrix<const Real> weights() const {
    const MatrixArgument& w = matmul_.w;
    if (w.prepared != nullptr)
      return {static_cast<const Real*>(w.prepared->data()), plan_.size.out, CblasNoTrans};
    const auto* const data = static_cast<const Real*>(w.data);
    const Matrix& m = w.matrix;
    const Strides& s = m.layout.strides;
    if (m.layout.type == kTypeOf<Real> && m.in_each == m.in) {
      if (s.feature == 1 && s.row >= m.out && fits(s.row)) return {data, s.row, CblasNoTrans};
      if (s.row == 1 && s.feature >= m.in && fits(s.feature)) return {data, s.feature, CblasTrans};
    }
    return {};
  }

  BlasMatrix<const Real> weights(std::int64_t k, std::int64_t ins) const {
    const MatrixView<Real> tile = widen_tile(kernels_, matmul_.w.matrix, matmul_.w.data,
                                             {k, ins, 0, plan_.size.out}, buffer(plan_.slab.wide));
    const bool by_rows = tile.column_stride == 1;
    return {tile.data, by_rows ? plan_.size.out : ins, by_rows ? CblasNoTrans : CblasTrans};
  }

  /// Fills rows of the result with the bias; false: there is none.
  bool start_from_bias(std::int64_t rows, Real* to, std::int64_t stride) const {
    const MatrixArgument& w = matmul_.w;
    const auto out = static_cast<std::size_t>(plan_.size.out);
    const void* const bias = w.prepared != nullptr ? w.prepared->bias : w.bias;
    const ElementType type = w.prepared != nullptr ? kTypeOf<Real> : w.bias_layout.type;
    for (std::int64_t r = 0; bias != nullptr && r < rows; ++r)
      kernels_.numbers.read(type, bias, 1, out, to + r * stride);
    return bias != nullptr;
  }

  /// Rows of a result that grows, where they are not multiplied in place.
  void read_output(std::int64_t begin, std::int64_t end) const {
    const OutputRows& y = matmul_.y;
    for (std::int64_t t = begin; t < end; ++t)
      kernels_.numbers.read(y.layout.type, y.at(t, 0), y.layout.strides.feature,
                            static_cast<std::size_t>(plan_.size.out),
                            buffer(plan_.slab.accumulators) + (t - begin) * plan_.size.out);
  }

  void store(std::int64_t begin, std::int64_t end) const {
    const OutputRows& y = matmul_.y;
    for (std::int64_t t = begin; t < end; ++t) {
      const Real* const row = buffer(plan_.slab.accumulators) + (t - begin) * plan_.size.out;
      for (std::int64_t x = 0; x < plan_.size.out; x += y.per_head)
        kernels_.numbers.write(y.layout.type, row + x,
                               static_cast<std::size_t>(std::min(y.per_head, plan_.size.out - x)),
                               y.at(t, x), y.layout.strides.feature);
    }
  }

  const KernelTable<Real>& kernels_;
  const Matmul& matmul_;
  const MatmulPlan& plan_;
  std::byte* const slab_;
};

template <class Real>
void run(const Kernels& kernels, const Matmul& matmul, std::byte* slab) {
  const CblasMatmul<Real> work(kernels_of<Real>(kernels), matmul, slab);
  for (std::int64_t r = 0; r < matmul.rows; r += kCallRows)
    work.multiply(r, std::min(r + kCallRows, matmul.rows));
}

}  // namespace

void plan_cblas(MatmulPlan& plan) {
  const MatmulSize& size = plan.size;
  if (!fits(size.in) || !fits(size.out))
    fail(HEED_STATUS_UNSUPPORTED,
         "a product from %lld features to %lld; with options.product \"cblas\" both must be at "
         "most %d",
         lld(size.in), lld(size.out), INT_MAX);
  const std::int64_t rows = std::min(size.rows, kCallRows);
  const std::int64_t number = real_bytes(size.float64);
  Offsets offsets;
  plan.slab.x = offsets.take(rows, size.in, number);
  plan.slab.accumulators = offsets.take(rows, size.out, number);
  plan.slab.wide = offsets.take(std::min(size.in, kTileIn), size.out, number);
  plan.slab.bytes = checked_slab(offsets, size);
}

void run_cblas(const Kernels& kernels, const Matmul& matmul, std::byte* slab) {
  with_real(matmul.plan->size.float64,
            [&](auto real) { run<decltype(real)>(kernels, matmul, slab); });
}

}  // namespace heed
