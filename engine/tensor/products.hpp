// What multiplies panels: numbers of the arithmetic, or pairs of bfloat16.
#pragma once

#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

/// Of numbers as so many of bfloat16; 0: as they are.
template <class Real>
const ProductKernels<Real>& products_of(const KernelTable<Real>& kernels, std::uint32_t parts) {
  if (parts == 1) return *kernels.pairs;
  if (parts == 2) return *kernels.two_parts;
  if (parts == 3) return *kernels.three_parts;
  return kernels.panels;
}

/// Lines of a panel of `features`, as pack_query lays it out.
template <class Real>
std::int64_t lines_of_panel(const ProductKernels<Real>& products, std::int64_t features) {
  if (products.depth == 1) return features;
  return ceil_div(features, std::int64_t{products.depth}) * products.elements() + 1;
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
