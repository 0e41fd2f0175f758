#include "engine/mpi/tensor.hpp"

#include <algorithm>
#include <cstring>

namespace heed::mpi {
namespace {

/// Values that are added at a time, except for longer rows.
constexpr std::int64_t kAddedAtOnce = 1 << 14;

template <class Real>
void add_values(const std::byte* from, std::byte* to, std::size_t count) {
  const auto* const added = reinterpret_cast<const Real*>(from);
  auto* const sums = reinterpret_cast<Real*>(to);
  for (std::size_t i = 0; i < count; ++i) sums[i] += added[i];
}

}  // namespace

std::size_t bytes_of(std::uint32_t dtype) {
  switch (dtype) {
    case HEED_DTYPE_F64:
      return 8;
    case HEED_DTYPE_BF16:
    case HEED_DTYPE_F16:
      return 2;
    case HEED_DTYPE_I8:
      return 1;
    default:
      return 4;
  }
}

void check_tensor(const char* field, const void* pointer, std::uint32_t dtype, bool elements,
                  const char* empty) {
  if (pointer == nullptr && elements) refuse("args.%s is NULL; its tensor has elements", field);
  if (pointer != nullptr && empty != nullptr)
    refuse("args.%s is given, but %s is 0; a tensor without elements must be NULL", field, empty);
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes_of(dtype) != 0)
    refuse("args.%s is %p; it must be a multiple of %zu", field, pointer, bytes_of(dtype));
}

heed_layout explicit_layout(const heed_layout& given, const Extent& e) {
  heed_layout layout = given;
  if (layout.dtype == HEED_DTYPE_DEFAULT) layout.dtype = HEED_DTYPE_F32;
  layout.reserved = HEED_STRIDES_EXPLICIT;
  const bool unset = given.stride_batch == 0 && given.stride_head == 0 && given.stride_row == 0 &&
                     given.stride_feature == 0;
  if (given.reserved == HEED_STRIDES_EXPLICIT || !unset) return layout;
  layout.stride_feature = 1;
  layout.stride_row = std::max<std::int64_t>(e.features, 1);
  layout.stride_head = layout.stride_row * std::max<std::int64_t>(e.rows, 1);
  layout.stride_batch = layout.stride_head * std::max<std::int64_t>(e.heads, 1);
  return layout;
}

heed_score_layout explicit_layout(const heed_score_layout& given, const Extent& e) {
  heed_score_layout layout = given;
  const auto size = [](std::int64_t own, std::int64_t problem) { return own == 0 ? problem : own; };
  layout.batch = size(given.batch, e.batch);
  layout.heads = size(given.heads, e.heads);
  layout.rows = size(given.rows, e.rows);
  layout.keys = size(given.keys, e.features);
  const heed_layout strides =
      explicit_layout(heed_layout{0, given.reserved, given.stride_batch, given.stride_head,
                                  given.stride_row, given.stride_key},
                      {layout.batch, layout.heads, layout.rows, layout.keys});
  layout.reserved = HEED_STRIDES_EXPLICIT;
  layout.stride_batch = layout.batch == 1 ? 0 : strides.stride_batch;
  layout.stride_head = layout.heads == 1 ? 0 : strides.stride_head;
  layout.stride_row = layout.rows == 1 ? 0 : strides.stride_row;
  layout.stride_key = layout.keys == 1 ? 0 : strides.stride_feature;
  return layout;
}

Tensor Tensor::from(std::int64_t head, std::int64_t row, std::int64_t batch) const {
  if (data == nullptr) return *this;
  const std::int64_t elements =
      batch * layout.stride_batch + head * layout.stride_head + row * layout.stride_row;
  return {data + elements * static_cast<std::int64_t>(element_bytes()), layout};
}

Tensor tensor_of(void* data, const heed_score_layout& l) {
  return {
      static_cast<std::byte*>(data),
      {l.dtype, HEED_STRIDES_EXPLICIT, l.stride_batch, l.stride_head, l.stride_row, l.stride_key}};
}

