#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "engine/audit/audit.hpp"
#include "engine/runtime/error.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// Fewer values say too little about their type.
constexpr std::int64_t kEnough = 64;

/// "batch 0, head 2, row 5, feature 1", of the axes that the tensor has.
Text place_of(const GivenTensor& tensor, const std::int64_t (&place)[4]) {
  Text text;
  const char* between = "";
  for (int axis = 0; axis < 4; ++axis) {
    if (tensor.names->places[axis] == nullptr) continue;
    const std::int64_t index = place[axis] + (axis == 2 ? tensor.first_row : 0);
    text.add("%s%s %lld", between, tensor.names->places[axis], lld(index));
    between = ", ";
  }
  return text;
}

/// Some of a tensor's elements: [begin, end) of each axis.
struct Box {
  std::int64_t begin[4];
  std::int64_t end[4];
};

/// All of them.
Box whole(const GivenTensor& tensor) {
  Box box{};
  std::copy_n(tensor.sizes, 4, box.end);
  return box;
}

/// Counts the values of a tensor that stand out: NaN, infinities, and magnitudes that hint at
/// another dtype.
class Values {
 public:
  Values(const heed_context& context, const GivenTensor& tensor)
      : read_(context.kernels->f64.numbers.read), tensor_(tensor) {}

  void count(const Box& given) {
    const Strides& strides = tensor_.layout.strides;
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
                      x * strides.feature * tensor_.layout.bytes,
                  strides.feature, static_cast<std::size_t>(some), strip);
            for (std::int64_t i = 0; i < some; ++i) {
              at[3] = x + i;
              count(strip[i], at);
            }
          }
  }
  /// Tells on stderr of all counted values that stand out, if any do.
  void tell_odd() const {
    const char* const name = tensor_.name;
    if (nan_ + infinite_ > 0)
      tell("check: %s holds %lld NaN and %lld inf among %lld numbers, the first at %s", name,
           lld(nan_), lld(infinite_), lld(all_), place_of(tensor_, first_).c_str());
    if (tensor_.role != Role::kOutput && suggests_other_type())
      tell(
          "check: %s, read as %s, holds numbers as another type would leave them, of magnitudes "
          "%.3g to %.3g; is its dtype right?",
          name, name_of(tensor_.layout.type), smallest_, largest_);
    if (tensor_.odd == Odd::kOfBias && ones_ > 0 && ones_ < all_ && ones_ + zeros_ == all_)
      tell(
          "check: %s holds nothing but ones and zeros, as a mask does; a bias is added to the "
          "scores, and excludes what is -inf in it",
          name);
  }

 private:
  void count(double x, const std::int64_t (&place)[4]) {
    ++all_;
    const double magnitude = std::fabs(x);
    if (!std::isfinite(x)) {
      if (std::isinf(x) && x < 0 && tensor_.odd != Odd::kNotFinite) return;
      if (nan_ + infinite_ == 0) std::copy_n(place, 4, first_);
      ++(std::isnan(x) ? nan_ : infinite_);
      return;
    }
    zeros_ += x == 0 ? 1 : 0;
    ones_ += x == 1 ? 1 : 0;
    if (x == 0) return;
    smallest_ = nonzero_ == 0 ? magnitude : std::min(smallest_, magnitude);
    largest_ = std::max(largest_, magnitude);
    ++nonzero_;
    negative_ += x < 0 ? 1 : 0;
    unlikely_ += unlikely(magnitude) ? 1 : 0;
  }

  /// Whether a value is more likely to be of another type. Values near 1 in bfloat16, from 2^-8 to
  /// 2^8, look like float16 values near 1, and float16 ones read as bfloat16 become tiny. Halves of
  /// float32 or float64, and integers, have any exponent at all, or none.
  bool unlikely(double magnitude) const {
    switch (tensor_.layout.type) {
      case ElementType::kF16:
        return magnitude >= 0.9375 && magnitude < 3.75;
      case ElementType::kBf16:
        return magnitude < 1e-6 || magnitude > 1e30;
      default:
        return magnitude < 1e-30 || magnitude > 1e30;
    }
  }

  bool suggests_other_type() const {
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

  decltype(NumberKernels<double>::read) read_;
  const GivenTensor& tensor_;
  std::int64_t all_ = 0;
  std::int64_t nan_ = 0;
  std::int64_t infinite_ = 0;
  std::int64_t first_[4] = {};  ///< place of the first of them
  std::int64_t zeros_ = 0;
  std::int64_t ones_ = 0;
  std::int64_t nonzero_ = 0;  ///< and finite
  std::int64_t negative_ = 0;
  std::int64_t unlikely_ = 0;
  double smallest_ = 0;
  double largest_ = 0;  ///< magnitudes
};

/// Tells of tensors whose strides seem to count bytes, as NumPy's do. Must come before anything is
/// read: such strides lead outside.
void tell_odd_strides(const GivenTensor& tensor) {
  const std::int64_t bytes = tensor.layout.bytes;
  const Strides& strides = tensor.layout.strides;
  int inner = -1;
  for (int axis = 0; axis < 4; ++axis)
    if (tensor.sizes[axis] > 1 && magnitude(strides[axis]) == bytes) inner = axis;
  if (bytes == 1 || inner < 0) return;
  for (int axis = 0; axis < 4; ++axis)
    if (axis != inner && tensor.sizes[axis] > 1 &&
        strides[axis] % (tensor.sizes[inner] * bytes) != 0)
      return;
  tell(
      "check: the strides of %s are multiples of the %lld bytes of an element, as NumPy's are; "
      "strides count elements",
      tensor.name, lld(bytes));
}

