#include "engine/mpi/written.hpp"

#include <algorithm>

namespace heed::mpi {
namespace {

/// Numbers that are added at a time, but for longer rows.
constexpr std::int64_t kNumbers = 1 << 14;

Tensor at(const Tensor& tensor, std::int64_t batch, std::int64_t head, std::int64_t row) {
  Tensor of_batch = tensor;
  of_batch.data +=
      batch * tensor.layout.stride_batch * static_cast<std::int64_t>(tensor.element_bytes());
  return of_batch.from(head, row);
}

}  // namespace

std::size_t Writer::room_bytes(std::uint32_t real, std::int64_t features) {
  return static_cast<std::size_t>(std::max(kNumbers, features)) * bytes_of(real);
}

/// A merge of one part.
void Writer::convert(const Tensor& from, const Tensor& to, const Extent& extent) const {
  static constexpr double kLse = 0;
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  desc.batch = extent.batch;
  desc.heads = extent.heads;
  desc.rows = extent.rows;
  desc.features = extent.features;
  desc.part_out = from.layout;
  desc.part_lse = {HEED_DTYPE_F64, HEED_STRIDES_EXPLICIT, 0, 0, 0, 0};
  desc.out = to.layout;
  const void* const outs[] = {from.data};
  const void* const lses[] = {&kLse};
  check(heed_merge(&context_, &desc, 1, outs, lses, to.data, nullptr));
}

void Writer::write(const Tensor& from, const Tensor& to, const Extent& extent) const {
  if (extent.elements() == 0) return;
  if (room_ == nullptr) return convert(from, to, extent);
  const std::int64_t most = std::max<std::int64_t>(kNumbers / extent.features, 1);
  for (std::int64_t b = 0; b < extent.batch; ++b)
    for (std::int64_t h = 0; h < extent.heads; ++h)
      for (std::int64_t row = 0; row < extent.rows; row += most) {
        const Extent some = {1, 1, std::min(most, extent.rows - row), extent.features};
        const Tensor room = contiguous(room_, real_, some);
        const Tensor there = at(to, b, h, row);
        const Tensor added = at(from, b, h, row);
        convert(there, room, some);
        for (std::int64_t i = 0; i < some.rows; ++i)
          add(added.from(0, i).data, room.from(0, i).data,
              static_cast<std::size_t>(extent.features) * bytes_of(real_), real_);
        convert(room, there, some);
      }
}

}  // namespace heed::mpi
