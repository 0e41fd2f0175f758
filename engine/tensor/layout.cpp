#include "engine/tensor/layout.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/operands.hpp"

namespace heed {
namespace {

/// `last` is the last heed_dtype that the tensor may have.
ElementType element_type(const char* field, std::uint32_t dtype, ElementType default_type,
                         heed_dtype last) {
  if (dtype > static_cast<std::uint32_t>(last))
    refuse("%s.dtype is %u; it must be a heed_dtype, 0 to %d", field, dtype,
           static_cast<int>(last));
  return dtype == HEED_DTYPE_DEFAULT ? default_type : static_cast<ElementType>(dtype - 1);
}

/// Whether strides that are all 0 mean contiguous.
bool all_zero_is_contiguous(const char* field, std::uint32_t reserved) {
  if (reserved > HEED_STRIDES_EXPLICIT)
    refuse("%s.reserved is %u; it must be 0 or HEED_STRIDES_EXPLICIT (1)", field, reserved);
  return reserved == HEED_STRIDES_DEFAULT;
}

/// Strides of elements side by side, the axes nested in `order`, outermost first.
Strides contiguous(const char* field, const Shape& shape, const int (&order)[4]) {
  std::int64_t strides[4];
  Size elements = 1;
  for (int i = 3; i >= 0; --i) {
    strides[order[i]] = elements.value();
    elements = elements * std::max<std::int64_t>(shape[order[i]], 1);
  }
  if (!elements.fits())
    refuse("%s has %lld x %lld x %lld x %lld elements; that overflows an address", field,
           lld(shape[0]), lld(shape[1]), lld(shape[2]), lld(shape[3]));
  return {strides[0], strides[1], strides[2], strides[3]};
}

/// Throws if the last element leaves the range of addresses. A stride that reaches no element, of
/// an empty tensor or an axis of one element, becomes 0 if it is so large that code which looks one
/// step ahead would leave that range.
Strides check_reach(const char* field, const Strides& strides, const Shape& shape) {
  std::int64_t all[4] = {strides.batch, strides.head, strides.row, strides.feature};
  const bool empty = is_empty(shape);
  Size farthest = 0;
  for (int axis = 0; axis < 4 && !empty; ++axis) {
    const Size distance = Size(shape[axis] - 1) * magnitude(all[axis]);
    if (!distance.fits())
      refuse("%s steps %lld times by a stride of %lld elements; that overflows an address", field,
             lld(shape[axis] - 1), lld(all[axis]));
    farthest = farthest + distance;
    if (!farthest.fits())
      refuse("%s reaches %lld elements; that overflows an address", field, lld(farthest.value()));
  }
  for (int axis = 0; axis < 4; ++axis)
    if ((empty || shape[axis] == 1) && magnitude(all[axis]) > farthest.value() + 1) all[axis] = 0;
  return {all[0], all[1], all[2], all[3]};
}

/// Throws unless elements lie apart: ordered by size, every stride must step past all that the
/// smaller ones reach. Exact for layouts made by permuting, slicing and padding axes.
void check_apart(const char* field, const Strides& strides, const Shape& shape,
                 const StrideFields& fields) {
  if (is_empty(shape)) return;
  int order[4];
  int count = 0;
  for (int axis = 0; axis < 4; ++axis)
    if (shape[axis] > 1) order[count++] = axis;
  for (int i = 1; i < count; ++i)
    for (int k = i; k > 0 && magnitude(strides[order[k]]) < magnitude(strides[order[k - 1]]); --k)
      std::swap(order[k], order[k - 1]);
  Size reached = 0;
  for (int i = 0; i < count; ++i) {
    const int axis = order[i];
    if (magnitude(strides[axis]) <= reached.value())
      refuse("%s.%s is %lld; it must exceed %lld, or elements of the output overlap", field,
             fields.names[axis], lld(strides[axis]), lld(reached.value()));
    reached = reached + Size(magnitude(strides[axis])) * (shape[axis] - 1);
  }
}

bool all_zero(const Strides& s) {
  return s.batch == 0 && s.head == 0 && s.row == 0 && s.feature == 0;
}

/// Throws if a stride is 0 that was probably forgotten: beside others, along an axis of several.
void check_whole(const char* field, const Strides& strides, const Shape& shape,
                 const StrideFields& fields) {
  for (int axis = fields.given_from; axis < 4 && !is_empty(shape); ++axis)
    if (shape[axis] > 1 && strides[axis] == 0)
      refuse(
          "%s.%s is 0 beside other strides; it must be given with them, unless %s.reserved is "
          "HEED_STRIDES_EXPLICIT (1), which lets it repeat elements",
          field, fields.names[axis], field);
}

/// Throws unless both the arithmetic and the type are float64, or neither is.
void check_arithmetic(const char* field, ElementType type, bool float64) {
  if ((type == ElementType::kF64) == float64) return;
  if (float64)
    refuse("%s.dtype is %d; it must be HEED_DTYPE_F64 (2) or 0, as the arithmetic is float64",
           field,
           static_cast<int>(type) + 1);  // a heed_dtype
  refuse("%s.dtype is HEED_DTYPE_F64 (2); the arithmetic is float32, so it must not be", field);
}

/// Matrices have no heads.
heed_layout without_heads(const heed_matrix_layout& given) {
  return {given.dtype, given.reserved, given.stride_matrix, 0, given.stride_in, given.stride_out};
}

/// The layout of [matrix, -, in, out], whose type fits the arithmetic.
Layout matrices_layout(const char* field, const heed_matrix_layout& given, const Shape& shape,
                       bool float64, bool written) {
  const Layout layout =
      layout_of(field, without_heads(given), shape,
                {real_type(float64), written, false, HEED_DTYPE_F16, kMatrixStrides});
  check_arithmetic(field, layout.type, float64);
  return layout;
}

/// Throws unless the type of a log-sum-exp with this valid layout is float32 or float64.
void check_lse_type(const char* field, const heed_layout& given) {
  if (given.dtype == HEED_DTYPE_BF16 || given.dtype == HEED_DTYPE_F16)
    refuse("%s.dtype is %u; it must be 0, HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)", field,
           given.dtype);
}

/// Throws unless the layout of a tensor without heads has no stride between them.
void check_no_heads(const char* field, const heed_layout& given) {
  if (given.stride_head != 0)
    refuse("%s.stride_head is %lld; it must be 0: it has no heads", field, lld(given.stride_head));
}

}  // namespace

void check_size(const char* field, std::int64_t value, std::int64_t low) {
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
  if (value < low || value > kMaxSize)
    refuse("desc.%s is %lld; it must be %lld to 2^40", field, lld(value), lld(low));
}

void check_choice(const char* field, std::uint32_t value, const char* kind, int most) {
  if (value > static_cast<std::uint32_t>(most))
    refuse("desc.%s is %u; it must be %s, 0 to %d", field, value, kind, most);
}

Layout layout_of(const char* field, const heed_layout& given, const Shape& shape,
                 const LayoutRules& rules) {
  const bool contiguous_if_zero = all_zero_is_contiguous(field, given.reserved);
  const ElementType type = element_type(field, given.dtype, rules.default_type, rules.last);
  Strides strides = {given.stride_batch, given.stride_head, given.stride_row, given.stride_feature};
  if (contiguous_if_zero && all_zero(strides))
    strides = rules.packed ? contiguous(field, shape, {0, 2, 1, 3})
                           : contiguous(field, shape, {0, 1, 2, 3});
  if (rules.packed) strides.batch = 0;  // a sequence is found by its first row
  strides = check_reach(field, strides, shape);
  if (rules.written)
    check_apart(field, strides, shape, rules.fields);
  else if (contiguous_if_zero)
    check_whole(field, strides, shape, rules.fields);
  return {type, bytes_of(type), strides};
}

Layout side_by_side(ElementType type) { return side_by_side(type, bytes_of(type)); }

bool is_unset(const heed_layout& given) {
  const heed_layout unset = HEED_LAYOUT_INIT;
  return std::memcmp(&given, &unset, sizeof unset) == 0;
}

void check_unset(const char* field, const heed_layout& given, const char* why) {
  if (!is_unset(given)) refuse("%s is set; it must be 0: %s", field, why);
}

Matrix check_matrix(const char* field, const heed_matrix_layout& given, std::int64_t matrices,
                    std::int64_t in_each, std::int64_t out, bool float64, bool written) {
  if (matrices == 0 && given.stride_matrix != 0)
    refuse("%s.stride_matrix is %lld; it must be 0: there is one matrix", field,
           lld(given.stride_matrix));
  matrices = std::max<std::int64_t>(matrices, 1);
  Matrix matrix{};
  matrix.layout = matrices_layout(field, given, {matrices, 1, in_each, out}, float64, written);
  matrix.in = (Size(matrices) * in_each)
                  .checked(field, {{"the number of matrices", matrices}, {"of rows", in_each}});
  // Matrices that follow each other as their rows do count as one.
  const Strides& s = matrix.layout.strides;
  const bool one = matrices == 1 || s.batch == in_each * s.row;
  matrix.in_each = one ? matrix.in : in_each;
  matrix.out = out;
  return matrix;
}

Layout check_vector(const char* field, std::uint32_t dtype, bool float64) {
  if (dtype > HEED_DTYPE_F16) refuse("%s is %u; it must be a heed_dtype, 0 to 4", field, dtype);
  if (dtype != 0 && (dtype == HEED_DTYPE_F64) != float64)
    refuse("%s is %u; it must be %s where the arithmetic is %s", field, dtype,
           float64 ? "HEED_DTYPE_F64 (2)" : "another than HEED_DTYPE_F64 (2)",
           float64 ? "float64" : "float32");
  return side_by_side(dtype == 0 ? real_type(float64) : static_cast<ElementType>(dtype - 1));
}

void score_sizes(const char* field, const heed_score_layout& given, const Shape& shape,
                 Shape& own) {
  const char* const names[4] = {"batch", "heads", "rows", "keys"};
  const std::int64_t sizes[4] = {given.batch, given.heads, given.rows, given.keys};
  for (int axis = 0; axis < 4; ++axis) {
    if (sizes[axis] != 0 && sizes[axis] != 1 && sizes[axis] != shape[axis])
      refuse("%s.%s is %lld; it must be %lld, 1 or 0 (the same)", field, names[axis],
             lld(sizes[axis]), lld(shape[axis]));
    own[axis] = sizes[axis] == 0 ? shape[axis] : sizes[axis];
  }
}

Layout score_layout(const char* field, const heed_score_layout& given, const Shape& shape,
                    ElementType default_type, bool written) {
  constexpr StrideFields kScoreStrides = {
      {"stride_batch", "stride_head", "stride_row", "stride_key"}, 3};
  if (default_type == ElementType::kMask && given.dtype != 0)
    refuse("%s.dtype is %u; it must be 0: a mask is made of bytes", field, given.dtype);
  Shape own;
  score_sizes(field, given, shape, own);
  Layout layout = layout_of(field,
                            {given.dtype, given.reserved, given.stride_batch, given.stride_head,
                             given.stride_row, given.stride_key},
                            own, {default_type, written, false, HEED_DTYPE_F16, kScoreStrides});
  Strides& s = layout.strides;
  s = {own[0] == 1 ? 0 : s.batch, own[1] == 1 ? 0 : s.head, own[2] == 1 ? 0 : s.row,
       own[3] == 1 ? 0 : s.feature};
  return layout;
}

void refuse_pointer(const char* field, const void* pointer, std::int64_t bytes) {
  if (pointer == nullptr) refuse("%s is NULL; its tensor has elements", field);
  refuse("%s is %p; it must be a multiple of %lld", field, pointer, lld(bytes));
}

void refuse_empty(const char* field, const char* size_field) {
  refuse("%s is given, but %s is 0; a tensor without elements must be NULL", field, size_field);
}

// ---- Operands -----------------------------------------------------------------------------------

namespace {

template <class Given>
const Given& given_in(const void* desc, const Field& field) {
  return *reinterpret_cast<const Given*>(static_cast<const std::byte*>(desc) + field.layout);
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
  const heed_dtype last = types == Types::kStored ? HEED_DTYPE_F8_E4M3 : HEED_DTYPE_F16;
  Layout layout = layout_of(field.desc, given, axes.sizes, {type, written, packed, last});
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
  return {matrices_layout(field.desc, given, axes.sizes, float64, written), in, in, out};
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