Tensor contiguous(void* data, std::uint32_t dtype, const Extent& extent) {
  const heed_layout unset = {dtype, HEED_STRIDES_DEFAULT, 0, 0, 0, 0};
  return {static_cast<std::byte*>(data), explicit_layout(unset, extent)};
}

void copy(const Tensor& from, const Tensor& to, const Extent& extent) {
  const std::size_t bytes = from.element_bytes();
  const bool side_by_side = from.layout.stride_feature == 1 && to.layout.stride_feature == 1;
  const std::int64_t from_step = from.layout.stride_feature * static_cast<std::int64_t>(bytes);
  const std::int64_t to_step = to.layout.stride_feature * static_cast<std::int64_t>(bytes);
  for (std::int64_t b = 0; b < extent.batch; ++b)
    for (std::int64_t h = 0; h < extent.heads; ++h)
      for (std::int64_t row = 0; row < extent.rows; ++row) {
        const std::byte* const source = from.from(h, row, b).data;
        std::byte* const target = to.from(h, row, b).data;
        if (side_by_side)
          std::memcpy(target, source, static_cast<std::size_t>(extent.features) * bytes);
        else
          for (std::int64_t x = 0; x < extent.features; ++x)
            std::memcpy(target + x * to_step, source + x * from_step, bytes);
      }
}

void add(const std::byte* from, std::byte* to, std::size_t bytes, std::uint32_t dtype) {
  if (dtype == HEED_DTYPE_F64)
    add_values<double>(from, to, bytes / sizeof(double));
  else
    add_values<float>(from, to, bytes / sizeof(float));
}

void merge(const heed_context& context, const Extent& extent, const heed_layout& part_out,
           const heed_layout& part_lse, std::size_t parts, const void* const* outs,
           const void* const* lses, const Tensor& out, const Tensor& lse) {
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  desc.batch = extent.batch;
  desc.heads = extent.heads;
  desc.rows = extent.rows;
  desc.features = extent.features;
  desc.part_out = part_out;
  desc.part_lse = part_lse;
  desc.out = out.layout;
  desc.lse = lse.layout;
  check(heed_merge(&context, &desc, parts, outs, lses, out.data, lse.data));
}

std::size_t Writer::buffer_bytes(std::uint32_t real, std::int64_t features) {
  return static_cast<std::size_t>(std::max(kAddedAtOnce, features)) * bytes_of(real);
}

/// A merge of one partial result.
void Writer::convert(const Tensor& from, const Tensor& to, const Extent& extent) const {
  static constexpr double kLse = 0;
  const heed_layout one = {HEED_DTYPE_F64, HEED_STRIDES_EXPLICIT, 0, 0, 0, 0};
  const void* const outs[] = {from.data};
  const void* const lses[] = {&kLse};
  merge(context_, extent, from.layout, one, 1, outs, lses, to, {});
}

void Writer::write(const Tensor& from, const Tensor& to, const Extent& extent) const {
  if (extent.elements() == 0) return;
  if (buffer_ == nullptr) return convert(from, to, extent);
  const std::int64_t most = std::max<std::int64_t>(kAddedAtOnce / extent.features, 1);
  for (std::int64_t b = 0; b < extent.batch; ++b)
    for (std::int64_t h = 0; h < extent.heads; ++h)
      for (std::int64_t row = 0; row < extent.rows; row += most) {
        const Extent some = {1, 1, std::min(most, extent.rows - row), extent.features};
        const Tensor sums = contiguous(buffer_, real_, some);
        const Tensor there = to.from(h, row, b);
        const Tensor added = from.from(h, row, b);
        convert(there, sums, some);
        for (std::int64_t i = 0; i < some.rows; ++i)
          add(added.from(0, i).data, sums.from(0, i).data,
              static_cast<std::size_t>(extent.features) * bytes_of(real_), real_);
        convert(sums, there, some);
      }
}

}  // namespace heed::mpi
