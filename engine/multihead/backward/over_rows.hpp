// Gradients that are sums over the rows of a block: of matrices, biases and head weights.
#pragma once

#include <cstdint>

#include "engine/multihead/backward/plan.hpp"
#include "engine/projection/rows.hpp"

namespace heed {

/// The threads of a run, and what they work in.
struct RunThreads {
  const heed_context& context;
  std::uint32_t workers;
  std::byte* slabs;
  std::size_t slab_bytes;
};

/// `count` rows of two tensors, row by row.
struct RowPairs {
  InputRows x, y;
  std::int64_t count;
};

/// to[in][out] = x^T y, for x of plan.size.rows features. Rows are summed in their order.
void multiply_over_rows(const RunThreads& threads, const MatmulPlan& plan, const RowPairs& rows,
                        void* to);

/// Where a gradient goes: rows of `out` numbers, row t at row t % rows_each of matrix t /
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
