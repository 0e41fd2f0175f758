// What multiplies panels: numbers of the arithmetic, or pairs of bfloat16.
#pragma once

#include "engine/kernels/table.hpp"

namespace heed {

template <class Real>
const ProductKernels<Real>& products_of(const KernelTable<Real>& kernels, bool pairs) {
  if (pairs) return *kernels.pairs;
  return kernels.panels;
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
