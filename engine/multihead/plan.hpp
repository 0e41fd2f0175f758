// How a block is cut up: its products, its attention, and the workspace that they share; and its
// runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/dense/plan.hpp"
#include "engine/multihead/problem.hpp"
#include "engine/projection/matmul.hpp"

namespace heed {

/// Offsets, in bytes, into the workspace; of kept tensors, where a run keeps them, into args.kept.
/// Only one step of a run uses `shared` at a time.
struct MultiheadSpace {
  std::size_t heads;              ///< kept: the results of the heads
  std::size_t query, key, value;  ///< kept: projections, see place_projections() in plan.cpp
  std::size_t lse;                ///< kept; only where that is asked for
  std::size_t kept_bytes;
  std::size_t shared;      ///< slabs of products, or the workspace of the attention
  std::size_t slab_bytes;  ///< of one thread in a product or in combining
  std::size_t bytes;
};

}  // namespace heed

/// The C API's opaque type.
struct heed_multihead_plan {
  const heed_context* context;
  heed::MultiheadProblem problem;
  heed::MatmulPlan query, key, value;
  heed::MatmulPlan out;           ///< if the problem has a W_out
  std::uint32_t matmul_workers;   ///< of the three together
  std::uint32_t combine_workers;  ///< of the one after attention, or of combining
  heed_attention_plan attention;  ///< its placement is the block's
  heed::MultiheadSpace space;
  double projection_flops;

  std::size_t workspace_bytes() const { return space.bytes; }

  /// The precision in effect.
  heed::Precision precision() const {
    using heed::Precision;
    const bool pairs = problem.attention.query.type == heed::ElementType::kBf16;
    if (!pairs && query.size.most_parts == 0) return attention.precision();
    return pairs && context->precision == Precision::kHigh ? Precision::kDefault
                                                           : context->precision;
  }
};

namespace heed {

/// [batch][row][head][feature], or [row][head][feature] of packed rows: the order that matrices
/// multiply, and that a CBLAS library can write.
Strides by_row(const Axes& axes);

/// Reads nothing but its arguments: the same context and problem give the same plan.
heed_multihead_plan make_plan(const heed_context& context, const MultiheadProblem& problem);

/// The most threads that any step uses.
std::uint32_t workers_of(const heed_multihead_plan& plan);

// ---- A run --------------------------------------------------------------------------------------

/// The rows of an input or output that belong to a sequence, numbered through. Packed rows before
/// the first sequence or after the last belong to none: they are neither read nor written.
struct SequenceRows {
  std::int64_t begin;
  std::int64_t count;
  std::int64_t per_batch;

  InputRows input(const void* data, const Layout& layout) const {
    return {row_at(data, layout, 0, 0, begin), layout, per_batch};
  }
  /// Rows of all heads, one after the other.
  OutputRows output(void* data, const Layout& layout, std::int64_t per_head) const {
    return {row_at(data, layout, 0, 0, begin), layout, per_batch, per_head};
  }
};

inline SequenceRows rows_of(std::int64_t batch, const std::int32_t* offsets, std::int64_t packed,
                            std::int64_t length) {
  if (packed == 0) return {0, batch * length, length};
  const std::int64_t count = offsets[batch] - offsets[0];
  return {count > 0 ? offsets[0] : 0, count, packed};
}

/// The rows and matrices that a run of a block reads, forward or back.
struct BlockInputs {
  BlockInputs(const MultiheadProblem& p, const heed_multihead_args& args,
              const heed_attention_args& attention)
      : query_rows(rows_of(p.attention.batch, attention.cu_seqlens_q, p.attention.packed_queries,
                           p.attention.query_length)),
        key_rows(rows_of(p.attention.batch, attention.cu_seqlens_k, p.attention.packed_keys,
                         p.attention.key_length)),
        query(query_rows.input(args.input_query, p.input_query)),
        key(args.input_key == nullptr ? key_rows.input(args.input_query, p.input_query)
                                      : key_rows.input(args.input_key, p.input_key)),
        w_query(HEED_GIVEN_MATRIX(args, query).laid_out(p.w_query, p.bias)),
        w_key(HEED_GIVEN_MATRIX(args, key).laid_out(p.w_key, p.bias)),
        w_value(HEED_GIVEN_MATRIX(args, value).laid_out(p.w_value, p.bias)),
        w_out(HEED_GIVEN_MATRIX(args, out).laid_out(p.w_out, p.bias)) {}

  const SequenceRows query_rows, key_rows;
  const InputRows query, key;
  const MatrixArgument w_query, w_key, w_value;
  const MatrixArgument w_out;  ///< if the problem has one
};

/// The arguments of the attention inside, whose tensors lie in the workspace or in args.kept.
heed_attention_args placed_arguments(const heed_multihead_plan& plan,
                                     const heed_multihead_args& args, std::byte* tensors);

/// Throws an Error unless all arguments make sense. Returns the arguments of the attention inside.
heed_attention_args checked_arguments(const heed_multihead_plan& plan,
                                      const heed_multihead_args& args, std::byte* workspace);

/// All of a run but combining the heads, with arguments that are checked.
void project_and_attend(const heed_multihead_plan& plan, const heed_multihead_args& args,
                        const heed_attention_args& attention, std::byte* workspace,
                        std::byte* tensors);

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_multihead_plan& plan, const heed_multihead_args& args, void* workspace,
              std::size_t bytes);

/// HEED_VERBOSE=1: one line on stderr for a run that took `seconds`.
void print_run(const heed_multihead_plan& plan, const heed_multihead_args& args,
               double seconds) noexcept;

}  // namespace heed
