#include "engine/multihead/backward/over_rows.hpp"

#include <algorithm>

#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/gradient.hpp"

namespace heed {
namespace {

/// Features that a task sums over all rows, which it reads once.
constexpr std::int64_t kSumFeatures = 256;

/// Rows of a sum that are added by themselves before they join the rest, as runs are.
constexpr std::int64_t kSumRows = 64;

/// Rows of a gradient that a task writes.
constexpr std::int64_t kWriteRows = 16;

/// The rows of a matrix are features of x, and so on: the same numbers, transposed.
InputRows transposed(const InputRows& x, std::int64_t first, std::int64_t features) {
  Layout layout = x.layout;
  layout.strides = {0, 0, x.layout.strides.feature, x.layout.strides.row};
  return {x.at(first), layout, features};
}

template <class Real>
void sum_rows(const KernelTable<Real>& kernels, const InputRows& rows, std::int64_t count,
              std::int64_t first, std::int64_t features, Real* total) {
  Real run[kSumFeatures];
  Real row[kSumFeatures];
  const Layout& layout = rows.layout;
  std::fill_n(total, features, Real{0});
  for (std::int64_t begin = 0; begin < count; begin += kSumRows) {
    std::fill_n(run, features, Real{0});
    for (std::int64_t t = begin; t < std::min(begin + kSumRows, count); ++t) {
      kernels.numbers.read(layout.type, rows.at(t) + first * layout.strides.feature * layout.bytes,
                           layout.strides.feature, static_cast<std::size_t>(features), row);
      for (std::int64_t x = 0; x < features; ++x) run[x] += row[x];
    }
    for (std::int64_t x = 0; x < features; ++x) total[x] += run[x];
  }
}

}  // namespace

void multiply_over_rows(const RunThreads& threads, const MatmulPlan& plan, const RowPairs& rows,
                        void* to) {
  const std::int64_t in = plan.size.rows;
  const std::int64_t out = plan.size.out;
  const Matrix result = rows_side_by_side(plan.size.float64, in, out);
  if (rows.count == 0)
    std::fill_n(static_cast<std::byte*>(to), in * out * result.layout.bytes, std::byte{0});
  for (std::int64_t t = 0, next = 0; t < rows.count; t = next) {
    const std::int64_t some =
        std::min({kProductRows, rows.x.in_step(t, rows.count), rows.y.in_step(t, rows.count)});
    next = t + some;
    MatmulPlan part = plan;
    part.size.in = some;
    Layout layout = rows.y.layout;
    layout.strides.batch = layout.strides.head = 0;
    const Matrix y = {layout, some, some, out};
    Matmul matmul = {&part,
                     in,
                     transposed(rows.x, t, in),
                     {nullptr, &y, rows.y.at(t), nullptr, {}},
                     {to, result.layout, in, out}};
    matmul.adds = t > 0;
    run_matmuls(threads.context, &matmul, 1, threads.workers, threads.slabs, threads.slab_bytes);
  }
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
  parallel_for(threads.context.threads, {ceil_div(count, kWriteRows), 1, threads.workers},
               [&](std::int64_t first, std::int64_t end, std::uint32_t worker) {
                 for (std::int64_t t = first * kWriteRows; t < std::min(end * kWriteRows, count);
                      ++t)
                   with_real(float64, [&](auto real) {
                     write(real, t, threads.slabs + worker * threads.slab_bytes);
                   });
               });
}

void write_sum_of_rows(const RunThreads& threads, bool float64, const InputRows& rows,
                       std::int64_t count, const GradientRows& to) {
  const auto write = [&](auto real, std::int64_t first) {
    using Real = decltype(real);
    const KernelTable<Real>& kernels = kernels_of<Real>(*threads.context.kernels);
    Real total[kSumFeatures];
    Real room[kSumFeatures];
    const std::int64_t features = std::min(kSumFeatures, to.out - first);
    sum_rows(kernels, rows, count, first, features, total);
    write_gradient(kernels, to.layout, to.accumulate, total, features, room,
                   static_cast<std::byte*>(to.data) + first * to.layout.bytes);
  };
  parallel_for(threads.context.threads, {ceil_div(to.out, kSumFeatures), 1, threads.workers},
               [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
                 for (std::int64_t task = begin; task < end; ++task)
                   with_real(float64, [&](auto real) { write(real, task * kSumFeatures); });
               });
}

}  // namespace heed
