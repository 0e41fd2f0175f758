#include "engine/tensor/operands.hpp"

#include "engine/runtime/error.hpp"

namespace heed {
namespace {

template <class Given>
const Given& given_in(const void* desc, const Field& field) {
  return *reinterpret_cast<const Given*>(static_cast<const std::byte*>(desc) + field.layout);
}

/// Matrices have no heads.
heed_layout without_heads(const heed_matrix_layout& given) {
  return {given.dtype, given.reserved, given.stride_matrix, 0, given.stride_in, given.stride_out};
}

heed_layout layout_in(const void* desc, const Field& field) {
  return field.form == Form::kMatrix ? without_heads(given_in<heed_matrix_layout>(desc, field))
                                     : given_in<heed_layout>(desc, field);
}

/// Gradients are float64 where, and only where, the arithmetic is.
void check_type_of_gradient(const Field& field, std::uint32_t dtype, bool float64, const char* as) {
  if (dtype != HEED_DTYPE_DEFAULT && (dtype == HEED_DTYPE_F64) != float64)
    refuse("%s.dtype is %u; it must %s, as %s is", field.desc, dtype,
           float64 ? "be HEED_DTYPE_F64 (2)" : "not be HEED_DTYPE_F64 (2)", as);
}

}  // namespace

Layout resolve_layout(const Field& field, Role role, Types types, bool no_heads, const Axes& axes,
                      bool float64, const void* desc) {
  const bool written = role == Role::kOutput;
  const ElementType type = field.bytes == 1 ? ElementType::kMask : real_type(float64);
  if (field.form == Form::kScores)
    return score_layout(field.desc, given_in<heed_score_layout>(desc, field), axes.sizes, type,
                        written);
  const heed_layout& given = given_in<heed_layout>(desc, field);
  if (no_heads) check_no_heads(field.desc, given);
  if (types == Types::kAsQuery) check_type_of_gradient(field, given.dtype, float64, "query");
  if (types == Types::kAsOut) check_type_of_gradient(field, given.dtype, float64, "out");
  const bool packed = axes.nesting == Nesting::kPackedRows;
  Layout layout = types == Types::kStored
                      ? stored_layout(field.desc, given, axes.sizes, type, packed)
                      : (written ? output_layout : input_layout)(field.desc, given, axes.sizes,
                                                                 type, packed, kTensorStrides);
  if (axes.nesting == Nesting::kPackedHeads) layout.strides.batch = 0;
  if (types == Types::kDenominator) check_lse_type(field.desc, given);
  if (types == Types::kArithmetic) check_arithmetic(field.desc, layout.type, float64);
  return layout;
}

Matrix resolve_matrix(const Field& field, Role role, const Axes& axes, bool float64,
                      const void* desc) {
  const auto& given = given_in<heed_matrix_layout>(desc, field);
  const bool written = role == Role::kOutput;
  const auto [matrices, unused, in, out] = axes.sizes;
  if (axes.nesting != Nesting::kApart)
    return check_matrix(field.desc, given, axes.nesting == Nesting::kStacked ? matrices : 0, in,
                        out, float64, written);
  const Layout layout = (written ? output_layout : input_layout)(
      field.desc, without_heads(given), axes.sizes, real_type(float64), false, kMatrixStrides);
  check_arithmetic(field.desc, layout.type, float64);
  return {layout, in, in, out};
}

void check_unset(const Field& field, const void* desc, const char* unless) {
  if (!is_unset(layout_in(desc, field))) refuse("%s is given; it must be 0 %s", field.desc, unless);
}

void refuse_given(const Field& field, const char* unless) {
  refuse("%s is given; it must be NULL %s", field.args, unless);
}

void refuse_gradient(const Field& field, const char* inner) {
  constexpr std::size_t kPrefix = sizeof "grad_" - 1;
  refuse("%s is given; it must be NULL without %s->%s", field.args, inner, field.name + kPrefix);
}

void refuse_missing(const Field& field, const char* asked_by) {
  if (asked_by == nullptr) refuse_pointer(field.args, nullptr, field.bytes);
  refuse("%s is NULL; %s asks for it", field.args, asked_by);
}

void refuse_empty(const char* field, const Axes& axes) {
  int axis = 0;
  while (axes.sizes[axis] != 0) ++axis;
  refuse_empty(field, axes.names.sizes[axis]);
}

}  // namespace heed
