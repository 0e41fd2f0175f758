#include "tests/problem/extent.hpp"

#include <algorithm>
#include <vector>

#include "tests/oracle/inputs.hpp"

namespace heed_test {
namespace {

/// Where it matters that a stride is so large, it is too large.
constexpr Wide128 kHuge = Wide128{1} << 64;

bool all_zero(const std::array<Wide128, 4>& strides) {
  return std::all_of(strides.begin(), strides.end(), [](Wide128 s) { return s == 0; });
}

}  // namespace

Extent::Extent(const Axes& shape, const heed_layout& layout, std::uint32_t default_dtype,
               bool packed)
    : shape_(shape),
      strides_{layout.stride_batch, layout.stride_head, layout.stride_row, layout.stride_feature},
      dtype_(dtype_of(layout.dtype, default_dtype)) {
  if (all_zero(strides_) && layout.reserved == HEED_STRIDES_DEFAULT)
    lay_side_by_side(packed ? std::array<std::size_t, 4>{0, 2, 1, 3}
                            : std::array<std::size_t, 4>{0, 1, 2, 3});
}

void Extent::lay_side_by_side(const std::array<std::size_t, 4>& order) {
  Wide128 step = 1;
  for (std::size_t i = 4; i-- > 0;) {
    strides_[order[i]] = step;
    step = std::min(step * std::max<std::int64_t>(shape_[order[i]], 1), kHuge);  // below 2^127
  }
}

bool Extent::possible() const {
  constexpr std::int64_t kMostOfASize = INT64_MAX >> 5;  // columns of all heads side by side
  const bool sized = std::all_of(shape_.begin(), shape_.end(),
                                 [](std::int64_t n) { return n >= 0 && n <= kMostOfASize; });
  return sized && (dtype_ <= HEED_DTYPE_F8_E4M3 || dtype_ == kByte);
}

bool Extent::empty() const {
  return std::any_of(shape_.begin(), shape_.end(), [](std::int64_t n) { return n == 0; });
}

Wide128 Extent::elements() const {
  Wide128 count = 1;
  for (const std::int64_t size : shape_) count = std::min(count * size, kHuge);
  return count;
}

Wide128 Extent::bytes() const {
  if (empty()) return 0;
  Wide128 elements = 1;
  for (std::size_t axis = 0; axis < 4; ++axis)
    elements += (shape_[axis] - 1) * (strides_[axis] < 0 ? -strides_[axis] : strides_[axis]);
  return elements * format_of(dtype_).bytes;
}

bool Extent::apart() const {
  const Tensor tensor = this->tensor(0);
  const Axes& strides = tensor.strides();
  std::vector<std::int64_t> places;
  tensor.each([&](const Axes& at) {
    places.push_back(at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] +
                     at[3] * strides[3]);
  });
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) == places.end();
}

Tensor Extent::tensor(std::size_t misalign) const {
  return Tensor(shape_, narrow(), misalign, dtype_);
}

Axes Extent::narrow() const {
  Axes strides{};
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (shape_[axis] > 1 && !empty()) strides[axis] = static_cast<std::int64_t>(strides_[axis]);
  return strides;
}

}  // namespace heed_test
