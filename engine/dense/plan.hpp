// How a problem is cut up: tiles, tasks, threads and the workspace they need.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/context/context.hpp"
#include "engine/dense/problem.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/error.hpp"
#include "engine/tensor/panels.hpp"

namespace heed {

/// Offsets, in bytes, into the slab of workspace that one thread works in. A query block is what
/// one task computes: up to tile_q rows. Values are of the arithmetic's type.
struct Slab {
  std::size_t query;         ///< panels of the query block, [panel][query_lines][pitch]
  std::size_t accumulators;  ///< panels of the query block, [panel][accumulator_rows][pitch]
  std::size_t scores;        ///< one score tile, [key_block][pitch]; or KeptProbs, [keys][pitch]
  std::size_t block_max;     ///< row_max after each key block, [blocks][pitch]; KeptProbs only
  std::size_t attended;      ///< another, see Scores::attended
  std::size_t columns;       ///< sums of probabilities, [key_block][panel]; empty unless wanted
  std::size_t keys;          ///< one tile of keys, widened; empty if they need no widening
  std::size_t values;        ///< one tile of values, likewise
  std::size_t split;       ///< one tile of keys in components; empty unless they are multiplied so
  std::size_t packed;      ///< one packed value tile
  std::size_t rows;        ///< a panel's rows of some tensor, widened
  std::size_t row_max;     ///< [tile_q], see RowState
  std::size_t row_sum;     ///< [tile_q]
  std::size_t argmax;      ///< [tile_q] int64: the key of the largest score; hard attention only
  std::size_t summed;      ///< [tile_q] bytes, one per panel: its Summed
  std::size_t key_scales;  ///< of a block of keys; only where some decode
  std::size_t value_scales;  ///< of one of values
  std::size_t partial;       ///< of the only chunk, if there is one only: a partial result per pack
  std::size_t bytes;
};

/// Keys that one task of decoding attends; they decide bits.
inline constexpr std::int64_t kDecodeChunk = 1024;

/// At least as many of prefill, where few rows attend so many keys that these are worth more tasks.
/// There are at most kMostChunks, since each leaves a result of every row.
inline constexpr std::int64_t kPrefillChunk = 2048;
inline constexpr std::int64_t kMostChunks = 64;
inline constexpr std::int64_t kMostChunkedRows = 128;
inline bool is_worth_chunks(std::int64_t rows, std::int64_t keys) {
  return rows <= kMostChunkedRows && keys >= 2 * kPrefillChunk;
}
inline std::int64_t prefill_chunk(std::int64_t keys) {
  return kPrefillChunk * ceil_div(keys, kMostChunks * kPrefillChunk);
}
inline std::int64_t prefill_chunks(std::int64_t keys) {
  return ceil_div(keys, prefill_chunk(keys));
}

/// Packs that a task of decoding takes through its chunk side by side, at most; they may be of
/// so many sequences that share keys.
inline constexpr std::int64_t kTogether = 16;
inline constexpr std::int64_t kSharing = 8;

/// How sequences of few rows are decoded: chunk by chunk of their keys, and then the partial
/// results of the chunks are merged.
struct Decode {
  std::int64_t few;   ///< rows of a pack that are decoded whatever the sequence's length
  std::int64_t rows;  ///< rows that are decoded if it is long; 0: nothing is decoded
  std::int64_t long_keys;
  /// So many keys, and their values, are more than most caches have room for.
  std::int64_t many_keys;
  /// Keys between two decisions to rescale; values are summed apart over so many. They depend on
  /// types and sizes alone, and which of the two on the sequence, because they decide bits.
  /// turn_keys: where it has many keys.
  std::int64_t block_keys, turn_keys;
  bool pairs;   ///< of words are multiplied where a pack has several rows: bfloat16, or integers
  bool tables;  ///< the same kernels read E4M3, however many rows a pack has
  std::int64_t packs;     ///< of a sequence, in one task
  std::int64_t groups;    ///< of so many packs
  std::int64_t together;  ///< packs that the slab has room for, of other sequences too
  std::int64_t chunks;    ///< of the longest sequence, at least 1
  std::int64_t tasks;     ///< batch * groups * chunks
  std::int64_t per_claim;

