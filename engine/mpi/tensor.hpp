// Tensors [batch, heads, rows, features] as heed_layout describes them, copies of their rows, and
// how results leave.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "api/heed.h"
#include "engine/runtime/error.hpp"
#include "engine/tensor/layout.hpp"

namespace heed::mpi {

// ---- Objects of heed.h --------------------------------------------------------------------------

/// Throws the Error of a call of heed.h.
inline void check(heed_status status) {
  if (status != HEED_STATUS_OK) fail(status, "%s", heed_last_error());
}

/// The functions of an object.
template <class Object>
struct Functions;
#define HEED_OBJECT(object)                       \
  static constexpr auto create = object##_create; \
  static constexpr auto destroy = object##_destroy
#define HEED_PLAN(plan)                                 \
  template <>                                           \
  struct Functions<plan> {                              \
    HEED_OBJECT(plan);                                  \
    static constexpr auto workspace = plan##_workspace; \
  }
template <>
struct Functions<heed_graph> {
  HEED_OBJECT(heed_graph);
};
HEED_PLAN(heed_attention_plan);
HEED_PLAN(heed_attention_backward_plan);
HEED_PLAN(heed_graph_attention_plan);
#undef HEED_PLAN
#undef HEED_OBJECT

struct Destroy {
  template <class Object>
  void operator()(Object* object) const {
    Functions<Object>::destroy(object);
  }
};
template <class Object>
using Owned = std::unique_ptr<Object, Destroy>;

/// Makes an object of these. Throws the Error that heed.h refuses it with.
template <class Object, class... Given>
Owned<Object> make(const Given*... given) {
  Object* object = nullptr;
  check(Functions<Object>::create(given..., &object));
  return Owned<Object>(object);
}

/// The bytes that a plan asks for; 0 without a plan.
template <class Plan>
std::size_t workspace_of(const Owned<Plan>& plan) {
  std::size_t bytes = 0;
  if (plan != nullptr) check(Functions<Plan>::workspace(plan.get(), &bytes));
  return bytes;
}

/// Bytes of an element of a heed_dtype, 0 being float32; HEED_DTYPE_I8 stands for a mask's.
inline std::size_t bytes_of(std::uint32_t dtype) {
  const auto given = static_cast<ElementType>(dtype - 1);
  return static_cast<std::size_t>(
      heed::bytes_of(dtype == HEED_DTYPE_DEFAULT ? ElementType::kF32 : given));
}

/// Throws unless the tensor of args is aligned, and given if it has elements. `empty` is the size
/// that every rank has of it and that is 0, NULL if there is none: then it must be NULL. (A rank
/// that has no rows of it may pass anything.)
void check_tensor(const char* field, const void* pointer, std::uint32_t dtype, bool elements,
                  const char* empty = nullptr);

/// Sizes of a tensor.
struct Extent {
  std::int64_t batch, heads, rows, features;

  std::int64_t elements() const { return batch * heads * rows * features; }
};

inline void take_sizes(heed_score_layout& to, const heed_score_layout& from) {
  to.batch = from.batch, to.heads = from.heads, to.rows = from.rows, to.keys = from.keys;
}

/// Says, as descriptors may, that elements lie side by side.
inline heed_layout unset_layout(std::uint32_t dtype) { return {dtype, 0, 0, 0, 0, 0}; }

/// The layout with its strides said explicitly.
heed_layout explicit_layout(const heed_layout& given, const Extent& extent);
heed_score_layout explicit_layout(const heed_score_layout& given, const Extent& extent);

/// Where a mask or bias repeats along an axis its elements are there once.
inline Extent extent_of(const heed_score_layout& l) { return {l.batch, l.heads, l.rows, l.keys}; }

struct Tensor {
  std::byte* data;
  heed_layout layout;  ///< explicit

  std::size_t element_bytes() const { return bytes_of(layout.dtype); }
  /// The same tensor from this head and row on; NULL stays NULL.
  Tensor from(std::int64_t head, std::int64_t row, std::int64_t batch = 0) const;
};

inline Tensor tensor_of(const void* data, const heed_layout& layout) {
  return {static_cast<std::byte*>(const_cast<void*>(data)), layout};
}
/// A mask or bias, whose keys are its features. The layout is explicit.
Tensor tensor_of(const void* data, const heed_score_layout& layout);

/// Steps so many bytes on. NULL stays NULL, where layouts alone are asked for or a rank has no
/// rows.
inline std::byte* after(std::byte* at, std::size_t bytes) {
  return at == nullptr ? nullptr : at + bytes;
}

/// A tensor whose elements lie side by side.
Tensor contiguous(void* data, std::uint32_t dtype, const Extent& extent);

/// The tensors that a run reads; from kOut on, where gradients are computed.
enum Input : std::size_t {
  kQuery,
  kKey,
  kValue,
  kMask,
  kBias,
  kOut,
  kLse,
  kGradOut,
  kGradLse,
  kMostTensors
};
using Tensors = std::array<Tensor, kMostTensors>;

/// Describes a tensor by its rows, which are split over ranks: [batch, heads, rows, features].
/// Where there is no tensor, features are 0.
struct SplitRows {
  bool of_keys;  ///< it has the rows and heads of keys; else of queries
  std::uint32_t dtype;
  std::int64_t features;
  bool one_batch = false, one_head = false;  ///< repeats along these axes, where its size is 1
};
using RowsList = std::vector<SplitRows>;

/// Copies all of `extent`; both tensors have the same type.
void copy(const Tensor& from, const Tensor& to, const Extent& extent);

/// Adds values of float32 or float64 that lie side by side.
void add(const std::byte* from, std::byte* to, std::size_t bytes, std::uint32_t dtype);

/// Merges partial results, which lie alike, to where out and lse are; lse may be NULL.
void merge(const heed_context& context, const Extent& extent, const heed_layout& partial_out,
           const heed_layout& partial_lse, std::size_t count, const void* const* outs,
           const void* const* lses, const Tensor& out, const Tensor& lse);

/// Converts results to the caller's types, or adds them to the values there.
class Writer {
 public:
  /// Adds where there is a buffer for the values there: buffer_bytes(), of the arithmetic's type.
  Writer(const heed_context& context, std::uint32_t real, std::byte* buffer)
      : context_(context), real_(real), buffer_(buffer) {}

  /// Writes all of `extent`; values to be added have the type `real`.
  void write(const Tensor& from, const Tensor& to, const Extent& extent) const;

  /// How large a buffer for rows of so many features is.
  static std::size_t buffer_bytes(std::uint32_t real, std::int64_t features);

 private:
  void convert(const Tensor& from, const Tensor& to, const Extent& extent) const;

  const heed_context& context_;
  std::uint32_t real_;
  std::byte* buffer_;
};

}  // namespace heed::mpi
