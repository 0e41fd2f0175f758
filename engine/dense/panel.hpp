// The query rows that one kernel call handles, side by side in the lanes, and the blocks of keys
// that they attend.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/dense/plan.hpp"
#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/panels.hpp"
#include "engine/tensor/rows.hpp"
#include "engine/tensor/scale.hpp"

namespace heed {

/// Query heads packed into one problem, since they share their keys (grouped queries): row r is
/// query row r / group of head `head` + r % group. With `listed`, row r is query row listed[r] of
/// one head.
struct HeadPack {
  std::int64_t head;
  std::int64_t group;
  const std::int64_t* listed;  ///< nullptr: all rows, in order; otherwise group is 1

  std::int64_t query_row(std::int64_t r) const {
    if (listed != nullptr) return listed[r];
    return group == 1 ? r : r / group;
  }
  std::int64_t head_of(std::int64_t r) const { return group == 1 ? head : head + r % group; }
  /// Whether row r is query row r of one head.
  bool steps_by_rows() const { return listed == nullptr && group == 1; }
};

/// The sums of a panel have two levels, so that their error hardly grows with the number of keys:
/// after so many keys they are added to the panel's totals and begin again.
inline constexpr std::int64_t kFoldKeys = 4096;

/// Rows of accumulators that a panel needs: its sums, padded, and for longer sequences its totals,
/// of which the totals of row_sum come last.
inline Size accumulator_rows(Size features, std::int64_t key_length) {
  const Size sums = round_up(features, PanelGeometry::row_padding);
  return key_length > kFoldKeys ? sums + features + 1 : sums;
}

/// The keys that the sums of a panel hold.
enum class Summed : std::uint8_t {
  kNothing,
  kKeys,    ///< all keys so far
  kLatest,  ///< the keys since the last fold; the panel's totals hold the others
};

/// Keys [begin, begin + keys), between two decisions to rescale. Where blocks begin and end depends
/// on the panel and the problem alone, so that bits do not depend on tiles, threads or the rest of
/// the batch.
struct KeyBlock {
  std::int64_t begin;
  std::size_t keys;

  std::int64_t end() const { return begin + static_cast<std::int64_t>(keys); }
};

/// Calls function(block) for the keys [begin, end), cut at multiples of `step`.
template <class Function>
void each_block(std::int64_t begin, std::int64_t end, std::int64_t step, Function&& function) {
  for (std::int64_t k = begin, next = 0; k < end; k = next) {
    next = std::min(round_down(k, step) + step, end);
    function(KeyBlock{k, static_cast<std::size_t>(next - k)});
  }
}

/// Rows are numbered within the pack.
template <class Real>
struct Panel : PanelRows {
  const HeadPack* pack;
  std::int64_t key_begin, key_end;      ///< the keys that some row attends, masks aside
  std::int64_t whole_begin, whole_end;  ///< the keys that every row attends, masks aside
  Real* query;
  RowState<Real> state;
  std::size_t sum_features;  ///< that accumulators sum for each row
  Summed* summed;

  /// The query row, within its head, that row i of the panel is, and that head.
  std::int64_t query_row(std::size_t i) const {
    return pack->query_row(first + static_cast<std::int64_t>(i));
  }

  std::int64_t head(std::size_t i) const {
    return pack->head_of(first + static_cast<std::int64_t>(i));
  }

  KeyBlock keys() const {
    return {key_begin, static_cast<std::size_t>(std::max(key_end - key_begin, std::int64_t{0}))};
  }

  /// Whether every row attends all keys of the block, masks aside.
  bool attended_by_all(const KeyBlock& block) const {
    return block.begin >= whole_begin && block.end() <= whole_end;
  }

  /// Whether the panel's sums hold nothing, for the last time: the caller adds keys to them.
  bool begins_sums() const {
    const bool fresh = *summed == Summed::kNothing;
    if (fresh) *summed = Summed::kKeys;
    return fresh;
  }

  /// How many rows of accumulators, totals included, hold something and must be rescaled.
  std::size_t rows_summed() const {
    return *summed == Summed::kLatest ? padded_features() + sum_features + 1 : sum_features;
  }

  /// Before the keys from `key` on: every kFoldKeys keys the sums are added to the totals, and
  /// begin again.
  void fold(std::int64_t key) const {
    if (key % kFoldKeys != 0 || *summed == Summed::kNothing) return;
    const bool first = *summed != Summed::kLatest;
    *summed = Summed::kLatest;
    each_total([first](Real& sum, Real& total) {
      total = first ? sum : total + sum;
      sum = 0;
    });
  }

  /// Leaves the sums of all keys, when they have been seen.
  void finish_sums() const {
    if (*summed == Summed::kNothing) std::fill_n(state.accumulators, sum_features * pitch, Real{0});
    if (*summed == Summed::kLatest) each_total([](Real& sum, Real& total) { sum += total; });
  }

