// How rows are cut into panels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

/// Rows side by side in the lanes of a few vectors.
struct PanelRows {
  std::int64_t first;  ///< row
  std::size_t rows;
  std::size_t vectors;
  std::size_t pitch;  ///< lanes of all vectors: values from one line of the panel to the next

  static PanelRows of(std::int64_t first, std::int64_t rows, std::uint32_t lanes) {
    const auto count = static_cast<std::size_t>(rows);
    const std::size_t vectors = (count + lanes - 1) / lanes;
    return {first, count, vectors, vectors * lanes};
  }
};

/// All panels but the last are full. If the last would hold one vector only, which is slow, the
/// last two hold two vectors each. Every panel but the last fills its vectors.
class PanelCut {
 public:
  PanelCut(std::int64_t rows, std::int64_t panel_rows, std::int64_t lanes)
      : rows_(rows), panel_rows_(panel_rows), full_(rows / panel_rows) {
    const std::int64_t rest = rows - full_ * panel_rows;
    panels_ = full_ + (rest > 0 ? 1 : 0);
    moved_ = full_ > 0 && rest > 0 && rest <= lanes ? panel_rows - 2 * lanes : 0;
  }

  std::int64_t panels() const { return panels_; }

  /// The first row of panel p; the number of rows for the panel after the last.
  std::int64_t begin(std::int64_t p) const {
    if (p >= panels_) return rows_;
    return p * panel_rows_ - (p == full_ ? moved_ : 0);
  }

 private:
  std::int64_t rows_, panel_rows_, full_;
  std::int64_t panels_;
  std::int64_t moved_;  ///< rows that the last panel takes from the one before
};

/// How many values of bfloat16 stand for a float: one, and weights are rounded to that, or
/// several that sum up to it; 0: floats are multiplied as they are.
struct Parts {
  std::uint32_t count = 0;
  /// One is all of it, weights are three, and all products are summed.
  bool exact = false;
};

inline Parts pairs_if(bool pairs) { return {pairs ? std::uint32_t{1} : std::uint32_t{0}}; }

template <class Real>
const ProductKernels<Real>& products_of(const KernelTable<Real>& kernels, Parts parts) {
  const PartKernels<Real>& of = kernels.by_parts;
  if (parts.count == 0) return kernels.panels;
  if (parts.count == 1) return parts.exact ? *of.exact_one : *kernels.pairs;
  return *of.two;
}

/// Lines of a panel of `features`, as pack_query lays it out.
template <class Real>
std::int64_t lines_of_panel(const ProductKernels<Real>& products, std::int64_t features) {
  if (products.depth == 1) return features;
  return ceil_div(features, std::int64_t{products.depth}) * products.elements() + 1;
}

/// A packed tile of so many keys, or features in, as pack_values() leaves it.
template <class Real>
ValueView<Real> packed_view(const ProductKernels<Real>& products, const Real* packed,
                            std::int64_t keys) {
  constexpr auto kBlock = static_cast<std::ptrdiff_t>(PanelGeometry::value_block);
  const std::int64_t elements = products.elements();
  return {packed, kBlock * elements, elements,
          ceil_div(keys, std::int64_t{products.depth}) * kBlock * elements};
}

/// While it lives, this thread may multiply.
class UnitInUse {
 public:
  template <class Real>
  explicit UnitInUse(const ProductKernels<Real>& products) : end_(products.end) {
    if (products.begin != nullptr) products.begin();
  }
  ~UnitInUse() {
    if (end_ != nullptr) end_();
  }
  UnitInUse(const UnitInUse&) = delete;
  UnitInUse& operator=(const UnitInUse&) = delete;

 private:
  void (*const end_)();
};

}  // namespace heed
