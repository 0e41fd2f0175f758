// The query rows that one kernel call handles, side by side in the lanes, and which keys they
// attend.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/dense/problem.hpp"
#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/panels.hpp"
#include "engine/tensor/rows.hpp"

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
};

/// What the sums of a panel hold.
enum class Summed : std::uint8_t {
  kNothing,
  kKeys,    ///< all keys so far
  kLatest,  ///< the keys since the last fold; the panel's totals hold the others
};

/// Keys [begin, begin + keys).
struct KeyBlock {
  std::int64_t begin;
  std::size_t keys;
};

/// Rows are numbered within the pack.
template <class Real>
struct Panel : PanelRows {
  const HeadPack* pack;
  std::int64_t key_begin, key_end;      ///< the keys that some row attends, masks aside
  std::int64_t whole_begin, whole_end;  ///< the keys that every row attends, masks aside
  Real* query;
  RowState<Real> state;
  std::int64_t* argmax;  ///< [rows], hard attention only
  /// Of the rows, as Scores::lay_bias leaves it, for keys from bias_begin on; nullptr: it is read
  /// where it lies.
  const Real* bias;
  std::int64_t bias_begin;
  Summed* summed;

  /// The query row, within its head, that row i of the panel is.
  std::int64_t query_row(std::size_t i) const {
    return pack->query_row(first + static_cast<std::int64_t>(i));
  }

  /// Whether every row attends all keys of the block, masks aside.
  bool attended_by_all(const KeyBlock& block) const {
    return block.begin >= whole_begin &&
           block.begin + static_cast<std::int64_t>(block.keys) <= whole_end;
  }

  /// Begins the rows' softmax. A sink, one per head or nullptr, is a key without a value that comes
  /// first.
  void begin_sums(const Real* sinks) const {
    std::fill_n(state.row_max, pitch, kNoRowMax<Real>);
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
    for (std::size_t i = 0; i < rows; ++i) {
      const std::int64_t r = first + static_cast<std::int64_t>(i);
      function(i, pack->query_row(r), pack->head_of(r));
    }
  }
};

/// Rows [first, first + rows) of a pack; the caller adds the buffers. Their keys come in whole
/// groups of `depth`, but for those at the end of the sequence.
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

/// Whether the sums of all rows are numbers, and no maximum is infinite; `none` says of which rows
/// that is not so.
template <class Real>
bool has_numbers(const KernelTable<Real>& kernels, const Panel<Real>& panel, std::size_t features,
                 bool* none) {
  const Real* const sums = panel.state.accumulators;
  const bool finite = kernels.numbers.all_finite(sums, features * panel.pitch);
  for (std::size_t i = 0; i < panel.rows; ++i) {
    none[i] = !std::isfinite(panel.state.row_sum[i]) || panel.state.row_max[i] >= -kNoRowMax<Real>;
    for (std::size_t x = 0; !finite && x < features; ++x)
      none[i] = none[i] || !std::isfinite(sums[x * panel.pitch + i]);
  }
  return std::find(none, none + panel.rows, true) == none + panel.rows;
}

/// store_columns() for the rows of a panel; to_row(i, row, head) returns where row i begins.
template <class Real, class ToRow>
void store_rows(const KernelTable<Real>& kernels, const Panel<Real>& panel, const Real* columns,
                const Real* sum, std::size_t count, const Layout& layout, Real* buffer,
                ToRow&& to_row) {
  std::byte* to[kMaxPanel];
  panel.each_row(
      [&](std::size_t i, std::int64_t row, std::int64_t head) { to[i] = to_row(i, row, head); });
  store_columns(kernels, columns, sum, count, to, panel.rows, panel.vectors, layout, buffer);
}

}  // namespace heed