  /// Begins the rows' softmax. A sink, one per head or nullptr, is a key without a value that comes
  /// first.
  void begin_sums(const Real* sinks) const {
    std::fill_n(state.row_max, pitch, Real{kNoRowMax<Real>});
    std::fill_n(state.row_sum, pitch, Real{0});
    if (sinks == nullptr) return;
    each_row([&](std::size_t i, std::int64_t, std::int64_t head) {
      if (sinks[head] == -std::numeric_limits<Real>::infinity()) return;
      state.row_max[i] = sinks[head] > -kNoRowMax<Real>
                             ? -kNoRowMax<Real>
                             : finite_score<Real>(static_cast<double>(sinks[head]) * kLog2E);
      state.row_sum[i] = 1;
    });
  }

  /// Calls function(i, query row, query head) for every row.
  template <class Function>
  void each_row(Function&& function) const {
    for (std::size_t i = 0; i < rows; ++i) function(i, query_row(i), head(i));
  }

 private:
  std::size_t padded_features() const {
    return static_cast<std::size_t>(
        round_up(static_cast<std::int64_t>(sum_features), PanelGeometry::row_padding));
  }

  /// Calls function(sum, total) for all sums of the panel.
  template <class Function>
  void each_total(Function&& function) const {
    const std::size_t count = sum_features * pitch;
    Real* const totals = state.accumulators + padded_features() * pitch;
    for (std::size_t i = 0; i < count; ++i) function(state.accumulators[i], totals[i]);
    for (std::size_t i = 0; i < pitch; ++i) function(state.row_sum[i], totals[count + i]);
  }
};

/// One sequence of a run, and the slab of the thread that computes it.
template <class Real>
struct AttentionThread {
  const heed_attention_plan& plan;
  const heed_attention_args& args;
  const Sequence& sequence;
  std::byte* slab;
  const Problem& problem = plan.problem;
  const KernelTable<Real>& kernels = kernels_of<Real>(*plan.context->kernels);

  Real* buffer(std::size_t Slab::*offset) const {
    return reinterpret_cast<Real*>(slab + plan.slab.*offset);
  }

  /// Of a query or key, and of a value.
  std::size_t features() const { return static_cast<std::size_t>(problem.features); }
  std::size_t value_features() const { return static_cast<std::size_t>(problem.value_features); }

  /// One per query head; nullptr: none.
  const Real* sinks() const { return static_cast<const Real*>(args.sinks); }

  /// Where a head's row of queries or results begins.
  template <class Data>
  auto* query_row(Data* data, const Layout& layout, std::int64_t row, std::int64_t head) const {
    return row_at(data, layout, sequence.batch, head, sequence.query_begin + row);
  }

