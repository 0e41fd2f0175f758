// The panels of query rows and the tiles of keys from which gradients are computed.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/dense/backward/plan.hpp"
#include "engine/dense/panel.hpp"
#include "engine/tensor/panels.hpp"

namespace heed {

/// Features side by side in the lanes of a few vectors, as many as a panel has: features [first,
/// first + pitch), of which the last may not count.
struct Columns {
  std::size_t first, vectors, pitch;
};

/// Calls function(columns) for all features, cut into panels that are about equally wide.
template <class Function>
void each_columns(const ColumnWidth& most, std::size_t features, Function&& function) {
  std::size_t vectors = (features + most.lanes - 1) / most.lanes;
  std::size_t left = (vectors + most.vectors - 1) / most.vectors;
  for (std::size_t x = 0; left > 0; --left) {
    const std::size_t some = (vectors + left - 1) / left;
    function(Columns{x, some, some * most.lanes});
    x += some * most.lanes;
    vectors -= some;
  }
}

/// Pairs of `rows` rows, in whole groups of `depth` of them.
inline std::size_t pair_lines(std::size_t rows, std::size_t depth) {
  return (rows + depth - 1) / depth * depth / 2;
}

/// Sums over query rows for every key of a pack, of the gradients of its keys or of its values:
/// [columns][key][pitch]
template <class Real>
struct KeySums {
  Real* sums;
  std::size_t keys;
  std::size_t first_key = 0;

  Real* at(const Columns& columns, std::size_t key) const {
    return sums + columns.first * keys + (key - first_key) * columns.pitch;
  }
};

/// to[row][x] = columns[x][row], of so many rows and vectors of them.
template <class Real>
void turn_into_rows(const KernelTable<Real>& kernels, const Real* columns, std::size_t vectors,
                    std::size_t rows, std::size_t count, Real* to) {
  alignas(kAlignment) Real ones[kMaxPanel];
  std::fill_n(ones, kMaxPanel, Real{1});
  Real* row[kMaxPanel] = {};
  for (std::size_t i = 0; i < rows; ++i) row[i] = to + i * count;
  kernels.panels.finish(vectors, columns, ones, count, row, rows, 1, false);
}

/// Where a panel is among the panels of its query block, which come in groups: a run has panels of
/// one group.
struct PanelPlace {
  std::int64_t index;       ///< of the panel
  std::int64_t row;         ///< rows before it
  std::int64_t group_row;   ///< rows before its group
  std::int64_t group_rows;  ///< rows of that

  std::int64_t row_in_group() const { return row - group_row; }
};

/// A panel with the gradients of its rows. Rows as products over rows want them lie in columns,
/// [columns][row][pitch], and of pairs, of all rows of the group, [columns][pair of rows][pitch].
template <class Real>
struct GradPanel : Panel<Real> {
  PanelPlace place;
  Real* grad_out;       ///< [value_features][pitch]
  Real* grad_columns;   ///< the same rows
  Real* query_columns;  ///< where scores are no products the weights of features, [features][pitch]
  Real* probs;          ///< [key_block][pitch]: scores, then probabilities, of a block of keys
  Real* gradients;      ///< [key_block][pitch], of probabilities, then of scores
  Real* lse_whole;      ///< [pitch] log2 units: the nearest whole number of the log-sum-exp ...
  Real* lse_rest;       ///< ... and the rest
  Real* shift;   ///< [pitch] comes off scores first, where the log-sum-exp is far from 0; else 0
  Real* delta;   ///< [pitch]
  bool* finite;  ///< whether a probability of 0 times any of this is 0

  bool is_shifted() const {
    return std::any_of(shift, shift + this->rows, [](Real by) { return by != 0; });
  }
};

/// Panels of rows side by side that have come to the same keys. They add to the sums of these keys
/// in one product, because each of them alone is not deep: sums come and go from the caches.
template <class Real>
struct PanelRun {
  static constexpr std::int64_t kMost = 8;
  const GradPanel<Real>* panels[kMost];
  std::int64_t count = 0;
  KeyBlock block{};

  bool is_at(const KeyBlock& keys) const {
    return block.begin == keys.begin && block.keys == keys.keys;
  }
  void add(const GradPanel<Real>& panel, const KeyBlock& keys) {
    block = keys;
    panels[count++] = &panel;
  }
};

/// Keys [begin, end) with their values, as products of rows want them.
template <class Real>
struct KeyTile {
  std::int64_t begin, end;
  RowsView<Real> key, value;
};

/// The sums that a split adds to.
template <class Real>
struct SplitSums {
  KeySums<Real> keys, values;
  double* score_weights;  ///< [pack_heads][weights_of_head()]

  /// The sums of `count` keys from key `first` on, in whole vectors of features, and behind them
  /// the sums of their values.
  static SplitSums in(Real* buffer, std::int64_t features, std::size_t lanes, std::size_t count,
                      std::size_t first, double* score_weights) {
    const std::size_t of_keys = (static_cast<std::size_t>(features) + lanes - 1) / lanes * lanes;
    return {{buffer, count, first}, {buffer + of_keys * count, count, first}, score_weights};
  }
};

/// The query rows of a pack of one sequence, and the thread that works on them.
template <class Real>
struct PackRows {
  const heed_attention_backward_plan& plan;
  const BackwardArgs& args;
  const AttentionThread<Real> on;
  const HeadPack pack;
  RowTerms* const all_terms;  ///< nullptr: they are not wanted
  const bool pairs = false;   ///< pairs of bfloat16 are multiplied

  const ProductKernels<Real>& products() const { return products_of(on.kernels, pairs_if(pairs)); }
  std::int64_t key_head() const { return pack.head / on.problem.group(); }
  Real* buffer(std::size_t BackwardSlab::*offset) const {
    return plan.buffer<Real>(on.slab, offset);
  }
  RowTerms& terms(std::int64_t row, std::int64_t head) const {
    const Problem& p = on.problem;
    return all_terms[(on.sequence.batch * p.query_heads + head) * p.query_length + row];
  }
};

}  // namespace heed
