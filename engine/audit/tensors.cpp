#include "engine/audit/tensors.hpp"

#include <algorithm>
#include <cstdio>

#include "engine/audit/values.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/text.hpp"

namespace heed {
namespace {

/// Tells of tensors whose strides seem to count bytes, as NumPy's do. Must come before anything is
/// read: such strides lead outside.
void tell_odd_strides(const GivenTensor& tensor) {
  const Strides& s = tensor.layout.strides;
  const std::int64_t bytes = tensor.layout.bytes;
  const std::int64_t strides[4] = {s.batch, s.head, s.row, s.feature};
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
      tensor.name, static_cast<long long>(bytes));
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
  const Strides& s = in.strides;
  const Strides& t = out.strides;
  const std::int64_t all[4][2] = {
      {s.batch, t.batch}, {s.head, t.head}, {s.row, t.row}, {s.feature, t.feature}};
  bool same = input == output && in.type == out.type;
  for (int axis = 0; axis < 4; ++axis)
    same = same && (axes.sizes[axis] == 1 || all[axis][0] == all[axis][1]);
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

}  // namespace heed
