#include "tests/problem/laid_out.hpp"

#include <algorithm>
#include <vector>

#include "tests/oracle/inputs.hpp"

namespace heed_test {
namespace {

std::int64_t own(std::int64_t size, std::int64_t whole) { return size == 0 ? whole : size; }

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

LaidOut::LaidOut(const Axes& shape, std::uint32_t* dtype, std::uint32_t* reserved,
                 std::uint32_t real, Use use, const std::array<std::int64_t*, 4>& strides)
    : shape_(shape),
      dtype_(dtype),
      reserved_(reserved),
      strides_(strides),
      real_(real),
      use_(use) {}

LaidOut::LaidOut(heed_layout& l, const Axes& shape, std::uint32_t real, Use use, bool packed)
    : LaidOut(shape, &l.dtype, &l.reserved, real, use,
              {&l.stride_batch, &l.stride_head, &l.stride_row, &l.stride_feature}) {
  packed_ = packed;
}

LaidOut::LaidOut(heed_score_layout& l, const heed_score_layout& sizes, const Axes& pairs,
                 std::uint32_t real, Use use)
    : LaidOut({own(sizes.batch, pairs[0]), own(sizes.heads, pairs[1]), own(sizes.rows, pairs[2]),
               own(sizes.keys, pairs[3])},
              &l.dtype, &l.reserved, real, use,
              {&l.stride_batch, &l.stride_head, &l.stride_row, &l.stride_key}) {}

LaidOut::LaidOut(heed_matrix_layout& l, const Axes& shape, std::uint32_t real, Use use)
    : LaidOut(shape, &l.dtype, &l.reserved, real, use,
              {&l.stride_matrix, nullptr, &l.stride_in, &l.stride_out}) {}

LaidOut::LaidOut(heed_matrix_layout& l, std::int64_t matrices, std::int64_t in, std::int64_t out,
                 std::uint32_t real, Use use)
    : LaidOut(l, {own(matrices, 1), 1, in, out}, real, use) {
  if (matrices == 0) strides_[0] = nullptr;
}

LaidOut::LaidOut(std::int64_t count, std::uint32_t* dtype, std::uint32_t real, Use use)
    : LaidOut({1, 1, 1, count}, dtype, nullptr, real, use, {}) {}

LaidOut LaidOut::without(std::size_t axis) const {
  LaidOut other = *this;
  if (axis == 0 && packed_) other.unused_ = other.strides_[axis];
  other.strides_[axis] = nullptr;
  return other;
}

LaidOut LaidOut::stored() const {
  LaidOut other = *this;
  other.stored_ = true;
  return other;
}

void LaidOut::set(const Axes& strides, std::uint32_t reserved, std::uint32_t dtype) {
  if (dtype_ != nullptr) *dtype_ = dtype;
  if (reserved_ != nullptr) *reserved_ = reserved;
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (strides_[axis] != nullptr) *strides_[axis] = strides[axis];
}

void LaidOut::arrange(Arrangement arrangement, std::uint32_t dtype) {
  Axes strides{};
  if (arrangement != Arrangement::kDefault) strides = strides_of(arrangement, shape_);
  set(strides, strides_said(strides), dtype);
}

void LaidOut::draw(Draw& draw, std::uint32_t dtype) {
  const Axes strides = draw.strides(shape_, use_);
  set(strides, draw.reserved(strides, use_), dtype);
}

Extent LaidOut::extent() const {
  heed_layout layout = HEED_LAYOUT_INIT;
  if (dtype_ != nullptr) layout.dtype = *dtype_;
  if (reserved_ != nullptr) layout.reserved = *reserved_;
  std::int64_t* const to[] = {&layout.stride_batch, &layout.stride_head, &layout.stride_row,
                              &layout.stride_feature};
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (strides_[axis] != nullptr) *to[axis] = *strides_[axis];
  if (unused_ != nullptr) layout.stride_batch = *unused_;
  return Extent(shape_, layout, real_, packed_);
}

void lay(Tensor& tensor, LaidOut laid, const Form& form) {
  const Tensor before = tensor;
  laid.arrange(form.arrangement, form.dtype);
  tensor = laid.tensor(form.misalign);
  tensor.assign(before);
}

}  // namespace heed_test
