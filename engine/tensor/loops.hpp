// Loops over values that lie one after the other, too small for a kernel. They take a fixed number
// at a time, because compilers turn that into vectors even where they look for no others (-O2). And
// how gradients leave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/tensor/layout.hpp"

namespace heed {

inline constexpr std::size_t kVectorised = 16;

/// to[i] = value_of(i), which may read to[i].
template <class Real, class ValueOf>
void set_values(std::size_t count, Real* to, const ValueOf& value_of) {
  std::size_t i = 0;
  for (; i + kVectorised <= count; i += kVectorised) {
    Real values[kVectorised];
    for (std::size_t c = 0; c < kVectorised; ++c) values[c] = value_of(i + c);
    for (std::size_t c = 0; c < kVectorised; ++c) to[i + c] = values[c];
  }
  for (; i < count; ++i) to[i] = value_of(i);
}

/// to[i] = from[i] * factor; they may be the same.
template <class Real>
void multiply_values(const Real* from, Real factor, std::size_t count, Real* to) {
  set_values(count, to, [=](std::size_t i) { return from[i] * factor; });
}

/// to[i] = number.
template <class Real>
void fill_values(Real number, std::size_t count, Real* to) {
  set_values(count, to, [=](std::size_t) { return number; });
}

/// gradients[i] *= 1 - tanh[i]^2, but a gradient of 0 stays 0.
template <class Real>
void multiply_by_cap_slope(const Real* tanh, std::size_t count, Real* gradients) {
  for (std::size_t i = 0; i < count; ++i)
    if (gradients[i] != 0) gradients[i] *= (1 - tanh[i]) * (1 + tanh[i]);
}

/// Writes a row of a gradient, `values`, or adds them to the values there, which pass through
/// `buffer` unless it would round them.
template <class Real>
void write_gradient(const KernelTable<Real>& kernels, const Layout& layout, bool accumulate,
                    Real* values, std::int64_t count, Real* buffer, std::byte* to) {
  const auto features = static_cast<std::size_t>(count);
  if (accumulate) {
    if (std::is_same_v<Real, float> && layout.type == ElementType::kF64) {
      for (std::int64_t i = 0; i < count; ++i) {
        std::byte* const at = to + i * layout.strides.feature * layout.bytes;
        double sum = 0;
        std::memcpy(&sum, at, sizeof sum);
        sum += double{values[i]};
        std::memcpy(at, &sum, sizeof sum);
      }
      return;
    }
    kernels.numbers.read(layout.type, to, layout.strides.feature, features, buffer);
    kernels.numbers.add_onto(buffer, features, values);
  }
  kernels.numbers.write(layout.type, values, features, to, layout.strides.feature);
}

}  // namespace heed
