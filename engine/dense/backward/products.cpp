#include "engine/dense/backward/products.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/tensor/rows.hpp"

namespace heed {

template <class Real>
ValueView<Real> Products<Real>::packed(const KeyTile<Real>& tile) const {
  constexpr auto kBlock = static_cast<std::ptrdiff_t>(PanelGeometry::value_block);
  const std::int64_t elements = products_.elements();
  return {rows_.buffer(rows_.plan.slab.packed), kBlock * elements, elements,
          ceil_div(tile.end - tile.begin, std::int64_t{products_.depth}) * kBlock * elements};
}

template <class Real>
void Products<Real>::pack(const KeyTile<Real>& tile) const {
  const auto keys = static_cast<std::size_t>(tile.end - tile.begin);
  const Problem& p = rows_.problem();
  RowsView<Real> from = tile.key;
  if (rows_.pairs) {
    Real* const wide = rows_.buffer(rows_.plan.slab.wide);
    for (std::int64_t j = tile.begin; j < tile.end; ++j)
      rows_.sequence.read_key(kernels_, keys_of(p, rows_.args.attention), rows_.key_head(), j,
                              p.features, wide + (j - tile.begin) * p.features);
    from = {wide, p.features};
  }
  products_.pack_values({from.data, from.row_stride, 1}, keys, static_cast<std::size_t>(p.features),
                        rows_.buffer(rows_.plan.slab.packed));
  std::fill_n(known(), keys, Finite::kUnknown);
}

/// Whether the keys of a block are finite. A tile's keys are looked at once, when somebody may not
/// attend one of them.
template <class Real>
bool Products<Real>::finite(const KeyTile<Real>& tile, const KeyBlock& block) const {
  Finite* const known = this->known();
  const std::int64_t keys = tile.end - tile.begin;
  if (known[0] == Finite::kUnknown) {
    const std::int64_t features = rows_.problem().features;
    const ValueView<Real> all = packed(tile);
    const auto blocks = ceil_div(features, std::int64_t{PanelGeometry::value_block});
    const bool every =
        kernels_.numbers.all_finite(all.data, static_cast<std::size_t>(blocks * all.block_stride));
    for (std::int64_t j = 0; j < keys; ++j) {
      const Real* const key = from_row(tile.key, j).data;
      const auto is_finite = [](Real number) { return std::isfinite(number); };
      known[j] = every || std::all_of(key, key + features, is_finite) ? Finite::kYes : Finite::kNo;
    }
  }
  const Finite* const first = known + (block.begin - tile.begin);
  return std::none_of(first, first + block.keys, [](Finite key) { return key == Finite::kNo; });
}

template <class Real>
void Products<Real>::add(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                         const KeyBlock& block, bool excludes, const SplitSums<Real>& sums,
                         PanelRun<Real>& run) const {
  const bool apart = excludes && !rows_.pairs && !(*panel.finite && finite(tile, block));
  const bool fits = run.block.begin == block.begin && run.block.keys == block.keys;
  if (run.count > 0 && (apart || !fits)) {
    add(run, sums);
    run.count = 0;
  }
  if (apart) return add_attended(panel, tile, block, sums);
  add_queries(panel, tile, block);
  run.block = block;
  run.panels[run.count++] = &panel;
}

template <class Real>
void Products<Real>::add(const PanelRun<Real>& run, const SplitSums<Real>& sums) const {
  if (run.count == 0) return;
  using Panel = GradPanel<Real>;
  const heed_attention_backward_args& wanted = rows_.args.given;
  if (wanted.grad_value != nullptr)
    add_columns(run, &Panel::probs, &Panel::grad_columns, rows_.problem().value_features,
                sums.values);
  if (wanted.grad_key != nullptr)
    add_columns(run, &Panel::gradients, &Panel::query_columns, rows_.problem().features, sums.keys);
}

template <class Real>
void Products<Real>::add_queries(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                                 const KeyBlock& block) const {
  constexpr auto kRunKeys = static_cast<std::int64_t>(PanelGeometry::run);
  ValueView<Real> keys = packed(tile);
  keys.data += (block.begin - tile.begin) / std::int64_t{products_.depth} * keys.key_stride;
  const bool fresh = *panel.summed == Summed::kNothing;
  if (fresh) *panel.summed = Summed::kKeys;
  products_.accumulate(panel.vectors, keys, all_keys(block.keys),
                       static_cast<std::size_t>(kRunKeys - block.begin % kRunKeys), panel.gradients,
                       {nullptr, panel.state.row_sum, panel.state.accumulators, fresh},
                       static_cast<std::size_t>(rows_.problem().features));
}

/// sums[key][x] += sum over panels and their rows of left[key][row] * columns[row][x].
template <class Real>
void Products<Real>::add_columns(const PanelRun<Real>& run, Real* GradPanel<Real>::*left,
                                 Real* GradPanel<Real>::*columns, std::int64_t features,
                                 const KeySums<Real>& sums) const {
  if (rows_.pairs) return add_pairs(run, left, columns, features, sums);
  each_columns(kernels_.panels, static_cast<std::size_t>(features), [&](const Columns& some) {
    RowsAndPanel<Real> parts[PanelRun<Real>::kMost];
    for (std::int64_t p = 0; p < run.count; ++p) {
      const GradPanel<Real>& panel = *run.panels[p];
      parts[p] = {{panel.*left, static_cast<std::ptrdiff_t>(panel.pitch)},
                  panel.*columns + some.first * panel.rows,
                  panel.rows};
    }
    kernels_.panels.add_scores(some.vectors, parts, static_cast<std::size_t>(run.count),
                               run.block.keys,
                               sums.at(some, static_cast<std::size_t>(run.block.begin)));
  });
}

/// The same of pairs of rows: `left` is rounded to bfloat16, and is what values are to panels. Rows
/// come in whole groups of `depth` and keys in groups, 0 before the first and past the last: those
/// add nothing to other sums.
template <class Real>
void Products<Real>::add_pairs(const PanelRun<Real>& run, Real* GradPanel<Real>::*left,
                               Real* GradPanel<Real>::*columns, std::int64_t features,
                               const KeySums<Real>& sums) const {
  Real* const rounded = rows_.buffer(rows_.plan.slab.rounded);
  auto* const numbers = reinterpret_cast<std::uint16_t*>(rounded);
  const std::int64_t depth = products_.depth;
  const GradPanel<Real>& last = *run.panels[run.count - 1];
  const std::int64_t begin = round_down(run.panels[0]->place.row_in_group(), depth);
  const std::int64_t end =
      round_up(last.place.row_in_group() + static_cast<std::int64_t>(last.rows), depth);
  const auto width = static_cast<std::size_t>(end - begin);
  const auto keys = static_cast<std::size_t>(
      round_up(static_cast<std::int64_t>(run.block.keys), PanelGeometry::row_padding));
  std::int64_t done = run.panels[0]->place.row_in_group();
  for (std::size_t j = 0; j < run.block.keys; ++j)
    std::fill_n(numbers + j * width, done - begin, std::uint16_t{0});
  for (std::int64_t p = 0; p < run.count; ++p) {
    const GradPanel<Real>& panel = *run.panels[p];
    const std::int64_t next = p + 1 < run.count ? run.panels[p + 1]->place.row_in_group() : end;
    products_.round_rows(panel.*left, panel.pitch, run.block.keys, panel.rows,
                         static_cast<std::size_t>(next - done), numbers + (done - begin), width);
    done = next;
  }
  std::fill(numbers + run.block.keys * width, numbers + keys * width, std::uint16_t{0});
  const auto stride = static_cast<std::ptrdiff_t>(width / 2);
  const ValueView<Real> view = {rounded, products_.elements(), stride,
                                static_cast<std::ptrdiff_t>(PanelGeometry::value_block) * stride};
  const std::size_t lines =
      pair_lines(static_cast<std::size_t>(last.place.group_rows), products_.depth);
  each_columns(kernels_.panels, static_cast<std::size_t>(features), [&](const Columns& some) {
    products_.multiply_panel(
        some.vectors, view, width,
        last.*columns + some.first * lines + static_cast<std::size_t>(begin / 2) * some.pitch,
        sums.at(some, static_cast<std::size_t>(run.block.begin)), keys, false);
  });
}

/// The same pair by pair, leaving out those that do not attend: 0 * NaN would be NaN. Sums go on
/// from where they were, key by key and for each key row by row. That rounds otherwise than
/// add_columns(), but which of them a block of a panel takes depends on its own rows and keys
/// alone: no tile, task or thread can be seen in the bits.
template <class Real>
void Products<Real>::add_attended(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                                  const KeyBlock& block, const SplitSums<Real>& sums) const {
  const auto features = static_cast<std::size_t>(rows_.problem().features);
  const auto value_features = static_cast<std::size_t>(rows_.problem().value_features);
  const Real* const attended = scores_.attended(panel, block);
  if (*panel.summed == Summed::kNothing) {
    std::fill_n(panel.state.accumulators, features * panel.pitch, Real{0});
    *panel.summed = Summed::kKeys;
  }
  const auto add = [&](Real factor, const Real* columns, std::size_t i, std::size_t count,
                       const KeySums<Real>& to, std::size_t key) {
    each_columns(kernels_.panels, count, [&](const Columns& some) {
      const Real* const from = columns + some.first * panel.rows + i * some.pitch;
      for (std::size_t x = 0; x < some.pitch; ++x) to.at(some, key)[x] += factor * from[x];
    });
  };
  for (std::size_t j = 0; j < block.keys; ++j) {
    const std::size_t key = static_cast<std::size_t>(block.begin) + j;
    const Real* const row =
        tile.key.data + (static_cast<std::int64_t>(key) - tile.begin) * tile.key.row_stride;
    for (std::size_t i = 0; i < panel.rows; ++i) {
      const std::size_t at = j * panel.pitch + i;
      if (attended[at] == -std::numeric_limits<Real>::infinity()) continue;
      add(panel.probs[at], panel.grad_columns, i, value_features, sums.values, key);
      add(panel.gradients[at], panel.query_columns, i, features, sums.keys, key);
      for (std::size_t x = 0; x < features; ++x)
        panel.state.accumulators[x * panel.pitch + i] += panel.gradients[at] * row[x];
    }
  }
}

template class Products<float>;
template class Products<double>;

}  // namespace heed