  /// The keys of a block, of a sequence with so many.
  std::int64_t block_of(std::int64_t keys) const {
    return keys >= many_keys ? turn_keys : block_keys;
  }
  /// Values of a chunk's partial result: row_max, row_sum and sums of every row.
  std::int64_t partial_values;
  std::size_t partials;  ///< offset into the workspace: partial results [pack][chunk]
};

/// Widths of the kernels of one type.
struct Widths {
  std::int64_t lanes;
  std::int64_t panel;
  std::int64_t decoded;  ///< rows of a pack, at most
  std::int64_t step;
  std::int64_t bytes;  ///< of a number
  ElementType type;
  std::int64_t key_bytes;  ///< of a number of keys and values, as they are multiplied
  bool by_tiles;           ///< of a matrix unit

  static Widths of(const heed_context& context, bool float64) {
    return with_real(float64, [&](auto real) -> Widths {
      const KernelTable<decltype(real)>& of = kernels_of<decltype(real)>(*context.kernels);
      const std::int64_t lanes = of.panels.lanes;
      return {lanes,           lanes * of.panels.max_vectors,
              of.rows.queries, of.panels.key_block,
              sizeof(real),    real_type(float64),
              sizeof(real),    false};
    });
  }
};

/// How the softmax of a row ended, kept where weights are recomputed from it.
template <class Real>
union RowResult {
  struct {
    Real row_max;
    Real row_sum;
  } soft;
  std::int64_t argmax;  ///< or kNoKey, or kNotANumber
};

/// Which rows share panels.
enum class Placement {
  kPacked,  ///< of the query heads that share a key head
  kByHead,  ///< of every head by itself; none are decoded
};

/// The pass that is planned. On the way back, sequences of few rows are cut into panels as all
/// others are.
enum class Pass { kForward, kBackward };

/// How a plan computes what validated arguments ask for, in the order of their names.
enum class Strategy : std::uint8_t {
  kPrefill,  ///< many query rows share the keys: online softmax, in attention.cpp
  kDecode,   ///< few share the keys, which are split between threads: in decode.cpp
  kMixed,    ///< packed sequences of either kind: each is computed as it would be alone
};

}  // namespace heed

/// The C API's opaque type.
///
/// The query heads that share a key head are a pack: its row r is query row r / group of head r %
/// group. So they share every key and value tile, and rows that lie together have nearly the same
/// limits. (Other placements make every head a pack of its own.)
struct heed_attention_plan {
  const heed_context* context;
  heed::Problem problem;
  heed::Placement placement;
  heed::Strategy strategy;
  heed::Parts parts;              ///< that prefill multiplies; on the way back one or none
  std::int64_t kept_keys;         ///< see keeps_probs()
  std::int64_t largest_block;     ///< keys between two decisions to rescale, at most
  bool past_caches;               ///< weights are more than most caches have room for
  std::int64_t pack_heads;        ///< query heads in a pack
  std::int64_t panel_rows;        ///< query rows in a full panel
  std::int64_t query_blocks;      ///< per pack: ceil(pack_heads * query_length / tile_q)
  std::int64_t tile_q;            ///< a multiple of the panel
  std::int64_t tile_kv;           ///< a multiple of the kernels' key_block
  std::uint32_t tuning_line;      ///< of the tuning file, which gave tiles; 0: none did
  std::int64_t query_lines;       ///< of a panel
  std::int64_t accumulator_rows;  ///< of a panel, see panel.hpp
  std::int64_t key_chunks;        ///< of the longest sequence that chunks() says it of; else 1
  std::int64_t tasks;             ///< packs * query_blocks * key_chunks
  std::int64_t tasks_per_claim;   ///< so that a claim is worth its atomic increment
  std::int64_t chunks;            ///< of tile_kv keys; weights and column sums come chunk by chunk
  std::int64_t recomputed;        ///< chunks of all heads, the tasks of recompute(); 0: nobody asks
  std::uint32_t workers;
  double flops;
  heed::Decode decode;
  heed::Slab slab;
  std::size_t results_bytes;    ///< RowResult [batch][query_heads][query_length], before the slabs
  std::size_t key_partials;     ///< offset into the workspace: partial results [pack][key_chunks]
  std::int64_t partial_values;  ///< of one: row_max, row_sum and sums of every row of its panels
  std::size_t bytes;            ///< of workspace that a run needs

  std::size_t workspace_bytes() const { return bytes; }
  std::int64_t all_tasks() const { return tasks + decode.tasks; }

