// How a problem is cut up: tiles, tasks, threads and the workspace they need.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/dense/problem.hpp"
#include "engine/runtime/context.hpp"

namespace heed {

/// Offsets, in bytes, into the slab of workspace that one thread works in. A block is what one
/// task computes: up to tile_q rows.
struct Slab {
  std::size_t query;         ///< panels of the block, [panel][features][pitch]
  std::size_t accumulators;  ///< panels of the block, [panel][value_features][pitch]
  std::size_t scores;        ///< one score tile, [key_step][pitch]
  std::size_t values;        ///< one packed value tile
  std::size_t reference;     ///< [tile_q], see RowState
  std::size_t sum;           ///< [tile_q]
  std::size_t bytes;
};

}  // namespace heed

/// The C API's opaque type.
///
/// The query heads that share a key head are stacked: row r of a stack is query row r / group
/// of head r % group, so that they share every key and value tile, and rows that lie together
/// have nearly the same causal limit.
struct heed_attention_plan {
  const heed_context* context;
  heed::Problem problem;
  std::int64_t rows;             ///< per stack: group * query_length
  std::int64_t blocks;           ///< per stack: ceil(rows / tile_q)
  std::int64_t tile_q;           ///< a multiple of the panel
  std::int64_t tile_kv;          ///< a multiple of the kernels' key_step
  std::int64_t tasks;            ///< batch * key_heads * blocks
  std::int64_t tasks_per_claim;  ///< so that a claim is worth its atomic increment
  std::uint32_t workers;
  double flops;
  heed::Slab slab;
};

namespace heed {

/// Reads nothing but its arguments: the same context and problem give the same plan. What
/// decides the bits of the result (panel, key_step) depends on the instruction set alone;
/// everything chosen here only decides who computes which rows, and when.
heed_attention_plan make_plan(const heed_context& context, const Problem& problem);

}  // namespace heed
