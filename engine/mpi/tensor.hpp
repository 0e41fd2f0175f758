// Tensors [batch, heads, rows, features] as heed_layout describes them, copies of their rows, and
// how results leave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "api/heed.h"
#include "engine/runtime/error.hpp"
#include "engine/tensor/layout.hpp"

namespace heed::mpi {

// ---- Objects of heed.h --------------------------------------------------------------------------

/// Throws the Error of a call of heed.h.
inline void check(heed_status status) {
  if (status != HEED_STATUS_OK) fail(status, "%s", heed_last_error());
}

template <class T, void (*kDestroy)(T*)>
struct Destroy {
  void operator()(T* object) const { kDestroy(object); }
};
template <class T, void (*kDestroy)(T*)>
using Handle = std::unique_ptr<T, Destroy<T, kDestroy>>;

using DensePlan = Handle<heed_attention_plan, heed_attention_plan_destroy>;
using DenseBackwardPlan =
    Handle<heed_attention_backward_plan, heed_attention_backward_plan_destroy>;
using LocalGraph = Handle<heed_graph, heed_graph_destroy>;
using GraphPlan = Handle<heed_graph_attention_plan, heed_graph_attention_plan_destroy>;

/// The object that `create` makes. Throws the Error that heed.h refuses it with.
template <class Made, class Create, class... Given>
Made make(Create create, const Given*... given) {
  typename Made::pointer made = nullptr;
  check(create(given..., &made));
  return Made(made);
}
inline DensePlan make_dense_plan(const heed_context& context, const heed_attention_desc& desc) {
  return make<DensePlan>(heed_attention_plan_create, &context, &desc);
}
inline DenseBackwardPlan make_dense_plan(const heed_context& context,
                                         const heed_attention_backward_desc& desc) {
  return make<DenseBackwardPlan>(heed_attention_backward_plan_create, &context, &desc);
}

/// The bytes that a plan asks for; of none 0.
template <class Ask, class Plan>
std::size_t workspace_by(Ask ask, const Plan* plan) {
  std::size_t bytes = 0;
  if (plan != nullptr) check(ask(plan, &bytes));
  return bytes;
}
inline std::size_t workspace_of(const DensePlan& plan) {
  return workspace_by(heed_attention_plan_workspace, plan.get());
}
inline std::size_t workspace_of(const DenseBackwardPlan& plan) {
  return workspace_by(heed_attention_backward_plan_workspace, plan.get());
}
inline std::size_t workspace_of(const GraphPlan& plan) {
  return workspace_by(heed_graph_attention_plan_workspace, plan.get());
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

/// Of elements side by side, as descriptors may say it.
inline heed_layout unset_layout(std::uint32_t dtype) { return {dtype, 0, 0, 0, 0, 0}; }

/// The layout with its strides said explicitly.
heed_layout explicit_layout(const heed_layout& given, const Extent& extent);
heed_score_layout explicit_layout(const heed_score_layout& given, const Extent& extent);

struct Tensor {
  std::byte* data;
  heed_layout layout;  ///< explicit

  std::size_t element_bytes() const { return bytes_of(layout.dtype); }
  /// The same from this head and row on; none stays none.
  Tensor from(std::int64_t head, std::int64_t row, std::int64_t batch = 0) const;
};

inline Tensor tensor_of(const void* data, const heed_layout& layout) {
  return {static_cast<std::byte*>(const_cast<void*>(data)), layout};
}
/// A mask or bias, whose keys are its features. The layout is explicit.
Tensor tensor_of(const void* data, const heed_score_layout& layout);

/// So many bytes after `at`; of nothing nothing, where layouts alone are asked for or a rank has no
/// rows.
inline std::byte* after(std::byte* at, std::size_t bytes) {
  return at == nullptr ? nullptr : at + bytes;
}

/// One whose elements lie side by side.
Tensor contiguous(void* data, std::uint32_t dtype, const Extent& extent);

/// Of the same type; all of `extent`.
void copy(const Tensor& from, const Tensor& to, const Extent& extent);

/// Adds values of float32 or float64 that lie side by side.
void add(const std::byte* from, std::byte* to, std::size_t bytes, std::uint32_t dtype);

/// Partial results that lie alike, merged to where out and lse are; the latter need not be there.
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

  /// Of a buffer for rows of so many features.
  static std::size_t buffer_bytes(std::uint32_t real, std::int64_t features);

 private:
  void convert(const Tensor& from, const Tensor& to, const Extent& extent) const;

  const heed_context& context_;
  std::uint32_t real_;
  std::byte* buffer_;
};

}  // namespace heed::mpi
