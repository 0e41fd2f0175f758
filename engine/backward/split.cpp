#include "engine/backward/split.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/dense/totals.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
template <class Real>
Split<Real>::Split(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                   const Sequence& sequence, std::int64_t pack, std::byte* slab, RowTerms* terms)
    : rows_{plan,     args,
            sequence, {pack * plan.attention.pack_heads, plan.attention.pack_heads, nullptr},
            slab,     terms},
      problem_(plan.problem.attention),
      kernels_(rows_.kernels()),
      gradients_(rows_),
      products_(rows_, gradients_.scores()),
      values_(plan.attention, args.attention, sequence, rows_.key_head(), slab),
      cut_(plan.attention.pack_heads * sequence.query_length, plan.attention.panel_rows,
           kernels_.panels.lanes),
      panels_(plan.split_rows(sequence) / plan.attention.panel_rows) {}

template <class Real>
void Split<Real>::add(std::int64_t split, const SplitSums<Real>& sums) const {
  const std::int64_t end = std::min((split + 1) * panels_, cut_.panels());
  const std::int64_t step = rows_.plan.block_panels;
  for (std::int64_t p = split * panels_; p < end; p += step)
    add_block(p, std::min(p + step, end), sums);
}

template <class Real>
void Split<Real>::add_block(std::int64_t first, std::int64_t end,
                            const SplitSums<Real>& sums) const {
  std::int64_t key_begin = rows_.sequence.key_length;
  std::int64_t key_end = 0;
  for (std::int64_t p = first; p < end; ++p) {
    const GradPanel<Real> panel = this->panel(p, first);
    begin(panel);
    key_begin = std::min(key_begin, panel.key_begin);
    key_end = std::max(key_end, panel.key_end);
  }
  const std::int64_t step = rows_.plan.attention.tile_kv;
  for (std::int64_t k = key_begin, next = 0; k < key_end; k = next) {
    next = std::min(round_down(k, step) + step, key_end);
    const KeyTile<Real> tile = this->tile(k, next);
    for (std::int64_t p = first; p < end; ++p) attend(panel(p, first), tile, sums);
  }
  for (std::int64_t p = first; p < end; ++p) finish(panel(p, first));
}

template <class Real>
GradPanel<Real> Split<Real>::panel(std::int64_t p, std::int64_t first) const {
  const BackwardSlab& slab = rows_.plan.slab;
  const std::int64_t begin = cut_.begin(p);
  const std::int64_t before = begin - cut_.begin(first);
  GradPanel<Real> panel{};
  static_cast<Panel<Real>&>(panel) = make_panel<Real>(
      rows_.pack, rows_.sequence, begin, cut_.begin(p + 1) - begin, kernels_.panels.lanes);
  const std::int64_t accumulated = accumulator_rows(problem_.features, problem_.key_length).value();
  panel.query = buffer(slab.query) + before * problem_.features;
  panel.state = {nullptr, buffer(slab.row_sum), buffer(slab.grad_query) + before * accumulated,
                 false};
  panel.summed = reinterpret_cast<Summed*>(rows_.slab() + slab.summed) + (p - first);
  panel.grad_out = buffer(slab.grad_out) + before * problem_.value_features;
  const auto columns = [&](std::int64_t features) {
    return before * round_up(features, static_cast<std::int64_t>(kernels_.panels.lanes));
  };
  panel.query_columns = buffer(slab.query_columns) + columns(problem_.features);
  panel.grad_columns = buffer(slab.grad_columns) + columns(problem_.value_features);
  panel.lse = buffer(slab.lse) + before;
  panel.delta = buffer(slab.delta) + before;
  return panel;
}

template <class Real>
KeyTile<Real> Split<Real>::tile(std::int64_t begin, std::int64_t end) const {
  KeyTile<Real> tile = {begin,
                        end,
                        gradients_.scores().keys(rows_.key_head(), begin, end),
                        values_.rows(begin, end),
                        {}};
  Real* const packed = buffer(rows_.plan.slab.packed);
  kernels_.panels.pack_values(tile.key, static_cast<std::size_t>(end - begin),
                              static_cast<std::size_t>(problem_.features), packed);
  constexpr auto kBlock = static_cast<std::ptrdiff_t>(PanelGeometry::value_block);
  tile.packed = {packed, kBlock, 1, (end - begin) * kBlock};
  return tile;
}

/// Reads the panel's rows.
template <class Real>
void Split<Real>::begin(const GradPanel<Real>& panel) const {
  const auto value_features = static_cast<std::size_t>(problem_.value_features);
  const auto features = static_cast<std::size_t>(problem_.features);
  gradients_.scores().pack_query(panel);
  *panel.summed = Summed::kNothing;
  std::fill_n(panel.state.row_sum, panel.pitch, Real{0});

  Real* const rows = buffer(rows_.plan.slab.rows);
  Real* const room = rows + panel.rows * std::max(features, value_features);
  std::fill_n(panel.lse, panel.pitch, Real{0});
  std::fill_n(panel.delta, panel.pitch, Real{0});
  const Layout& layout = rows_.plan.problem.grad_out;
  const Real* starts[kMaxPanel];
  panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
    Real* const to = rows + i * value_features;
    starts[i] = to;
    kernels_.numbers.read(layout.type, rows_.row_of(rows_.args.given.grad_out, layout, row, head),
                          layout.strides.feature, value_features, to);
    begin_row(panel, i, to, room);
  });
  kernels_.panels.pack_query(panel.vectors, starts, panel.rows, 1, value_features, Real{1},
                             panel.grad_out);
  lay_in_columns(rows, panel.rows, value_features, panel.grad_columns);
  panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
    kernels_.numbers.read(problem_.query.type,
                          rows_.row_of(rows_.args.attention.query, problem_.query, row, head),
                          problem_.query.strides.feature, features, rows + i * features);
  });
  lay_in_columns(rows, panel.rows, features, panel.query_columns);
}