/// Where packed sequences begin; nullptr: they are not packed, or all rows count.
const std::int32_t* offsets_of(const AuditedAttention& of, Sequences sequences) {
  if (sequences == Sequences::kNone) return nullptr;
  return sequences == Sequences::kKeys ? of.args.cu_seqlens_k : of.args.cu_seqlens_q;
}

/// Counts the values of the rows that belong to sequences of the batch.
void count_sequences(const AuditedAttention& of, const GivenTensor& tensor, Values& values) {
  const bool keys = tensor.sequences == Sequences::kKeys;
  const bool packed = offsets_of(of, tensor.sequences) != nullptr;
  const auto count = [&](std::int64_t item, std::int64_t begin, std::int64_t length) {
    Box box = whole(tensor);
    box.begin[0] = packed ? 0 : item;
    box.end[0] = box.begin[0] + 1;
    box.begin[2] = begin - tensor.first_row;
    box.end[2] = box.begin[2] + length;
    values.count(box);
  };
  for (std::int64_t b = 0; b < of.problem->batch; ++b) {
    const Sequence s = sequence_of(*of.problem, of.args, b);
    if (!keys)
      count(b, s.query_begin, s.query_length);
    else if (s.pages == nullptr)
      count(b, s.key_begin, s.key_length);
    else
      for (std::int64_t j = 0; j < s.key_length; j += s.page_rows)
        count(s.pages[j / s.page_rows], 0, std::min(s.page_rows, s.key_length - j));
  }
}

}  // namespace

Role role_beside(const void* input, const Layout& in, const void* output, const Layout& out,
                 const Axes& axes) {
  bool same = input == output && in.type == out.type;
  for (int axis = 0; axis < 4; ++axis)
    same = same && (axes.sizes[axis] == 1 || in.strides[axis] == out.strides[axis]);
  return same ? Role::kReplaced : Role::kInput;
}

GivenTensor* Audit::add(Role role, Odd odd, const char* of, const char* field, const void* data,
                        const Layout& layout, const Axes& axes) {
  GivenTensor tensor = {{}, data, layout, {}, 0, &axes.names, axes.sequences, role, odd};
  std::copy_n(axes.sizes, 4, tensor.sizes);
  if (const std::int32_t* const offsets = offsets_of(attention_, axes.sequences)) {
    tensor.first_row = offsets[0];
    tensor.sizes[2] = offsets[attention_.problem->batch] - offsets[0];
  }
  if (data == nullptr || is_empty(tensor.sizes)) return nullptr;
  if (count_ == kMost) fail(HEED_STATUS_INTERNAL, "a run has more than %d tensors", kMost);
  tensor.data = row_at(data, layout, 0, 0, tensor.first_row);
  std::snprintf(tensor.name, sizeof tensor.name, "%s%s", of, field);
  return &(all_[count_++] = tensor);
}

GivenTensor* Audit::find(const char* name) {
  GivenTensor* const found = std::find_if(begin(), end(), [&](const GivenTensor& tensor) {
    return std::strcmp(tensor.name, name) == 0;
  });
  return found == end() ? nullptr : found;
}

GivenTensor* Audit::add_bytes(Role role, const char* of, const char* field, const void* data,
                              std::size_t bytes) {
  return add(role, Odd::kNone, of, field, data, side_by_side(ElementType::kMask),
             vector_axes(static_cast<std::int64_t>(bytes)));
}

void Audit::attend(const AuditedAttention& attention, bool queries_given, bool keys_given) {
  attention_ = attention;
  computes_ = tell_empty(attention, queries_given, keys_given);
}

void Audit::before(const void* workspace, std::size_t bytes) const {
  for (const GivenTensor& tensor : *this) tell_odd_strides(tensor);
  Audit lent(context_);
  refuse_overlaps(begin(), end(), lent.add_bytes(Role::kOutput, "", "workspace", workspace, bytes));
  if (!computes_) return;
  tell_odd_values(false);
  if (attention_.problem != nullptr) tell_odd_options(attention_);
}

void Audit::tell_odd_values(bool of_outputs) const {
  for (const GivenTensor& tensor : *this) {
    if (tensor.odd == Odd::kNone || (tensor.role == Role::kOutput) != of_outputs) continue;
    Values values(context_, tensor);
    if (tensor.sequences == Sequences::kNone)
      values.count(whole(tensor));
    else
      count_sequences(attention_, tensor, values);
    values.tell_odd();
  }
}

void tell_odd_partial(const heed_context& context, const GivenTensor& out, const GivenTensor& lse) {
  Values values(context, out);
  const Shape& sizes = out.sizes;
  for (std::int64_t b = 0; b < sizes[0]; ++b)
    for (std::int64_t h = 0; h < sizes[1]; ++h)
      for (std::int64_t i = 0; i < sizes[2]; ++i) {
        const double weight =
            number_at(*context.kernels, lse.layout.type, row_at(lse.data, lse.layout, b, h, i));
        if (weight == -std::numeric_limits<double>::infinity()) continue;
        values.count({{b, h, i, 0}, {b + 1, h + 1, i + 1, sizes[3]}});
      }
  values.tell_odd();
}

}  // namespace heed