  /// The components for a sequence. Splitting keys or weights pays off where there is more than one
  /// vector of rows. It depends on the sequence alone, as decodes() does.
  heed::Parts parts_for(const heed::Sequence& s, std::uint32_t lanes) const {
    const bool splits = parts.count > 1 || parts.exact;
    return splits && pack_heads * s.query_length <= lanes ? heed::Parts{} : parts;
  }

  const char* strategy_name() const {
    static constexpr const char* kNames[] = {"prefill", "decode", "mixed"};
    return kNames[static_cast<std::size_t>(strategy)];
  }

  /// The precision in effect: one component rounds weights, and inputs that are not bfloat16; two
  /// are less than a float32, and all of a float16.
  heed::Precision precision() const {
    const bool float32 = problem.key.type == heed::ElementType::kF32;
    if (parts.count == 1 && float32) return heed::Precision::kMedium;
    if (parts.count == 2 && float32) return heed::Precision::kHigh;
    const bool exact = parts.count == 0 || parts.exact;
    return exact && !decode.pairs ? heed::Precision::kExact : heed::Precision::kDefault;
  }

  /// Whether a sequence is decoded. It depends on the sequence alone, so that its bits do not
  /// depend on the rest of the batch.
  bool decodes(const heed::Sequence& s) const {
    return pack_heads * s.query_length <=
           (s.key_length < decode.long_keys ? decode.few : decode.rows);
  }

  /// Whether prefill attends a sequence's keys chunk by chunk, and merges the results; it depends
  /// on the sequence alone, too.
  bool chunks_keys(const heed::Sequence& s) const {
    return key_chunks > 1 && heed::is_worth_chunks(pack_heads * s.query_length, s.key_length) &&
           !decodes(s);
  }

  /// Whether prefill writes the weights of a sequence, see kept_probs.hpp; it depends on the
  /// sequence alone, too.
  bool keeps_probs(const heed::Sequence& s) const {
    return kept_keys > 0 && s.key_length <= kept_keys && !decodes(s) && !chunks_keys(s);
  }

  /// Of one batch item.
  std::int64_t packs() const { return problem.query_heads / pack_heads; }

  // Pieces of a run's workspace.
  /// nullptr: they are not kept.
  template <class Real>
  heed::RowResult<Real>* results_in(std::byte* workspace) const {
    return results_bytes > 0 ? reinterpret_cast<heed::RowResult<Real>*>(workspace) : nullptr;
  }
  std::byte* slab_in(std::byte* workspace, std::uint32_t worker) const {
    return workspace + results_bytes + worker * slab.bytes;
  }
};

namespace heed {

/// Reads nothing except its arguments: the same context and problem give the same plan. The sizes
/// that decide bits of the result (panel, key_block) follow from the instruction set alone;
/// everything chosen here only decides who computes which rows, and when.
heed_attention_plan make_plan(const heed_context& context, const Problem& problem,
                              Placement placement = Placement::kPacked, Pass pass = Pass::kForward);

// The steps of a run with arguments that are checked, each of which knows from the plan whether it
// has something to do: sequences of many query rows and of few, and weights or their sums, for
// which scores are computed again. In attention.cpp, decode.cpp and recompute.cpp.
void prefill(const heed_attention_plan& plan, const heed_attention_args& args,
             std::byte* workspace);
void decode(const heed_attention_plan& plan, const heed_attention_args& args, std::byte* workspace);
void recompute(const heed_attention_plan& plan, const heed_attention_args& args,
               std::byte* workspace);

/// Checks the arguments, and runs the steps of the plan. Throws an Error before the first output is
/// written, or not at all.
void run_plan(const heed_attention_plan& plan, const heed_attention_args& args, void* workspace,
              std::size_t bytes);

/// Calls function(task, slab) for tasks of a run, with the slab of the worker that claims them.
template <class Plan, class Function>
void each_task(const Plan& plan, std::int64_t tasks, std::int64_t per_claim, std::byte* workspace,
               const Function& function) {
  parallel_for(plan.context->threads, {tasks, per_claim, plan.workers},
               [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                 std::byte* const slab = plan.slab_in(workspace, worker);
                 for (std::int64_t task = begin; task < end; ++task) function(task, slab);
               });
}

// ---- HEED_VERBOSE=1: one line on stderr for each run ---------------------------------------

/// The speed counts every pair that windows allow, masked or not, and sequences at full length.
void print_run(const heed_attention_plan& plan, const heed_attention_args& args,
               double seconds) noexcept;

}  // namespace heed