/// What softmax knows of row i.
template <class Real>
void Split<Real>::begin_row(const GradPanel<Real>& panel, std::size_t i, const Real* grad_out,
                            Real* room) const {
  const std::int64_t r = panel.first + static_cast<std::int64_t>(i);
  const std::int64_t row = rows_.pack.query_row(r);
  const std::int64_t head = rows_.pack.head_of(r);
  const auto number = [&](const void* data, const Layout& layout) {
    double value = 0;
    rows_.plan.context->kernels->f64.numbers.read(
        layout.type, rows_.row_of(data, layout, row, head), 1, 1, &value);
    return value;
  };
  const auto features = static_cast<std::size_t>(problem_.value_features);
  kernels_.numbers.read(problem_.out.type,
                        rows_.row_of(rows_.args.attention.out, problem_.out, row, head),
                        problem_.out.strides.feature, features, room);
  double delta = 0;
  for (std::size_t x = 0; x < features; ++x)
    delta += static_cast<double>(grad_out[x]) * static_cast<double>(room[x]);
  if (rows_.args.given.grad_lse != nullptr)
    delta -= number(rows_.args.given.grad_lse, rows_.plan.problem.grad_lse);
  double lse = number(rows_.args.attention.lse, problem_.lse);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool empty = lse == -kInfinity;
  if (lse == kInfinity) lse = std::numeric_limits<double>::quiet_NaN();
  if (empty) delta = 0;
  panel.lse[i] = static_cast<Real>(empty ? kInfinity : lse * kLog2E);  // no probability but 0
  panel.delta[i] = static_cast<Real>(delta);
  RowTerms& terms = rows_.terms(row, head);
  terms = {};
  const auto* const sinks = static_cast<const Real*>(rows_.args.attention.sinks);
  if (sinks != nullptr && !empty)
    terms.sink = -std::exp(static_cast<double>(sinks[head]) - lse) * delta;
}

/// [columns][row][pitch]
template <class Real>
void Split<Real>::lay_in_columns(const Real* rows, std::size_t count, std::size_t features,
                                 Real* to) const {
  each_columns(kernels_.panels, features, [&](const Columns& columns) {
    Real* row_to = to + columns.first * count;
    const std::size_t used = std::min(columns.pitch, features - columns.first);
    for (std::size_t r = 0; r < count; ++r, row_to += columns.pitch) {
      std::copy_n(rows + r * features + columns.first, used, row_to);
      std::fill(row_to + used, row_to + columns.pitch, Real{0});
    }
  });
}

template <class Real>
void Split<Real>::attend(const GradPanel<Real>& panel, const KeyTile<Real>& tile,
                         const SplitSums<Real>& sums) const {
  const std::int64_t step = kernels_.panels.key_block;
  const std::int64_t end = std::min(tile.end, panel.key_end);
  for (std::int64_t k = std::max(tile.begin, panel.key_begin), next = 0; k < end; k = next) {
    next = std::min(round_down(k, step) + step, end);
    const KeyBlock block = {k, static_cast<std::size_t>(next - k)};
    if (k % kFoldKeys == 0 && *panel.summed != Summed::kNothing)
      Totals<Real>(panel, static_cast<std::size_t>(problem_.features)).take();
    const Allowed allowed = gradients_.scores().allowed(panel, block);
    if (allowed == Allowed::kNone) continue;
    gradients_.compute(panel, tile, block, allowed);
    products_.add(panel, tile, block,
                  allowed != Allowed::kAll || rows_.args.attention.bias != nullptr, sums);
  }
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
  const auto factor = static_cast<Real>(problem_.scale / problem_.temperature);
  for (std::size_t at = 0; at < count; ++at) sums[at] *= factor;

  alignas(kAlignment) Real ones[kMaxPanel];
  std::fill_n(ones, kMaxPanel, Real{1});
  Real* const rows = buffer(rows_.plan.slab.rows);
  Real* const room = rows + panel.rows * features;
  Real* to[kMaxPanel];
  for (std::size_t i = 0; i < panel.rows; ++i) to[i] = rows + i * features;
  kernels_.panels.finish(panel.vectors, sums, ones, features, to, panel.rows, 1);
  panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
    if (rows_.args.given.grad_scale != nullptr) {
      const Layout& layout = problem_.query;
      kernels_.numbers.read(layout.type,
                            rows_.row_of(rows_.args.attention.query, layout, row, head),
                            layout.strides.feature, features, room);
      double product = 0;
      for (std::size_t x = 0; x < features; ++x)
        if (to[i][x] != 0)  // a row that attends nothing may hold NaN
          product += static_cast<double>(to[i][x]) * static_cast<double>(room[x]);
      rows_.terms(row, head).scale = product / problem_.scale;
    }
    if (rows_.args.given.grad_query != nullptr)
      write_gradient(kernels_, p.grad_query, p.accumulate, to[i], problem_.features, room,
                     rows_.row_of(rows_.args.given.grad_query, p.grad_query, row, head));
  });
}

template class Split<float>;
template class Split<double>;

}  // namespace heed
