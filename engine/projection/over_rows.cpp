#include "engine/projection/over_rows.hpp"

#include <algorithm>
#include <utility>

#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/loops.hpp"

namespace heed {
namespace {

/// Features that a task sums over all rows, which it reads once.
constexpr std::int64_t kSumFeatures = 256;

/// Rows of a sum that are added by themselves before they join the rest, as runs are.
constexpr std::int64_t kSumRows = 64;

/// Rows of a gradient that a claim has.
constexpr std::int64_t kWriteRows = 16;

/// The rows of a matrix are features of x, and so on: the same values, transposed.
InputRows transposed(const InputRows& x, std::int64_t first, std::int64_t features) {
  Layout layout = x.layout;
  layout.strides = {0, 0, x.layout.strides.feature, x.layout.strides.row};
  return {x.at(first), layout, features};
}

template <class Real>
void sum_rows(const KernelTable<Real>& kernels, const InputRows& rows, std::int64_t count,
              std::int64_t first, std::int64_t features, Real* total) {
  Real run[kSumFeatures];
  Real wide[kSumFeatures];
  const Layout& layout = rows.layout;
  const bool in_place = layout.type == kTypeOf<Real> && layout.strides.feature == 1;
  std::fill_n(total, features, Real{0});
  for (std::int64_t begin = 0; begin < count; begin += kSumRows) {
    std::fill_n(run, features, Real{0});
    for (std::int64_t t = begin; t < std::min(begin + kSumRows, count); ++t) {
      const std::byte* const from = rows.at(t) + first * layout.strides.feature * layout.bytes;
      if (!in_place)
        kernels.numbers.read(layout.type, from, layout.strides.feature,
                             static_cast<std::size_t>(features), wide);
      const Real* const row = in_place ? reinterpret_cast<const Real*>(from) : wide;
      kernels.numbers.add_onto(row, static_cast<std::size_t>(features), run);
    }
    kernels.numbers.add_onto(run, static_cast<std::size_t>(features), total);
  }
}

/// Whether the rows of a column lie nearer to each other than the columns of a row.
bool lies_by_columns(const Matrix& m) {
  return m.in_each == m.in && magnitude(m.layout.strides.row) < magnitude(m.layout.strides.feature);
}

/// The gradient of a matrix is x^T y, or y^T x with the roles of both exchanged: the same sums,
/// transposed. Products write their results fastest with lanes side by side, a BLAS
/// library with features side by side; so the order in which the matrix lies decides.
bool exchanges(const heed_context& context, const Matrix& gradient) {
  return lies_by_columns(gradient) == (context.backend == Backend::kCblas);
}

/// to = x^T y, or grows by that; `to` has a row for every feature of x, and no gaps where no rows
/// are given.
void multiply_to(const RunThreads& threads, const MatmulPlan& plan, const Factors& rows,
                 const OutputRows& to, bool adds) {
  const std::int64_t in = plan.size.rows;
  const std::int64_t out = plan.size.out;
  if (rows.count == 0 && !adds)
    std::fill_n(static_cast<std::byte*>(to.data), in * out * to.layout.bytes, std::byte{0});
  for (std::int64_t t = 0, next = 0; t < rows.count; t = next) {
    const std::int64_t some =
        std::min({kProductRows, rows.x.in_step(t, rows.count), rows.y.in_step(t, rows.count)});
    next = t + some;
    MatmulPlan part = plan;
    part.size.in = some;
    Layout layout = rows.y.layout;
    layout.strides.batch = layout.strides.head = 0;
    const Matmul matmul = {&part,
                           in,
                           transposed(rows.x, t, in),
                           {nullptr, {layout, some, some, out}, rows.y.at(t)},
                           to,
                           adds || t > 0};
    run_matmuls(threads, &matmul, 1);
  }
}

}  // namespace

MatmulPlan plan_over_rows(const heed_context& context, const char* field, const MatmulSize& size) {
  const std::int64_t rows = std::clamp<std::int64_t>(size.rows, 1, kProductRows);
  return plan_matmul(context, field, {size.float64, size.in, rows, size.out}, claims_for(context));
}

void multiply_over_rows(const RunThreads& threads, const MatmulPlan& plan, const Factors& rows,
                        void* to, bool adds) {
  const std::int64_t in = plan.size.rows;
  const std::int64_t out = plan.size.out;
  multiply_to(threads, plan, rows,
              {to, rows_side_by_side(plan.size.float64, in, out).layout, in, out}, adds);
}

MatmulPlan plan_gradient(const heed_context& context, const char* field, bool float64,
                         std::int64_t rows, const Matrix& gradient) {
  MatmulSize size = {float64, rows, gradient.in, gradient.out};
  if (exchanges(context, gradient)) std::swap(size.in, size.out);
  return plan_over_rows(context, field, size);
}

void write_gradient_of_matrix(const RunThreads& threads, const MatmulPlan& plan,
                              const Factors& rows, const Matrix& gradient, void* to,
                              bool accumulate, void* buffer) {
  const bool float64 = plan.size.float64;
  const bool exchanged = exchanges(threads.context, gradient);
  const std::int64_t in = plan.size.rows;
  const std::int64_t out = plan.size.out;
  const Factors factors = exchanged ? Factors{rows.y, rows.x, rows.count} : rows;
  const auto turned = [&](Layout layout, bool turns) {
    if (turns) std::swap(layout.strides.row, layout.strides.feature);
    return layout;
  };
  if (gradient.layout.type == real_type(float64) && gradient.in_each == gradient.in &&
      !accumulate && rows.count > 0)
    return multiply_to(threads, plan, factors, {to, turned(gradient.layout, exchanged), in, out},
                       false);
  const bool by_columns = lies_by_columns(gradient);
  const std::int64_t lines = by_columns ? gradient.out : gradient.in;
  const std::int64_t line = by_columns ? gradient.in : gradient.out;
  const Layout summed = rows_side_by_side(float64, lines, line).layout;
  multiply_to(threads, plan, factors, {buffer, turned(summed, exchanged != by_columns), in, out},
              false);
  write_rows(threads, float64, buffer, 0, lines,
             {to, turned(gradient.layout, by_columns), by_columns ? lines : gradient.in_each, line,
              accumulate});
}

void write_rows(const RunThreads& threads, bool float64, void* values, std::int64_t begin,
                std::int64_t count, const GradientRows& to) {
  const auto write = [&](auto real, std::int64_t t, std::byte* slab) {
    using Real = decltype(real);
    const std::int64_t row = begin + t;
    write_gradient(kernels_of<Real>(*threads.context.kernels), to.layout, to.accumulate,
                   static_cast<Real*>(values) + t * to.out, to.out, reinterpret_cast<Real*>(slab),
                   row_at(to.data, to.layout, row / to.rows_each, 0, row % to.rows_each));
  };
  parallel_each(threads.context.threads, {count, kWriteRows, threads.workers},
                [&](std::int64_t t, std::uint32_t worker) {
                  with_real(float64, [&](auto real) { write(real, t, threads.slab(worker)); });
                });
}

void write_sum_of_rows(const RunThreads& threads, bool float64, const InputRows& rows,
                       std::int64_t count, const GradientRows& to) {
  const auto write = [&](auto real, std::int64_t first) {
    using Real = decltype(real);
    const KernelTable<Real>& kernels = kernels_of<Real>(*threads.context.kernels);
    Real total[kSumFeatures];
    Real buffer[kSumFeatures];
    const std::int64_t features = std::min(kSumFeatures, to.out - first);
    sum_rows(kernels, rows, count, first, features, total);
    write_gradient(kernels, to.layout, to.accumulate, total, features, buffer,
                   static_cast<std::byte*>(to.data) + first * to.layout.bytes);
  };
  parallel_each(threads.context.threads, {ceil_div(to.out, kSumFeatures), 1, threads.workers},
                [&](std::int64_t task, std::uint32_t) {
                  with_real(float64, [&](auto real) { write(real, task * kSumFeatures); });
                });
}

}  // namespace heed
