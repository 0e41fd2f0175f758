// Gradients that are sums over rows: of matrices, biases and head weights.
#pragma once

#include <cstdint>

#include "engine/projection/matmul.hpp"

namespace heed {

/// Rows that one product takes into the gradient of a matrix, which grows from one to the next. A
/// multiple of kTileIn, so that it changes no bit of a sum.
inline constexpr std::int64_t kProductRows = 4096;

/// Plans x^T y, which multiply_over_rows runs, for a product y = x W of this size.
MatmulPlan plan_over_rows(const heed_context& context, const char* field, const MatmulSize& size);

/// The factors of a product x^T y: `count` rows of two tensors.
struct Factors {
  InputRows x, y;
  std::int64_t count;
};

/// to[in][out] = x^T y, or grows by that, for x of plan.size.rows features. Rows are summed in
/// their order.
void multiply_over_rows(const RunThreads& threads, const MatmulPlan& plan, const Factors& rows,
                        void* to, bool adds = false);

/// Plans x^T y for the gradient of a matrix that lies so; it is of some product y = x W.
MatmulPlan plan_gradient(const heed_context& context, const char* field, bool float64,
                         std::int64_t rows, const Matrix& gradient);

/// Writes x^T y, or adds it to the values there. A sum that cannot grow where it goes grows in
/// `buffer`, as many values of the arithmetic's type as the matrix has.
void write_gradient_of_matrix(const RunThreads& threads, const MatmulPlan& plan,
                              const Factors& rows, const Matrix& gradient, void* to,
                              bool accumulate, void* buffer);

/// Where a gradient goes: rows of `out` values, row t at row t % rows_each of matrix t /
/// rows_each.
struct GradientRows {
  void* data;
  Layout layout;
  std::int64_t rows_each;
  std::int64_t out;
  bool accumulate;
};

/// Writes rows [begin, begin + count) of a gradient from `values`, [count][to.out] of the
/// arithmetic's type, which it may change.
void write_rows(const RunThreads& threads, bool float64, void* values, std::int64_t begin,
                std::int64_t count, const GradientRows& to);

/// Writes the sum of `count` rows.
void write_sum_of_rows(const RunThreads& threads, bool float64, const InputRows& rows,
                       std::int64_t count, const GradientRows& to);

}  // namespace heed
