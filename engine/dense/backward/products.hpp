// The share of a block of keys in the gradients of queries, keys and values.
#pragma once

#include <algorithm>
#include <cmath>

#include "engine/dense/backward/scores.hpp"
#include "engine/dense/values.hpp"

namespace heed {

template <class Real>
class Products {
 public:
  Products(const PackRows<Real>& rows, const Scores<Real>& scores) : rows_(rows), scores_(scores) {}

  /// A tile comes before its blocks.
  void pack(const KeyTile<Real>& tile) const {
    const auto keys = static_cast<std::size_t>(tile.end - tile.begin);
    const Problem& p = on_.problem;
    std::fill_n(known(), keys, Finite::kUnknown);
    if (!p.is_product()) return;
    Real* const to = rows_.buffer(&BackwardSlab::packed);
    if (rows_.pairs && pack_in_place(on_, products_, keys_of(p, on_.args), rows_.key_head(),
                                     tile.begin, tile.end, p.features, to))
      return;
    const RowsView<Real> from =
        rows_.pairs
            ? on_.stored_rows(on_.kernels.panels, keys_of(p, on_.args), rows_.key_head(),
                              tile.begin, tile.end, p.features, rows_.buffer(&BackwardSlab::wide))
            : tile.key;
    products_.pack_values({from.data, from.row_stride, 1}, keys,
                          static_cast<std::size_t>(p.features), to);
  }

  /// Adds what ScoreGradients left in the panel to its queries, and to keys and values together
  /// with other panels, of which the panels in the run come first. `excludes`: some pairs may not
  /// attend.
  void add(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block,
           bool excludes, const SplitSums<Real>& sums, PanelRun<Real>& run) const {
    const bool apart = excludes && !(*panel.finite && finite(tile, block));
    if (apart || !run.is_at(block)) end(run, sums);
    if (!on_.problem.is_product()) add_activated(panel, tile, block, sums);
    if (apart) return add_attended(panel, tile, block, sums);
    if (on_.problem.is_product()) add_queries(panel, tile, block);
    run.add(panel, block);
  }

  // Pairs: the panels of a run leave lines of rounded values for every key of its block.

  /// Adds what ScoreGradients left for some of the block's keys to queries, and rounds it.
  void add_rounded(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& keys,
                   const KeyBlock& block) const {
    add_queries(panel, tile, keys);
    const RoundedGradients<Real> to = lines(panel, keys.begin, block);
    products_.round_rows(panel.probs, panel.pitch, keys.keys, panel.rows, panel.pitch, to.probs,
                         to.pitch);
    products_.round_rows(panel.gradients, panel.pitch, keys.keys, panel.rows, panel.pitch,
                         to.gradients, to.pitch);
  }

  /// Computes, too, what whole groups of keys have whose scores no option changes.
  void attend(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& keys,
              const KeyBlock& block) const {
    const std::int64_t first = keys.begin - tile.begin;
    const std::size_t features = on_.features();
    RoundedGradients<Real> to = lines(panel, keys.begin, block);
    to.paired = panel.gradients;
    products_.score_gradients(panel.vectors, from_row(tile.key, first), from_row(tile.value, first),
                              keys.keys,
                              {panel.query, features, panel.grad_out, on_.value_features(),
                               panel.lse_whole, panel.lse_rest, panel.delta},
                              to);
    products_.multiply_panel(panel.vectors, from_key(products_, packed(tile), first), keys.keys,
                             to.paired, panel.state.accumulators, features, panel.begins_sums());
  }

  /// Keys [begin, end) of the block have nothing to do with the panel.
  void clear(const GradPanel<Real>& panel, std::int64_t begin, std::int64_t end,
             const KeyBlock& block) const {
    if (begin >= end) return;
    const RoundedGradients<Real> to = lines(panel, begin, block);
    for (std::int64_t j = 0; j < end - begin; ++j) {
      const std::size_t before = static_cast<std::size_t>(j) * to.pitch;
      std::fill_n(to.probs + before, panel.pitch, std::uint16_t{0});
      std::fill_n(to.gradients + before, panel.pitch, std::uint16_t{0});
    }
  }

  /// Adds what the panels of a run have for keys and values.
  void end(PanelRun<Real>& run, const SplitSums<Real>& sums) const {
    if (run.count == 0) return;
    using Panel = GradPanel<Real>;
    const heed_attention_backward_args& wanted = rows_.args.given;
    if (wanted.grad_value != nullptr)
      add_columns(run, &Panel::probs, Rounded::kProbs, &Panel::grad_columns,
                  on_.problem.value_features, sums.values);
    if (wanted.grad_key != nullptr && on_.problem.is_product())
      add_columns(run, &Panel::gradients, Rounded::kGradients, &Panel::query_columns,
                  on_.problem.features, sums.keys);
    run.count = 0;
  }

