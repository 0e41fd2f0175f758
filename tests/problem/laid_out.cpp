#include "tests/problem/laid_out.hpp"

namespace heed_test {
namespace {

std::int64_t own(std::int64_t size, std::int64_t whole) { return size == 0 ? whole : size; }

}  // namespace

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
  return Extent(shape_, layout, real_, packed_);
}

void lay(Tensor& tensor, LaidOut laid, const Form& form) {
  const Tensor before = tensor;
  laid.arrange(form.arrangement, form.dtype);
  tensor = laid.tensor(form.misalign);
  tensor.assign(before);
}

}  // namespace heed_test
