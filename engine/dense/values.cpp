#include "engine/dense/values.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/tensor/rows.hpp"

namespace heed {

template <class Real>
Values<Real>::Values(const heed_attention_plan& plan, const heed_attention_args& args,
                     const Sequence& sequence, std::int64_t key_head, std::byte* slab, Parts parts)
    : plan_(plan),
      values_(values_of(plan.problem, args)),
      sequence_(sequence),
      kernels_(kernels_of<Real>(*plan.context->kernels)),
      products_(products_of(kernels_, parts)),
      key_head_(key_head),
      features_(static_cast<std::size_t>(plan.problem.value_features)),
      slab_(slab) {}

template <class Real>
RowsView<Real> Values<Real>::rows(std::int64_t begin, std::int64_t end) const {
  return widened(
      values_.layout, sequence_.pages != nullptr, begin, end, plan_.problem.value_features,
      reinterpret_cast<Real*>(slab_ + plan_.slab.values),
      [&](std::int64_t j) { return sequence_.key_row(values_.data, values_.layout, key_head_, j); },
      [&](std::int64_t j, Real* to) { read(j, to); });
}

template <class Real>
ValueView<Real> Values<Real>::in_place(const RowsView<Real>& rows) const {
  return {rows.data, rows.row_stride, 1, PanelGeometry::value_block};
}

template <class Real>
ValueView<Real> Values<Real>::packed(const RowsView<Real>& rows, std::int64_t keys) const {
  auto* const to = reinterpret_cast<Real*>(slab_ + plan_.slab.packed);
  products_.pack_values({rows.data, rows.row_stride, 1}, static_cast<std::size_t>(keys), features_,
                        to);
  constexpr auto kBlock = static_cast<std::ptrdiff_t>(PanelGeometry::value_block);
  const std::int64_t elements = products_.elements();
  return {to, kBlock * elements, elements,
          ceil_div(keys, std::int64_t{products_.depth}) * kBlock * elements};
}

template <class Real>
void Values<Real>::accumulate(const Panel<Real>& panel, const RowState<Real>& state,
                              const ValueView<Real>& values, const KeyBlock& block,
                              const KeyRanges& needed, const Real* probs) const {
  constexpr auto kRunKeys = static_cast<std::int64_t>(PanelGeometry::run);
  products_.accumulate(panel.vectors, values, needed,
                       static_cast<std::size_t>(kRunKeys - block.begin % kRunKeys), probs, state,
                       features_);
}

template <class Real>
void Values<Real>::accumulate_isolated(const Panel<Real>& panel, const RowState<Real>& state,
                                       const RowsView<Real>& values, const KeyBlock& block,
                                       const KeyRanges& needed, const Real* probs,
                                       const Real* attended) const {
  const ValueView<Real> view = packed(values, static_cast<std::int64_t>(block.keys));
  auto* const finite = reinterpret_cast<Real*>(slab_ + plan_.slab.packed);
  const auto clear = [&](std::size_t j, std::size_t x) {
    constexpr std::size_t kBlock = PanelGeometry::value_block;
    const std::size_t depth = products_.depth;
    const std::size_t bytes = depth == 1 ? sizeof(Real) : sizeof(Real) / 2;  // of a number
    Real* const group = finite + static_cast<std::ptrdiff_t>(x / kBlock) * view.block_stride +
                        static_cast<std::ptrdiff_t>(x % kBlock) * view.feature_stride +
                        static_cast<std::ptrdiff_t>(j / depth) * view.key_stride;
    for (std::size_t part = 0; part < products_.parts; ++part)
      std::memset(reinterpret_cast<std::byte*>(group) + (part * depth + j % depth) * bytes, 0,
                  bytes);
  };
  const auto number_at = [&](std::size_t j, std::size_t x) {
    return from_row(values, static_cast<std::int64_t>(j)).data[x];
  };
  for (std::size_t j = 0; j < block.keys; ++j)
    for (std::size_t x = 0; x < features_; ++x)
      if (!std::isfinite(number_at(j, x))) clear(j, x);
  accumulate(panel, state, view, block, needed, probs);
  for (std::size_t j = 0; j < block.keys; ++j) {
    for (std::size_t x = 0; x < features_; ++x) {
      const Real v = number_at(j, x);
      if (std::isfinite(v)) continue;
      for (std::size_t i = 0; i < panel.rows; ++i)
        if (attended[j * panel.pitch + i] != -std::numeric_limits<Real>::infinity())
          state.accumulators[x * panel.pitch + i] += probs[j * panel.pitch + i] * v;
    }
  }
}

template <class Real>
void Values<Real>::read(std::int64_t j, Real* to) const {
  sequence_.read_key(kernels_, values_, key_head_, j, plan_.problem.value_features, to);
}

template class Values<float>;
template class Values<double>;

}  // namespace heed