 private:
  /// Whether a key holds no infinity and no NaN.
  enum class Finite : std::uint8_t { kUnknown, kYes, kNo };
  Finite* known() const {
    return reinterpret_cast<Finite*>(rows_.buffer(&BackwardSlab::finite_keys));
  }

  /// Whether the keys of a block are finite. A tile's keys are looked at once, when somebody may
  /// not attend one of them.
  bool finite(const KeyTile<Real>& tile, const KeyBlock& block) const {
    Finite* const known = this->known();
    const std::int64_t keys = tile.end - tile.begin;
    if (known[0] == Finite::kUnknown) {
      const std::int64_t features = on_.problem.features;
      const ValueView<Real> all = packed(tile);
      const auto blocks = ceil_div(features, std::int64_t{PanelGeometry::value_block});
      const bool every = on_.problem.is_product() &&
                         on_.kernels.numbers.all_finite(
                             all.data, static_cast<std::size_t>(blocks * all.block_stride));
      for (std::int64_t j = 0; j < keys; ++j) {
        const Real* const key = from_row(tile.key, j).data;
        const auto is_finite = [](Real number) { return std::isfinite(number); };
        known[j] =
            every || std::all_of(key, key + features, is_finite) ? Finite::kYes : Finite::kNo;
      }
    }
    const Finite* const first = known + (block.begin - tile.begin);
    return std::none_of(first, first + block.keys, [](Finite key) { return key == Finite::kNo; });
  }

  ValueView<Real> packed(const KeyTile<Real>& tile) const {
    return packed_view(products_, rows_.buffer(&BackwardSlab::packed), tile.end - tile.begin);
  }

  /// Scores that are no products: their share in queries, weights of features, and keys.
  void add_activated(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block,
                     const SplitSums<Real>& sums) const {
    const std::size_t features = on_.features();
    Real* const of_query = panel.state.accumulators;
    Real* const of_weights = of_query + features * panel.pitch;
    if (panel.begins_sums()) std::fill_n(of_query, 2 * features * panel.pitch, Real{0});
    // Keys sum over lanes: lanes of no row may have any gradient, where a key is not finite.
    for (std::size_t j = 0; panel.rows < panel.pitch && j < block.keys; ++j)
      std::fill(panel.gradients + j * panel.pitch + panel.rows,
                panel.gradients + (j + 1) * panel.pitch, Real{0});
    const RowsView<Real> keys = from_row(tile.key, block.begin - tile.begin);
    each_columns(rows_.plan.columns, features, [&](const Columns& some) {
      const std::size_t first = some.first * panel.pitch;
      ActivatedPanel<Real> of = scores_.activated(panel, panel.query_columns + first);
      of.query += first;
      of.features = std::min(some.pitch, features - some.first);
      on_.kernels.panels.activated_gradient(
          panel.vectors, {keys.data + some.first, keys.row_stride}, block.keys, of, panel.gradients,
          {of_query + first, of_weights + first,
           sums.keys.at(some, static_cast<std::size_t>(block.begin)), some.pitch});
    });
  }

  void add_queries(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                   const KeyBlock& block) const {
    RowState<Real> state = panel.state;
    state.fresh = panel.begins_sums();
    accumulate(products_, panel, state, from_key(products_, packed(tile), block.begin - tile.begin),
               block, all_keys(block.keys), panel.gradients);
  }

  /// The rounded values that pairs of rows are made of: [key_block][run_rows()] each.
  enum class Rounded : std::uint8_t { kProbs, kGradients };
  std::uint16_t* rounded(Rounded which) const {
    auto* const first = reinterpret_cast<std::uint16_t*>(rows_.buffer(&BackwardSlab::rounded));
    return which == Rounded::kProbs ? first
                                    : first + rows_.plan.run_panels * rows_.plan.block_values;
  }
  std::size_t run_rows() const {
    return static_cast<std::size_t>(rows_.plan.run_panels * on_.plan.panel_rows);
  }
  /// The lines of a panel, from a key of the block on.
  RoundedGradients<Real> lines(const GradPanel<Real>& panel, std::int64_t key,
                               const KeyBlock& block) const {
    const std::size_t before = static_cast<std::size_t>(key - block.begin) * run_rows() +
                               static_cast<std::size_t>(panel.place.row_in_group());
    return {rounded(Rounded::kProbs) + before, rounded(Rounded::kGradients) + before, run_rows(),
            nullptr};
  }

