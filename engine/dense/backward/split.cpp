#include "engine/dense/backward/split.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/dense/backward/bias.hpp"
#include "engine/dense/totals.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

template <class Real>
Split<Real>::Split(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                   const Sequence& sequence, std::int64_t pack, std::byte* slab, RowTerms* terms,
                   bool pairs)
    : rows_{plan,     args,
            sequence, {pack * plan.attention.pack_heads, plan.attention.pack_heads, nullptr},
            slab,     terms,
            pairs},
      problem_(plan.problem.attention),
      kernels_(rows_.kernels()),
      gradients_(rows_),
      products_(rows_, gradients_.scores()),
      reader_(rows_, gradients_.scores()),
      cut_(plan.attention.pack_heads * sequence.query_length, plan.attention.panel_rows,
           kernels_.panels.lanes),
      panels_(plan.split_rows(sequence) / plan.attention.panel_rows),
      writes_bias_(args.given.grad_bias != nullptr && bias_is_own(plan)) {}

template <class Real>
void Split<Real>::add(std::int64_t split, const SplitSums<Real>& sums) const {
  const UnitInUse unit(rows_.products());
  const std::int64_t end = end_of_split(split * panels_);
  for (std::int64_t p = split * panels_, next = 0; p < end; p = next) {
    next = end_of_block(p);
    add_block(p, next, sums);
  }
}

template <class Real>
std::int64_t Split<Real>::end_of_split(std::int64_t panel) const {
  return std::min(round_down(panel, panels_) + panels_, cut_.panels());
}

template <class Real>
std::int64_t Split<Real>::end_of_block(std::int64_t first) const {
  return std::min(first + rows_.plan.block_panels, end_of_split(first));
}

template <class Real>
void Split<Real>::add_block(std::int64_t first, std::int64_t end,
                            const SplitSums<Real>& sums) const {
  std::int64_t key_begin = rows_.sequence.key_length;
  std::int64_t key_end = 0;
  for (std::int64_t p = first; p < end; ++p) {
    const GradPanel<Real> panel = this->panel(p, first);
    reader_.read_whole(panel);
    key_begin = std::min(key_begin, panel.key_begin);
    key_end = std::max(key_end, panel.key_end);
  }
  const std::int64_t step = rows_.plan.attention.tile_kv;
  for (std::int64_t k = key_begin, next = 0; k < key_end; k = next) {
    next = std::min(round_down(k, step) + step, key_end);
    const KeyTile<Real> tile = reader_.tile(k, next);
    products_.pack(tile);
    const std::int64_t run = rows_.plan.run_panels;
    for (std::int64_t p = first; p < end; p += run)
      attend(first, p, std::min(p + run, end), tile, sums);
  }
  for (std::int64_t p = first; p < end; ++p) finish(panel(p, first));
}

template <class Real>
GradPanel<Real> Split<Real>::panel(std::int64_t p, std::int64_t first) const {
  const std::int64_t begin = cut_.begin(p);
  const std::int64_t of_block = cut_.begin(first);
  const std::int64_t run = rows_.plan.run_panels;
  const std::int64_t group = first + round_down(p - first, run);
  const std::int64_t of_group = cut_.begin(group);
  const std::int64_t group_end = cut_.begin(std::min(group + run, end_of_block(first)));
  return reader_.panel(begin, cut_.begin(p + 1) - begin,
                       {p - first, begin - of_block, of_group - of_block, group_end - of_group});
}

/// Panels [begin, end) of the block from `first` on against a tile, all of them at a block of keys
/// before the next.
template <class Real>
void Split<Real>::attend(std::int64_t first, std::int64_t begin, std::int64_t end,
                         const KeyTile<Real>& tile, const SplitSums<Real>& sums) const {
  GradPanel<Real> panels[PanelRun<Real>::kMost];
  std::int64_t key_begin = tile.end;
  std::int64_t key_end = tile.begin;
  for (std::int64_t p = begin; p < end; ++p) {
    const GradPanel<Real>& panel = panels[p - begin] = this->panel(p, first);
    key_begin = std::min(key_begin, panel.key_begin);
    key_end = std::max(key_end, panel.key_end);
  }
  key_begin = std::max(key_begin, tile.begin);
  key_end = std::min(key_end, tile.end);
  const std::int64_t step = rows_.products().key_block;
  for (std::int64_t k = key_begin, next = 0; k < key_end; k = next) {
    next = std::min(round_down(k, step) + step, key_end);
    PanelRun<Real> run;
    for (std::int64_t p = 0; p < end - begin; ++p) attend(panels[p], k, next, tile, sums, run);
    products_.add(run, sums);
  }
}

