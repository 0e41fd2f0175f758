#include "engine/kernels/numbers.hpp"

#include "engine/kernels/convert.hpp"
#include "engine/kernels/instance.hpp"

namespace heed {
namespace {

template <class V>
constexpr NumberKernels<RealOf<V>> number_kernels() {
  NumberKernels<RealOf<V>> numbers{};
#define HEED_NUMBER_KERNEL(result, name, parameters) numbers.name = heed::name<V>;
#include "engine/kernels/list.hpp"
  return numbers;
}

}  // namespace

const NumberKernels<Real> HEED_FAMILY_TABLE(Numbers) = number_kernels<Vector>();

}  // namespace heed
