// Where the elements of a tensor lie: a heed_layout with its defaults filled in and every address
// checked to be in range.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/heed.h"
#include "engine/kernels/table.hpp"

namespace heed {

struct ElementKind {
  const char* name;
  std::int64_t bytes;
};
/// In the order of ElementType; all but the last are in the order of heed_dtype, too, which begins
/// with 1.
inline constexpr ElementKind kElementKinds[] = {{"f32", 4}, {"f64", 8},     {"bf16", 2}, {"f16", 2},
                                                {"i8", 1},  {"f8_e4m3", 1}, {"mask", 1}};

inline std::int64_t bytes_of(ElementType type) {
  return kElementKinds[static_cast<std::size_t>(type)].bytes;
}
inline const char* name_of(ElementType type) {
  return kElementKinds[static_cast<std::size_t>(type)].name;
}

/// Whether elements are integers or floats of 8 bits, which scales that lie elsewhere multiply.
inline bool is_scaled(ElementType type) {
  return type == ElementType::kI8 || type == ElementType::kF8E4M3;
}

/// Whether elements have 16 bits.
inline bool is_half(ElementType type) {
  return type == ElementType::kBf16 || type == ElementType::kF16;
}

inline ElementType real_type(bool float64) {
  return float64 ? ElementType::kF64 : ElementType::kF32;
}
inline std::int64_t real_bytes(bool float64) { return float64 ? sizeof(double) : sizeof(float); }

/// Calls function(real), where `real` has the type of the arithmetic.
template <class Function>
decltype(auto) with_real(bool float64, Function&& function) {
  return float64 ? function(double{}) : function(float{});
}

template <class Real>
const KernelTable<Real>& kernels_of(const Kernels& kernels);
template <>
inline const KernelTable<float>& kernels_of(const Kernels& kernels) {
  return kernels.f32;
}
template <>
inline const KernelTable<double>& kernels_of(const Kernels& kernels) {
  return kernels.f64;
}

/// In elements. In a tensor over pairs of rows and keys, `feature` steps from key to key.
struct Strides {
  std::int64_t batch, head, row, feature;

  /// The stride of an axis, in this order.
  std::int64_t operator[](int axis) const {
    const std::int64_t all[4] = {batch, head, row, feature};
    return all[axis];
  }
};

struct Layout {
  ElementType type;
  std::int64_t bytes;  ///< of one element
  Strides strides;
};

/// The sizes of the four axes.
using Shape = std::int64_t[4];

inline bool is_empty(const Shape& shape) {
  return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0;
}

/// The layout of elements that lie side by side along the last axis.
Layout side_by_side(ElementType type);
inline Layout side_by_side(ElementType type, std::int64_t bytes) {
  return {type, bytes, {0, 0, 0, 1}};
}

/// Where the elements of a checked matrix lie. Several matrices may lie one below the other:
/// feature in `i` is row i % in_each of matrix i / in_each.
struct Matrix {
  Layout layout;  ///< strides: batch from matrix to matrix, row over in, feature over out
  std::int64_t in_each;
  std::int64_t in;  ///< of all matrices
  std::int64_t out;
};

/// How far a stride steps, in either direction.
inline std::int64_t magnitude(std::int64_t stride) {
  if (stride >= 0) return stride;
  return stride == INT64_MIN ? INT64_MAX : -stride;
}

/// Throws unless low <= value <= 2^40; `field` is as in "batch".
void check_size(const char* field, std::int64_t value, std::int64_t low);

/// A choice, of the enum `kind`, or a switch: throws unless `value` is at most `most`.
void check_choice(const char* field, std::uint32_t value, const char* kind, int most);

bool is_unset(const heed_layout& given);

/// Throws unless the layout of a tensor that is not the caller's is 0.
void check_unset(const char* field, const heed_layout& given, const char* why);

/// The names that callers know strides by, in the order of Strides. From the axis
/// `given_from` on one of 0 beside others is refused, unless strides are explicit.
struct StrideFields {
  const char* names[4];
  int given_from;
};
inline constexpr StrideFields kTensorStrides = {
    {"stride_batch", "stride_head", "stride_row", "stride_feature"}, 2};
inline constexpr StrideFields kMatrixStrides = {{"stride_matrix", "", "stride_in", "stride_out"},
                                                0};

/// The rules for a tensor's layout, beside the rules for its addresses.
struct LayoutRules {
  ElementType default_type;  ///< of dtype 0
  bool written = false;      ///< its elements must lie apart
  bool packed = false;       ///< it has one batch, and by default rows outside heads
  heed_dtype last = HEED_DTYPE_F16;
  const StrideFields& fields = kTensorStrides;
};

/// The layout of the tensor that `field` (as in "desc.query") describes. Throws an Error that names
/// the field, its value and the bound.
Layout layout_of(const char* field, const heed_layout& given, const Shape& shape,
                 const LayoutRules& rules);

/// Throws an Error that names `field` (as in "desc.w_query") unless every address is in range and
/// the type fits the arithmetic, and the elements of one that is written lie apart. 0 matrices:
/// one, which has no next.
Matrix check_matrix(const char* field, const heed_matrix_layout& given, std::int64_t matrices,
                    std::int64_t in_each, std::int64_t out, bool float64, bool written = false);

/// The layout of vectors; `field` names their heed_dtype.
Layout check_vector(const char* field, std::uint32_t dtype, bool float64);

/// The layout of a mask or bias over [batch, head, row, key], with stride 0 along repeated axes.
/// The elements of one that is written must not overlap.
Layout score_layout(const char* field, const heed_score_layout& given, const Shape& shape,
                    ElementType default_type, bool written = false);

/// Its sizes: as of `shape`, or 1 along repeated axes.
void score_sizes(const char* field, const heed_score_layout& given, const Shape& shape, Shape& own);

/// The address of a row's first element.
inline const std::byte* row_at(const void* data, const Layout& layout, std::int64_t b,
                               std::int64_t h, std::int64_t row) {
  const Strides& s = layout.strides;
  return static_cast<const std::byte*>(data) +
         (b * s.batch + h * s.head + row * s.row) * layout.bytes;
}
inline std::byte* row_at(void* data, const Layout& layout, std::int64_t b, std::int64_t h,
                         std::int64_t row) {
  return const_cast<std::byte*>(row_at(static_cast<const void*>(data), layout, b, h, row));
}

[[noreturn]] void refuse_pointer(const char* field, const void* pointer, std::int64_t bytes);
/// Refuses a tensor that is given although one of its sizes is 0.
[[noreturn]] void refuse_empty(const char* field, const char* size_field);

/// Throws if a pointer to elements of so many bytes, a power of two, is misaligned; `field` is as
/// in "args.query". (In line and without a division, for small problems.)
inline void check_alignment(const char* field, const void* pointer, std::int64_t bytes) {
  if ((reinterpret_cast<std::uintptr_t>(pointer) & static_cast<std::uintptr_t>(bytes - 1)) != 0)
    refuse_pointer(field, pointer, bytes);
}

/// The same for a tensor, which must be given if, and only if, this size of it is not 0.
inline void check_tensor(const char* field, const void* pointer, const Layout& layout,
                         const char* size_field, std::int64_t size) {
  if (pointer != nullptr && size == 0) refuse_empty(field, size_field);
  if (pointer == nullptr && size != 0) refuse_pointer(field, nullptr, layout.bytes);
  check_alignment(field, pointer, layout.bytes);
}

}  // namespace heed