  /// sums[key][x] += sum over panels and their rows of left[key][row] * columns[row][x].
  void add_columns(const PanelRun<Real>& run, Real* GradPanel<Real>::*left, Rounded rounded,
                   Real* GradPanel<Real>::*columns, std::int64_t features,
                   const KeySums<Real>& sums) const {
    if (rows_.pairs) return add_pairs(run, this->rounded(rounded), columns, features, sums);
    each_columns(rows_.plan.columns, static_cast<std::size_t>(features), [&](const Columns& some) {
      RowsAndPanel<Real> parts[PanelRun<Real>::kMost];
      for (std::int64_t p = 0; p < run.count; ++p) {
        const GradPanel<Real>& panel = *run.panels[p];
        parts[p] = {{panel.*left, static_cast<std::ptrdiff_t>(panel.pitch)},
                    panel.*columns + some.first * panel.rows,
                    panel.rows};
      }
      on_.kernels.panels.add_scores(some.vectors, parts, static_cast<std::size_t>(run.count),
                                    run.block.keys,
                                    sums.at(some, static_cast<std::size_t>(run.block.begin)));
    });
  }

  /// The same of pairs of rows: `left` is what values are to panels. Rows come in whole groups of
  /// `depth` and keys in groups, 0 before the first and past the last, which add nothing to other
  /// sums.
  void add_pairs(const PanelRun<Real>& run, std::uint16_t* left, Real* GradPanel<Real>::*columns,
                 std::int64_t features, const KeySums<Real>& sums) const {
    const std::int64_t depth = products_.depth;
    const GradPanel<Real>& last = *run.panels[run.count - 1];
    const std::int64_t first_row = run.panels[0]->place.row_in_group();
    const std::int64_t begin = round_down(first_row, depth);
    const std::int64_t past = last.place.row_in_group() + static_cast<std::int64_t>(last.pitch);
    const std::int64_t end =
        round_up(last.place.row_in_group() + static_cast<std::int64_t>(last.rows), depth);
    const std::size_t width = run_rows();
    for (std::size_t j = 0; j < run.block.keys; ++j) {
      std::uint16_t* const line = left + j * width;
      std::fill(line + begin, line + first_row, std::uint16_t{0});
      if (past < end) std::fill(line + past, line + end, std::uint16_t{0});
    }
    const auto keys = static_cast<std::size_t>(
        round_up(static_cast<std::int64_t>(run.block.keys), PanelGeometry::row_padding));
    std::fill(left + run.block.keys * width, left + keys * width, std::uint16_t{0});
    const auto stride = static_cast<std::ptrdiff_t>(width / 2);
    const ValueView<Real> view = {reinterpret_cast<const Real*>(left + begin), products_.elements(),
                                  stride,
                                  static_cast<std::ptrdiff_t>(PanelGeometry::value_block) * stride};
    const std::size_t lines =
        pair_lines(static_cast<std::size_t>(last.place.group_rows), products_.depth);
    each_columns(rows_.plan.columns, static_cast<std::size_t>(features), [&](const Columns& some) {
      products_.multiply_panel(
          some.vectors, view, static_cast<std::size_t>(end - begin),
          last.*columns + some.first * lines + static_cast<std::size_t>(begin / 2) * some.pitch,
          sums.at(some, static_cast<std::size_t>(run.block.begin)), keys, false);
    });
  }

  /// The same score by score, without pairs that do not attend: 0 * NaN would be NaN. Sums go on
  /// from where they were, key by key and for each key row by row. That rounds otherwise than
  /// add_columns(), but which of them a block of a panel takes depends on its own rows and keys
  /// alone: no tile, task or thread can be seen in the bits.
  void add_attended(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block,
                    const SplitSums<Real>& sums) const {
    const std::size_t features = on_.features();
    const std::size_t value_features = on_.value_features();
    const Real* const attended = scores_.attended(panel, block);
    if (panel.begins_sums()) std::fill_n(panel.state.accumulators, features * panel.pitch, Real{0});
    const auto add = [&](Real factor, const Real* columns, std::size_t i, std::size_t count,
                         const KeySums<Real>& to, std::size_t key) {
      each_columns(rows_.plan.columns, count, [&](const Columns& some) {
        const Real* const from = columns + some.first * panel.rows + i * some.pitch;
        for (std::size_t x = 0; x < some.pitch; ++x) to.at(some, key)[x] += factor * from[x];
      });
    };
    for (std::size_t j = 0; j < block.keys; ++j) {
      const std::size_t key = static_cast<std::size_t>(block.begin) + j;
      const Real* const row = from_row(tile.key, static_cast<std::int64_t>(key) - tile.begin).data;
      for (std::size_t i = 0; i < panel.rows; ++i) {
        const std::size_t at = j * panel.pitch + i;
        if (attended[at] == kExcluded<Real>) continue;
        add(panel.probs[at], panel.grad_columns, i, value_features, sums.values, key);
        if (!on_.problem.is_product()) continue;
        add(panel.gradients[at], panel.query_columns, i, features, sums.keys, key);
        for (std::size_t x = 0; x < features; ++x)
          panel.state.accumulators[x * panel.pitch + i] += panel.gradients[at] * row[x];
      }
    }
  }

  const PackRows<Real>& rows_;
  const AttentionThread<Real>& on_ = rows_.on;
  const ProductKernels<Real>& products_ = rows_.products();
  const Scores<Real>& scores_;
};

}  // namespace heed