  /// Rows [begin, end) of a key head's keys or values, as `products` want them: where they lie, or
  /// in `copies`, widened, in pairs of bfloat16, or divided by their norms.
  RowsView<Real> stored_rows(const ProductKernels<Real>& products, const StoredTensor& of,
                             std::int64_t head, std::int64_t begin, std::int64_t end,
                             std::int64_t features, Real* copies, bool divided = false) const {
    const bool paged = sequence.pages != nullptr;
    const auto row = [&](std::int64_t j) { return sequence.key_row(of.data, of.layout, head, j); };
    const auto read = [&](std::int64_t j, Real* to) {
      sequence.read_key(kernels, of, head, j, features, to);
      if (divided) divide_by_norm(kernels, to, static_cast<std::size_t>(features), 1, to);
    };
    if (products.depth == 1 || products.split_rows != nullptr)
      return widened(of.layout, paged || divided, begin, end, features, copies, row, read);
    return paired(of.layout, paged, begin, end, features, products.depth, copies, row,
                  [&](std::int64_t j, std::uint16_t* to) {
                    if (has_rows_of(ElementType::kBf16, of.layout)) {
                      std::memcpy(to, row(j), 2 * static_cast<std::size_t>(features));
                      return;
                    }
                    Real* const values = buffer(&Slab::rows);
                    read(j, values);
                    kernels.numbers.write(ElementType::kBf16, values,
                                          static_cast<std::size_t>(features), to, 1);
                  });
  }
};

/// Rows [first, first + rows) of a pack; the caller adds the buffers. Their keys come in whole
/// groups of `depth`, except at the end of the sequence.
template <class Real>
Panel<Real> make_panel(const HeadPack& pack, const Sequence& sequence, std::int64_t first,
                       std::int64_t rows, std::uint32_t lanes, std::uint32_t depth = 1) {
  Panel<Real> panel{};
  static_cast<PanelRows&>(panel) = PanelRows::of(first, rows, lanes);
  panel.pack = &pack;
  const std::int64_t first_query = pack.query_row(first);
  const std::int64_t last_query = pack.query_row(first + rows - 1);
  panel.key_begin = round_down(sequence.first_key(first_query), std::int64_t{depth});
  panel.key_end =
      std::min(round_up(sequence.end_key(last_query), std::int64_t{depth}), sequence.key_length);
  panel.whole_begin = sequence.first_key(last_query);
  panel.whole_end = sequence.end_key(first_query);
  return panel;
}

/// Whether the sums of all rows are finite, and no maximum is infinite; `none` says of which rows
/// that is not so.
template <class Real>
bool has_numbers(const KernelTable<Real>& kernels, const Panel<Real>& panel, bool* none) {
  const Real* const sums = panel.state.accumulators;
  const bool finite = kernels.numbers.all_finite(sums, panel.sum_features * panel.pitch);
  for (std::size_t i = 0; i < panel.rows; ++i) {
    none[i] = !std::isfinite(panel.state.row_sum[i]) || panel.state.row_max[i] >= -kNoRowMax<Real>;
    for (std::size_t x = 0; !finite && x < panel.sum_features; ++x)
      none[i] = none[i] || !std::isfinite(sums[x * panel.pitch + i]);
  }
  return std::find(none, none + panel.rows, true) == none + panel.rows;
}

/// store_columns() for the rows of a panel, or the `wanted` ones; to_row(i, row, head) returns
/// where row i begins.
template <class Real, class ToRow>
void store_rows(const KernelTable<Real>& kernels, const Panel<Real>& panel, const Real* columns,
                const Real* sum, std::size_t count, const Layout& layout, Real* buffer,
                ToRow&& to_row, const bool* wanted = nullptr) {
  std::byte* to[kMaxPanel];
  panel.each_row(
      [&](std::size_t i, std::int64_t row, std::int64_t head) { to[i] = to_row(i, row, head); });
  store_columns(kernels, columns, sum, count, to, panel.rows, panel.vectors, layout, buffer, false,
                wanted);
}

/// A panel's row maxima start from the maximum over this many keys.
inline constexpr std::int64_t kProbeKeys = 32;

/// Fused keys come in whole groups of this many.
inline constexpr auto kFusedKeys = static_cast<std::int64_t>(PanelGeometry::row_padding);

/// Narrow panels (decoding) read a key block's values in place, once per few features: this many
/// floats stay in the L1 cache meanwhile.
inline constexpr std::int64_t kNarrowBlockFloats = 4096;
inline constexpr std::int64_t kNarrowestBlock = 16;

/// Keys in a block of this panel.
template <class Real>
std::int64_t block_keys(const Panel<Real>& panel, const ProductKernels<Real>& products) {
  const auto features = static_cast<std::int64_t>(panel.sum_features);
  std::int64_t keys = products.key_block;
  if (panel.vectors > 1) return keys;
  const std::int64_t narrowest = std::max(kNarrowestBlock, std::int64_t{products.depth});
  // Halved, so that blocks end where tiles end, whatever the tile.
  while (keys > narrowest && keys * features > kNarrowBlockFloats) keys /= 2;
  return keys;
}

/// Which keys of a block become probabilities while their scores are in registers. The keys before
/// and after them are scored first.
struct FusedKeys {
  std::size_t begin, count;

  std::size_t end() const { return begin + count; }
};

/// Most keys are fused. The first keys of a panel, which is then `fresh`, are not: their maximum is
/// taken first, so that row maxima rarely move later. Nor are keys that only some rows attend, or a
/// rest of less than a group. Without `may`, because of an option, none are.
template <class Real>
FusedKeys fused_keys(const Panel<Real>& panel, const KeyBlock& block, bool fresh, bool may) {
  if (!may) return {block.keys, 0};
  const auto keys = static_cast<std::int64_t>(block.keys);
  const std::int64_t whole_begin = std::max(panel.whole_begin - block.begin, std::int64_t{0});
  const std::int64_t whole_end = std::min(panel.whole_end - block.begin, keys);
  const std::int64_t first = round_up(std::max(whole_begin, fresh ? kProbeKeys : 0), kFusedKeys);
  const std::int64_t fused = round_down(whole_end - first, kFusedKeys);
  if (fused <= 0) return {block.keys, 0};
  const bool at_end = whole_end == keys;  // a rest of less than a group then comes first
  return {static_cast<std::size_t>(at_end ? keys - fused : first), static_cast<std::size_t>(fused)};
}

/// The whole groups of `depth` keys of a block that every row attends.
template <class Real>
FusedKeys whole_groups(const Panel<Real>& panel, const KeyBlock& block, std::int64_t depth) {
  const auto keys = static_cast<std::int64_t>(block.keys);
  const std::int64_t first =
      round_up(std::max(panel.whole_begin - block.begin, std::int64_t{0}), depth);
  const std::int64_t count =
      round_down(std::min(panel.whole_end - block.begin, keys) - first, depth);
  if (count <= 0) return {block.keys, 0};
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(count)};
}

}  // namespace heed
