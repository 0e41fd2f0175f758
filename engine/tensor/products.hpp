// What multiplies panels: numbers of the arithmetic, or bfloat16.
#pragma once

#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

/// How many numbers of bfloat16 stand for a number: one, and weights are rounded to that, or
/// several that sum up to it; 0: numbers are multiplied as they are.
struct Parts {
  std::uint32_t count = 0;
  /// They are all of a number, all of their products are summed, and weights are three parts.
  bool exact = false;
};

inline Parts pairs_if(bool pairs) { return {pairs ? std::uint32_t{1} : std::uint32_t{0}}; }

template <class Real>
const ProductKernels<Real>& products_of(const KernelTable<Real>& kernels, Parts parts) {
  const PartKernels<Real>& of = kernels.by_parts;
  if (parts.count == 0) return kernels.panels;
  if (parts.count == 1) return parts.exact ? *of.exact_one : *kernels.pairs;
  if (parts.count == 2) return parts.exact ? *of.exact_two : *of.two;
  return *of.three;
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
