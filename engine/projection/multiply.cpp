#include "engine/projection/multiply.hpp"

#include <algorithm>

#include "engine/runtime/sizes.hpp"

namespace heed {

template <class Real>
Multiply<Real>::Multiply(const KernelTable<Real>& kernels, const Matmul& matmul, std::byte* slab)
    : kernels_(kernels),
      matmul_(matmul),
      plan_(*matmul.plan),
      cut_(matmul.items, matmul.rows / matmul.items, plan_.panel_rows, plan_.lanes),
      slab_(slab) {}

template <class Real>
void Multiply<Real>::run(std::int64_t part, std::int64_t begin, std::int64_t end) const {
  const std::int64_t first = part * plan_.task_panels;
  const std::int64_t panels = std::min(plan_.task_panels, cut_.panels() - first);
  for (std::int64_t x = begin; x < end; x += plan_.out_block)
    multiply_block(first, panels, x, std::min(plan_.out_block, end - x),
                   matmul_.x_panels == nullptr && x == begin);
}

template <class Real>
typename Multiply<Real>::Panel Multiply<Real>::panel(std::int64_t first_panel, std::int64_t p,
                                                     std::int64_t x) const {
  const ItemCut::Place place = cut_.at(first_panel + p);
  const std::int64_t before = place.before - cut_.at(first_panel).before;  // rows of the task
  Panel panel{};
  static_cast<PanelRows&>(panel) = PanelRows::of(place.first, place.rows, kernels_.panels.lanes);
  panel.packed = buffer(plan_.slab.x) + before * plan_.size.in;
  panel.x = panel.packed;
  if (matmul_.x_panels != nullptr)
    panel.x = static_cast<const Real*>(matmul_.x_panels) +
              place.before * round_up(plan_.size.in, PanelGeometry::row_padding);
  // Sums that one tile completes leave before those of the next panel begin.
  panel.accumulators =
      buffer(plan_.slab.accumulators) + (plan_.size.in <= kTileIn ? 0 : before * plan_.out_block);
  if (matmul_.y_panels != nullptr)
    panel.accumulators = static_cast<Real*>(matmul_.y_panels) +
                         place.before * round_up(plan_.size.out, PanelGeometry::row_padding) +
                         x * static_cast<std::int64_t>(panel.pitch);
  return panel;
}

template <class Real>
void Multiply<Real>::multiply_block(std::int64_t first_panel, std::int64_t panels, std::int64_t x,
                                    std::int64_t outs, bool packs) const {
  const Real* const start = bias(x, outs);
  for (std::int64_t k = 0; k < plan_.size.in; k += kTileIn) {
    const std::int64_t ins = std::min(kTileIn, plan_.size.in - k);
    const ValueView<Real> tile = weights({k, ins, x, outs});
    for (std::int64_t p = 0; p < panels; ++p) {
      const Panel panel = this->panel(first_panel, p, x);
      const auto pitch = static_cast<std::int64_t>(panel.pitch);
      if (packs)
        pack_rows(kernels_, matmul_.x, panel, k, ins, buffer(plan_.slab.wide),
                  panel.packed + k * pitch);
      for (std::int64_t i = 0; k == 0 && start != nullptr && i < outs; ++i)
        std::fill_n(panel.accumulators + i * pitch, pitch, start[i]);
      if (k == 0 && matmul_.adds)
        pack_rows(kernels_, {matmul_.y.data, matmul_.y.layout, matmul_.y.per_batch}, panel, x, outs,
                  buffer(plan_.slab.wide), panel.accumulators);
      kernels_.panels.accumulate(
          panel.vectors, tile, all_keys(static_cast<std::size_t>(ins)), PanelGeometry::run,
          panel.x + k * pitch,
          {nullptr, nullptr, panel.accumulators, k == 0 && start == nullptr && !matmul_.adds},
          static_cast<std::size_t>(outs));
      if (k + ins == plan_.size.in)  // while the sums are in the cache
        matmul_.y_panels != nullptr ? scale(panel, outs) : store(panel, x, outs);
    }
  }
}

template <class Real>
ValueView<Real> Multiply<Real>::weights(const TileOf& tile) const {
  constexpr auto kBlock = static_cast<std::int64_t>(PanelGeometry::value_block);
  const Real* from = buffer(plan_.slab.weights);
  if (matmul_.w.prepared != nullptr) {
    from = static_cast<const Real*>(matmul_.w.prepared->data) +
           tile.k * round_up(plan_.size.out, kBlock) + tile.x * tile.ins;
  } else {
    pack_tile(kernels_, *matmul_.w.matrix, matmul_.w.data, tile, buffer(plan_.slab.wide),
              buffer(plan_.slab.weights));
  }
  return {from, kBlock, 1, tile.ins * kBlock};
}

template <class Real>
const Real* Multiply<Real>::bias(std::int64_t x, std::int64_t outs) const {
  const MatrixArgument& w = matmul_.w;
  if (w.prepared != nullptr)
    return w.prepared->bias == nullptr ? nullptr : static_cast<const Real*>(w.prepared->bias) + x;
  if (w.bias == nullptr) return nullptr;
  kernels_.numbers.read(w.bias_layout.type,
                        static_cast<const std::byte*>(w.bias) + x * w.bias_layout.bytes, 1,
                        static_cast<std::size_t>(outs), buffer(plan_.slab.bias));
  return buffer(plan_.slab.bias);
}

template <class Real>
void Multiply<Real>::store(const Panel& panel, std::int64_t x, std::int64_t outs) const {
  const OutputRows& y = matmul_.y;
  if (y.layout.strides.row == 1 && y.per_batch >= matmul_.rows && y.per_head >= plan_.size.out)
    return store_lines(panel, x, outs);
  alignas(kAlignment) Real ones[kMaxPanel];
  std::fill_n(ones, kMaxPanel, Real{1});
  const auto pitch = static_cast<std::int64_t>(panel.pitch);
  for (std::int64_t at = x; at < x + outs;) {
    const std::int64_t count = std::min(y.per_head - at % y.per_head, x + outs - at);
    std::byte* to[kMaxPanel];
    for (std::size_t i = 0; i < panel.rows; ++i)
      to[i] = y.at(panel.first + static_cast<std::int64_t>(i), at);
    store_columns(kernels_, panel.accumulators + (at - x) * pitch, ones,
                  static_cast<std::size_t>(count), to, panel.rows, panel.vectors, y.layout,
                  buffer(plan_.slab.wide));
    at += count;
  }
}

/// Where rows lie side by side, as lanes do, nothing is transposed.
template <class Real>
void Multiply<Real>::store_lines(const Panel& panel, std::int64_t x, std::int64_t outs) const {
  const Layout& layout = matmul_.y.layout;
  const std::int64_t step = layout.strides.feature * layout.bytes;
  const Real* from = panel.accumulators;
  std::byte* to = matmul_.y.at(panel.first, x);
  for (std::int64_t i = 0; i < outs; ++i, from += panel.pitch, to += step)
    kernels_.numbers.write(layout.type, from, panel.rows, to, 1);
}

template <class Real>
void Multiply<Real>::scale(const Panel& panel, std::int64_t outs) const {
  const auto factor = static_cast<Real>(matmul_.y_scale);
  for (std::int64_t x = 0; x < outs; ++x) {
    Real* const row = panel.accumulators + x * static_cast<std::int64_t>(panel.pitch);
    for (std::size_t i = 0; i < panel.rows; ++i) row[i] *= factor;
    for (std::size_t i = panel.rows; i < panel.pitch; ++i) row[i] = 0;
  }
}

template class Multiply<float>;
template class Multiply<double>;

}  // namespace heed
