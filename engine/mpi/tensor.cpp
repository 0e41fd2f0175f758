#include "engine/mpi/tensor.hpp"

#include <algorithm>
#include <cstring>

namespace heed::mpi {
namespace {

/// So many values are added at a time; a longer row is added as a whole.
constexpr std::int64_t kAddedAtOnce = 1 << 14;

template <class Real>
void add_values(const std::byte* from, std::byte* to, std::size_t count) {
  const auto* const added = reinterpret_cast<const Real*>(from);
  auto* const sums = reinterpret_cast<Real*>(to);
  for (std::size_t i = 0; i < count; ++i) sums[i] += added[i];
}

}  // namespace

void check_tensor(const char* field, const void* pointer, std::uint32_t dtype, bool elements,
                  const char* empty) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(dtype));
  if (pointer == nullptr && elements) refuse_pointer(field, pointer, bytes);
  if (pointer != nullptr && empty != nullptr) refuse_empty(field, empty);
  check_alignment(field, pointer, bytes);
}

heed_layout explicit_layout(const heed_layout& given, const Extent& e) {
  const Layout l = layout_of("a tensor", given, {e.batch, e.heads, e.rows, e.features},
                             {ElementType::kF32, false, false, HEED_DTYPE_I8});
  const Strides& s = l.strides;
  return {static_cast<std::uint32_t>(l.type) + 1,  // a heed_dtype
          HEED_STRIDES_EXPLICIT,
          s.batch,
          s.head,
          s.row,
          s.feature};
}

heed_score_layout explicit_layout(const heed_score_layout& given, const Extent& e) {
  const Shape shape = {e.batch, e.heads, e.rows, e.features};
  Shape own;
  score_sizes("scores", given, shape, own);
  const Strides s = score_layout("scores", given, shape, ElementType::kF32).strides;
  return {
      given.dtype, HEED_STRIDES_EXPLICIT, own[0], own[1], own[2], own[3], s.batch, s.head, s.row,
      s.feature};
}

Tensor Tensor::from(std::int64_t head, std::int64_t row, std::int64_t batch) const {
  if (data == nullptr) return *this;
  const std::int64_t elements =
      batch * layout.stride_batch + head * layout.stride_head + row * layout.stride_row;
  return {data + elements * static_cast<std::int64_t>(element_bytes()), layout};
}

Tensor tensor_of(const void* data, const heed_score_layout& l) {
  return tensor_of(data, heed_layout{l.dtype, HEED_STRIDES_EXPLICIT, l.stride_batch, l.stride_head,
                                     l.stride_row, l.stride_key});
}

Tensor contiguous(void* data, std::uint32_t dtype, const Extent& extent) {
  return tensor_of(data, explicit_layout(unset_layout(dtype), extent));
}

void copy(const Tensor& from, const Tensor& to, const Extent& all) {
  Extent extent = all;
  const auto row_in_one = [&](const heed_layout& layout) {
    return layout.stride_head == all.features * layout.stride_feature;
  };
  if (row_in_one(from.layout) && row_in_one(to.layout))
    extent = {all.batch, 1, all.rows, all.heads * all.features};
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

void merge(const heed_context& context, const Extent& extent, const heed_layout& partial_out,
           const heed_layout& partial_lse, std::size_t count, const void* const* outs,
           const void* const* lses, const Tensor& out, const Tensor& lse) {
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  desc.batch = extent.batch;
  desc.heads = extent.heads;
  desc.rows = extent.rows;
  desc.features = extent.features;
  desc.part_out = partial_out;
  desc.part_lse = partial_lse;
  desc.out = out.layout;
  desc.lse = lse.layout;
  check(heed_merge(&context, &desc, count, outs, lses, out.data, lse.data));
}

std::size_t Writer::buffer_bytes(std::uint32_t real, std::int64_t features) {
  return static_cast<std::size_t>(std::max(kAddedAtOnce, features)) * bytes_of(real);
}

/// Merges one partial result, which converts it.
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