template <class Real>
void Split<Real>::attend(const GradPanel<Real>& panel, std::int64_t begin, std::int64_t end,
                         const KeyTile<Real>& tile, const SplitSums<Real>& sums,
                         PanelRun<Real>& run) const {
  begin = std::max(begin, panel.key_begin);
  end = std::min(end, panel.key_end);
  if (begin >= end) return;
  const KeyBlock block = {begin, static_cast<std::size_t>(end - begin)};
  if (begin % kFoldKeys == 0 && *panel.summed != Summed::kNothing)
    Totals<Real>(panel, static_cast<std::size_t>(problem_.features)).take();
  const Allowed allowed = gradients_.scores().allowed(panel, block);
  if (allowed == Allowed::kNone) return;
  gradients_.compute_biased(panel, tile, block, allowed);
  if (writes_bias_) write_bias(panel, block);
  gradients_.go_on(panel, tile, block);
  products_.add(panel, tile, block,
                allowed != Allowed::kAll || rows_.args.attention.bias != nullptr, sums, run);
}

/// The gradients of scores with their biases are those of the biases.
template <class Real>
void Split<Real>::write_bias(const GradPanel<Real>& panel, const KeyBlock& block) const {
  std::byte* to[kMaxPanel];
  panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
    to[i] = bias_at(rows_.plan, rows_.args, rows_.sequence.batch, head, row, block.begin);
  });
  write_bias_columns(rows_.plan, panel.gradients, panel.vectors, panel.rows,
                     static_cast<std::int64_t>(block.keys), rows_.buffer(rows_.plan.slab.bias_rows),
                     [&](std::size_t i) { return to[i]; });
}

/// Writes the gradients of the panel's queries.
template <class Real>
void Split<Real>::finish(const GradPanel<Real>& panel) const {
  const auto features = static_cast<std::size_t>(problem_.features);
  const BackwardProblem& p = rows_.plan.problem;
  Real* const sums = panel.state.accumulators;
  const std::size_t count = features * panel.pitch;
  if (*panel.summed == Summed::kNothing) std::fill_n(sums, count, Real{0});
  Totals<Real>(panel, features).give_back();

  alignas(kAlignment) Real ones[kMaxPanel];
  std::fill_n(ones, kMaxPanel, Real{1});
  Real* const rows = rows_.buffer(rows_.plan.slab.rows);
  Real* const spare = rows + panel.rows * features;
  const auto turn = [&] {
    Real* to[kMaxPanel];
    for (std::size_t i = 0; i < panel.rows; ++i) to[i] = rows + i * features;
    kernels_.panels.finish(panel.vectors, sums, ones, features, to, panel.rows, 1, false);
  };
  if (rows_.args.given.grad_scale != nullptr) {
    turn();
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      const Layout& layout = problem_.query;
      const Real* const query =
          readable(kernels_, layout, rows_.row_of(rows_.args.attention.query, layout, row, head),
                   features, spare);
      const Real* const gradient = rows + i * features;
      double product = 0;
      for (std::size_t x = 0; x < features; ++x)
        if (gradient[x] != 0)  // a row that attends nothing may hold NaN
          product += static_cast<double>(gradient[x]) * static_cast<double>(query[x]);
      rows_.terms(row, head).scale = product;
    });
  }
  void* const grad_query = rows_.args.given.grad_query;
  if (grad_query == nullptr) return;
  const auto factor = static_cast<Real>(problem_.scale / problem_.temperature);
  for (std::size_t at = 0; at < count; ++at) sums[at] *= factor;
  std::byte* to[kMaxPanel];
  panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
    to[i] = rows_.row_of(grad_query, p.grad_query, row, head);
  });
  if (!p.accumulate)
    return store_columns(kernels_, sums, ones, features, to, panel.rows, panel.vectors,
                         p.grad_query, rows);
  turn();
  for (std::size_t i = 0; i < panel.rows; ++i)
    write_gradient(kernels_, p.grad_query, true, rows + i * features, problem_.features, spare,
                   to[i]);
}

template class Split<float>;
template class Split<double>;

}  // namespace heed
