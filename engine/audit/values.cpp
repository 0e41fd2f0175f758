#include "engine/audit/values.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/runtime/text.hpp"

namespace heed {
namespace {

/// Fewer numbers say too little about their type.
constexpr std::int64_t kEnough = 64;

/// "batch 0, head 2, row 5, feature 1", of the axes that the tensor has.
Text place_of(const GivenTensor& tensor, const std::int64_t (&place)[4]) {
  Text text;
  const char* between = "";
  for (int axis = 0; axis < 4; ++axis) {
    if (tensor.names->places[axis] == nullptr) continue;
    const std::int64_t index = place[axis] + (axis == 2 ? tensor.first_row : 0);
    text.add("%s%s %lld", between, tensor.names->places[axis], static_cast<long long>(index));
    between = ", ";
  }
  return text;
}

}  // namespace

Box whole(const GivenTensor& tensor) {
  Box box{};
  std::copy_n(tensor.sizes, 4, box.end);
  return box;
}

void Values::count(const Box& given) {
  const Strides& s = tensor_.layout.strides;
  const std::int64_t strides[4] = {s.batch, s.head, s.row, s.feature};
  Box box = given;
  for (int axis = 0; axis < 4; ++axis)  // repeated elements count once
    if (strides[axis] == 0) box.end[axis] = std::min(box.end[axis], box.begin[axis] + 1);
  constexpr std::int64_t kStrip = 256;
  double strip[kStrip];
  std::int64_t at[4];
  for (at[0] = box.begin[0]; at[0] < box.end[0]; ++at[0])
    for (at[1] = box.begin[1]; at[1] < box.end[1]; ++at[1])
      for (at[2] = box.begin[2]; at[2] < box.end[2]; ++at[2])
        for (std::int64_t x = box.begin[3]; x < box.end[3]; x += kStrip) {
          const std::int64_t some = std::min(kStrip, box.end[3] - x);
          read_(tensor_.layout.type,
                row_at(tensor_.data, tensor_.layout, at[0], at[1], at[2]) +
                    x * s.feature * tensor_.layout.bytes,
                s.feature, static_cast<std::size_t>(some), strip);
          for (std::int64_t i = 0; i < some; ++i) {
            at[3] = x + i;
            count(strip[i], at);
          }
        }
}

void Values::count(double x, const std::int64_t (&place)[4]) {
  ++all_;
  const double magnitude = std::fabs(x);
  if (!std::isfinite(x)) {
    if (std::isinf(x) && x < 0 && tensor_.odd == Odd::kNotFiniteUnlessMasked) return;
    if (nan_ + infinite_ == 0) std::copy_n(place, 4, first_);
    ++(std::isnan(x) ? nan_ : infinite_);
    return;
  }
  if (x == 0) return;
  smallest_ = nonzero_ == 0 ? magnitude : std::min(smallest_, magnitude);
  largest_ = std::max(largest_, magnitude);
  ++nonzero_;
  negative_ += x < 0 ? 1 : 0;
  unlikely_ += unlikely(magnitude) ? 1 : 0;
}

/// Whether a number is more likely to be of another type. Numbers near 1 in bfloat16, from 2^-8 to
/// 2^8, look like float16 numbers near 1, and float16 ones read as bfloat16 become tiny. Halves of
/// float32 or float64, and integers, have any exponent at all, or none.
bool Values::unlikely(double magnitude) const {
  switch (tensor_.layout.type) {
    case ElementType::kF16:
      return magnitude >= 0.9375 && magnitude < 3.75;
    case ElementType::kBf16:
      return magnitude < 1e-6 || magnitude > 1e30;
    default:
      return magnitude < 1e-30 || magnitude > 1e30;
  }
}

bool Values::suggests_other_type() const {
  const auto share = [](std::int64_t some, std::int64_t all) {
    return static_cast<double>(some) / static_cast<double>(std::max<std::int64_t>(all, 1));
  };
  const ElementType type = tensor_.layout.type;
  if (all_ >= kEnough && (type == ElementType::kF16 || type == ElementType::kBf16) &&
      share(nan_ + infinite_, all_) > 0.004)
    return true;
  if (nonzero_ < kEnough) return false;
  if (type != ElementType::kF16) return share(unlikely_, nonzero_) > 0.05;
  return share(unlikely_, nonzero_) > 0.99 && smallest_ < largest_ && negative_ > 0 &&
         negative_ < nonzero_;
}

void Values::tell_odd() const {
  const char* const name = tensor_.name;
  if (nan_ + infinite_ > 0)
    tell("check: %s holds %lld NaN and %lld inf among %lld numbers, the first at %s", name,
         static_cast<long long>(nan_), static_cast<long long>(infinite_),
         static_cast<long long>(all_), place_of(tensor_, first_).c_str());
  if (tensor_.role != Role::kOutput && suggests_other_type())
    tell(
        "check: %s, read as %s, holds numbers as another type would leave them, of magnitudes "
        "%.3g to %.3g; is its dtype right?",
        name, name_of(tensor_.layout.type), smallest_, largest_);
}

}  // namespace heed
