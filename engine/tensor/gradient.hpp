// How gradients leave.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/tensor/layout.hpp"
#include "engine/tensor/numbers.hpp"

namespace heed {

/// Writes a row of a gradient, `values`, or adds them to what is there, which passes through
/// `room`.
template <class Real>
void write_gradient(const KernelTable<Real>& kernels, const Layout& layout, bool accumulate,
                    Real* values, std::int64_t count, Real* room, std::byte* to) {
  const auto features = static_cast<std::size_t>(count);
  if (accumulate) {
    kernels.numbers.read(layout.type, to, layout.strides.feature, features, room);
    add_numbers(room, features, values);
  }
  kernels.numbers.write(layout.type, values, features, to, layout.strides.feature);
}

}  // namespace heed
