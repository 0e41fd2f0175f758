// The values of one key head, and probabilities times values.
#pragma once

#include <cmath>
#include <cstring>

#include "engine/dense/scores.hpp"

namespace heed {

/// Calls function(j, x, value) for the values of a block of keys that are infinite or NaN; row(j)
/// is where the values of key j lie.
template <class Row, class Function>
void each_special(std::size_t keys, std::size_t features, Row&& row, Function&& function) {
  for (std::size_t j = 0; j < keys; ++j) {
    const auto* const values = row(j);
    for (std::size_t x = 0; x < features; ++x)
      if (!std::isfinite(values[x])) function(j, x, values[x]);
  }
}

/// Adds a value that was taken out of a product, times the probabilities of its key, to the sums of
/// the rows that attend the key. A probability of 0 does not protect a row, since 0 * NaN is NaN.
template <class Real, class Sum>
void add_special(Real value, const Real* attended, const Real* probs, std::size_t rows, Sum&& sum) {
  for (std::size_t i = 0; i < rows; ++i)
    if (attended[i] != kExcluded<Real>) sum(i) += probs[i] * value;
}

/// Values without the keys before j, which no group of pairs may span.
template <class Real>
ValueView<Real> from_key(const ProductKernels<Real>& products, ValueView<Real> values,
                         std::int64_t j) {
  values.data += j / std::int64_t{products.depth} * values.key_stride;
  return values;
}

/// accumulators += probabilities times values, for the keys of the block that vectors need;
/// `values` begins with the block.
template <class Real>
void accumulate(const ProductKernels<Real>& products, const Panel<Real>& panel,
                const RowState<Real>& state, const ValueView<Real>& values, const KeyBlock& block,
                const KeyRanges& needed, const Real* probs) {
  constexpr auto kRunKeys = static_cast<std::int64_t>(PanelGeometry::run);
  products.accumulate(panel.vectors, values, needed,
                      static_cast<std::size_t>(kRunKeys - block.begin % kRunKeys), probs, state,
                      panel.sum_features);
}

/// Packs rows [begin, end) of a key head's keys or values straight from where they lie; false: they
/// have to be widened first.
template <class Real>
bool pack_in_place(const AttentionThread<Real>& on, const ProductKernels<Real>& products,
                   const StoredTensor& rows, std::int64_t key_head, std::int64_t begin,
                   std::int64_t end, std::int64_t features, Real* to) {
  if (products.pack_bf16_values == nullptr || on.sequence.pages != nullptr ||
      !has_rows_of(ElementType::kBf16, rows.layout))
    return false;
  const std::byte* const first = on.sequence.key_row(rows.data, rows.layout, key_head, begin);
  products.pack_bf16_values(reinterpret_cast<const std::uint16_t*>(first), rows.layout.strides.row,
                            static_cast<std::size_t>(end - begin),
                            static_cast<std::size_t>(features), to);
  return true;
}

template <class Real>
class Values {
 public:
  /// Where values have components, pairs of bfloat16 are multiplied.
  Values(const AttentionThread<Real>& on, std::int64_t key_head, Parts parts = {})
      : on_(on),
        values_(values_of(on.problem, on.args)),
        products_(products_of(on.kernels, parts)),
        key_head_(key_head),
        features_(on.value_features()) {}

  /// The values of keys [begin, end), where they lie, or widened.
  RowsView<Real> rows(std::int64_t begin, std::int64_t end) const {
    return on_.stored_rows(on_.kernels.panels, values_, key_head_, begin, end,
                           on_.problem.value_features, on_.buffer(&Slab::values));
  }

  /// Whether kernels cannot read them where they lie: pairs, and rows that end within a group.
  bool packed_always() const {
    return products_.depth != 1 || features_ % PanelGeometry::row_padding != 0;
  }

  /// The same for the kernels: where they lie, or copied next to each other. (Rows at a stride of a
  /// power of two share cache sets.)
  ValueView<Real> in_place(const RowsView<Real>& rows) const {
    return {rows.data, rows.row_stride, 1, PanelGeometry::value_block};
  }
  ValueView<Real> packed(const RowsView<Real>& rows, std::int64_t keys) const {
    Real* const to = on_.buffer(&Slab::packed);
    products_.pack_values({rows.data, rows.row_stride, 1}, static_cast<std::size_t>(keys),
                          features_, to);
    return packed_view(products_, to, keys);
  }

  /// packed() of keys [begin, end), straight from where they lie; false: rows() must be first.
  bool pack(std::int64_t begin, std::int64_t end, ValueView<Real>& view) const {
    Real* const to = on_.buffer(&Slab::packed);
    view = packed_view(products_, to, end - begin);
    return pack_in_place(on_, products_, values_, key_head_, begin, end, on_.problem.value_features,
                         to);
  }

  /// accumulate() for a block with masked pairs and values that are infinite or NaN. Such values
  /// are taken out, and added by hand to the rows that attend them; see Scores::attended.
  void accumulate_isolated(const Panel<Real>& panel, const RowState<Real>& state,
                           const RowsView<Real>& values, const KeyBlock& block,
                           const KeyRanges& needed, const Real* probs, const Real* attended) const {
    const ValueView<Real> view = packed(values, static_cast<std::int64_t>(block.keys));
    Real* const finite = on_.buffer(&Slab::packed);
    Real* const sums = state.accumulators;
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
    const auto each = [&](auto&& function) {
      each_special(
          block.keys, features_,
          [&](std::size_t j) { return from_row(values, static_cast<std::int64_t>(j)).data; },
          function);
    };
    each([&](std::size_t j, std::size_t x, Real) { clear(j, x); });
    accumulate(products_, panel, state, view, block, needed, probs);
    each([&](std::size_t j, std::size_t x, Real value) {
      const std::size_t at = j * panel.pitch;
      add_special(value, attended + at, probs + at, panel.rows,
                  [&](std::size_t i) -> Real& { return sums[x * panel.pitch + i]; });
    });
  }

  /// to[x] = feature x of key j's value.
  void read(std::int64_t j, Real* to) const {
    on_.sequence.read_key(on_.kernels, values_, key_head_, j, on_.problem.value_features, to);
  }

 private:
  const AttentionThread<Real> on_;
  const StoredTensor values_;
  const ProductKernels<Real>& products_;
  const std::int64_t key_head_;
  const std::size_t features_;
};

}  // namespace heed
