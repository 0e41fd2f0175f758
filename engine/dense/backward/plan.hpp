// How gradients are cut up: query rows into splits and blocks, keys into tiles, and the workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/dense/backward/problem.hpp"
#include "engine/dense/plan.hpp"

namespace heed {

/// Offsets, in bytes, into what one thread works in beside the slab of the attention. A query block
/// meets one tile of keys at a time.
struct BackwardSlab {
  std::size_t query;          ///< panels of the query block, [panel][query_lines][pitch], scaled
  std::size_t grad_out;       ///< likewise, [panel][grad_lines][pitch]
  std::size_t query_columns;  ///< the same rows, or weights of features, see GradPanel
  std::size_t grad_columns;
  std::size_t grad_query;   ///< accumulators, [panel][accumulator_rows][pitch]
  std::size_t softmax;      ///< four values of every row, see GradPanel
  std::size_t row_sum;      ///< a panel's, folding alone uses it
  std::size_t summed;       ///< [panels] bytes, Summed
  std::size_t finite;       ///< [panels] bool, GradPanel::finite
  std::size_t scores;       ///< GradPanel::probs of the panels of a run, or of one in pairs
  std::size_t gradients;    ///< GradPanel::gradients, likewise
  std::size_t before;       ///< [key_block][pitch], scores on the way
  std::size_t rounded;      ///< probs of a run, then gradients, [key_block][rows] bfloat16
  std::size_t packed;       ///< one tile of keys, packed as values are
  std::size_t wide;         ///< the same as floats on the way there, where keys are pairs
  std::size_t finite_keys;  ///< [tile_kv] bytes, what Products knows of them
  std::size_t bias;         ///< [bias_keys][panel], sums of gradients of a bias
  std::size_t bias_part;    ///< likewise, of one share
  std::size_t bias_lanes;   ///< likewise, the bias itself, if shares_bias()
  std::size_t bias_rows;    ///< [panel + 1][bias_keys], the same as rows
  std::size_t rows;         ///< a panel's rows, widened, and one more
  std::size_t tile_sums;    ///< KeySums of a query block: of the keys and values of one tile
  std::size_t sums;         ///< KeySums of the splits so far, and of one with several query blocks
  std::size_t bytes;
};

/// How many features a product over rows has side by side, at most.
struct ColumnWidth {
  std::size_t lanes, vectors;
};

/// A split's rows sum their gradients of keys and values apart, so that one long head has work for
/// several threads. How many rows it has depends on the sequence alone.
inline constexpr std::int64_t kSplitRows = 512;
inline constexpr std::int64_t kMostSplits = 8;

/// A query row's share of the gradients that are one number, or one per head; all except sink are
/// times temperature.
struct RowTerms {
  double slope, scale, temperature, sink;
};

}  // namespace heed

/// The C API's opaque type.
struct heed_attention_backward_plan {
  const heed_context* context;
  heed::BackwardProblem problem;
  heed_attention_plan attention;  ///< panels, and the slab that scores are computed in
  std::int64_t block_panels;      ///< of a query block
  std::int64_t splits;            ///< of the longest sequence
  std::int64_t packs;             ///< of all sequences
  bool apart;                     ///< splits are tasks of their own; else packs are
  bool pairs;                     ///< of bfloat16 are multiplied, see backward.cpp
  std::int64_t run_panels;        ///< of a PanelRun, at most
  std::int64_t block_values;      ///< of a panel's scores of a block of keys
  std::int64_t grad_lines;        ///< of a panel of gradients of out
  heed::ColumnWidth columns;
  std::int64_t tasks;
  std::int64_t sum_values;  ///< of the KeySums of a pack
  std::uint32_t workers;
  double flops;
  heed::BackwardSlab slab;
  std::size_t slab_bytes;  ///< of both slabs
  std::int64_t bias_keys;  ///< of a tile of the bias
  /// How many shares of the panels that a tile repeats over are summed apart, and then in order. It
  /// depends on the problem and the panel alone.
  std::int64_t bias_parts;
  bool bias_apart;         ///< shares are tasks of their own
  std::size_t bias_sums;   ///< offset: [bias_tasks][bias_parts][bias_values], where they are
  std::size_t sums;        ///< offset: KeySums [packs][splits], where splits are apart
  std::size_t score_sums;  ///< offset: double [packs][splits][pack_heads][features], if activated
  std::size_t terms;       ///< offset: RowTerms [batch][query_heads][query_length]
  std::size_t bytes;       ///< of workspace that a run needs

