#include "engine/check/operands.hpp"

#include <algorithm>
#include <cstdio>

#include "engine/runtime/error.hpp"

namespace heed {

Role role_beside(const Place& input, const Place& output, const Shape& sizes) {
  const Strides& s = input.layout.strides;
  const Strides& t = output.layout.strides;
  const std::int64_t all[4][2] = {
      {s.batch, t.batch}, {s.head, t.head}, {s.row, t.row}, {s.feature, t.feature}};
  bool same = input.data == output.data && input.layout.type == output.layout.type;
  for (int axis = 0; axis < 4; ++axis)
    same = same && (sizes[axis] == 1 || all[axis][0] == all[axis][1]);
  return same ? Role::kReplaced : Role::kInput;
}

Layout side_by_side(ElementType type) { return side_by_side(type, bytes_of(type)); }
Layout side_by_side(ElementType type, std::int64_t bytes) { return {type, bytes, {0, 0, 0, 1}}; }

const Operand* Operands::add(Role role, const char* field, const void* data, const Layout& layout,
                             const Shape& sizes, AxisNames& axes, std::int64_t first_row) {
  if (data == nullptr || is_empty(sizes)) return nullptr;
  if (count_ == kMost) fail(HEED_STATUS_INTERNAL, "a run has more than %d tensors", kMost);
  Operand& operand = all_[count_++];
  std::snprintf(operand.name, sizeof operand.name, "%s%s", of_, field);
  operand.data = row_at(data, layout, 0, 0, first_row);
  operand.layout = layout;
  std::copy_n(sizes, 4, operand.sizes);
  operand.first_row = first_row;
  operand.axes = axes;
  operand.role = role;
  return &operand;
}

}  // namespace heed