  std::size_t workspace_bytes() const { return bytes; }

  std::byte* slab_in(std::byte* workspace, std::uint32_t worker) const {
    return workspace + worker * slab_bytes;
  }
  /// In a thread's slab: the attention's, then its own.
  template <class Real>
  Real* buffer(std::byte* both, std::size_t heed::BackwardSlab::*offset) const {
    return reinterpret_cast<Real*>(both + attention.slab.bytes + slab.*offset);
  }

  /// Query blocks of a split, at most.
  std::int64_t blocks_of_split() const {
    return heed::ceil_div(split_rows(problem.attention.query_length),
                          block_panels * attention.panel_rows);
  }
  /// Rows of a pack of so many query rows in each of its splits except the last.
  std::int64_t split_rows(std::int64_t query_length) const {
    const std::int64_t rows = attention.pack_heads * query_length;
    const std::int64_t least = heed::ceil_div(rows, heed::kMostSplits);
    return heed::round_up(least > heed::kSplitRows ? least : heed::kSplitRows,
                          attention.panel_rows);
  }
};

namespace heed {

/// How the gradient of a bias is cut into tiles: some keys, or the one that repeats, for a panel of
/// rows, or the one, and so on.
struct BiasTiling {
  explicit BiasTiling(const heed_attention_backward_plan& plan)
      : of(plan.problem.attention),
        sizes(plan.problem.bias_sizes),
        steps{of.batch, of.query_heads, ceil_div(of.query_length, plan.attention.panel_rows),
              ceil_div(of.key_length, plan.bias_keys)},
        tile_values(Size(repeats(kKeys) ? 1 : plan.bias_keys) * plan.attention.panel_rows) {}

  /// The axes of a bias, as in BackwardProblem::bias_sizes.
  enum Axis { kBatch, kHeads, kRows, kKeys };

  bool repeats(Axis axis) const { return sizes[axis] == 1; }
  /// Tiles along an axis, and how many tiles of a bias without repeats are in one of them.
  std::int64_t along(Axis axis) const { return repeats(axis) ? 1 : steps[axis]; }
  std::int64_t in_one(Axis axis) const { return repeats(axis) ? steps[axis] : 1; }

  std::int64_t tiles() const {
    return (Size(along(kBatch)) * along(kHeads) * along(kRows) * along(kKeys)).value();
  }
  /// Panels of rows that a tile repeats over, in all heads and batch items.
  std::int64_t panels() const {
    return (Size(in_one(kBatch)) * in_one(kHeads) * in_one(kRows)).value();
  }
  /// Whether tiles, of many rows and keys, repeat over heads or batch items.
  bool shares() const {
    return (in_one(kBatch) > 1 || in_one(kHeads) > 1) && sizes[kRows] > 1 && sizes[kKeys] > 1;
  }
  /// Whether every pair has a number of the bias of its own: then its gradient is written as it is
  /// found, after BiasTile::clear(), because not all pairs are looked at.
  bool is_own() const {
    return sizes[kBatch] == of.batch && sizes[kHeads] == of.query_heads &&
           sizes[kRows] == of.query_length && sizes[kKeys] == of.key_length;
  }

  const Problem& of;
  const Shape& sizes;
  const std::int64_t steps[4];
  const Size tile_values;
};

/// Reads nothing except its arguments.
heed_attention_backward_plan make_plan(const heed_context& context, const BackwardProblem& problem);

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_attention_backward_plan& plan, const heed_attention_backward_args& args,
              void* workspace, std::size_t bytes);

/// HEED_VERBOSE=1: one line on stderr for each run.
void print_run(const heed_attention_backward_plan& plan, const heed_attention_backward_args& args,
               double seconds) noexcept;

}  // namespace heed
