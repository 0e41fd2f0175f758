#include "engine/cache/format.hpp"

#include "engine/runtime/checksum.hpp"

namespace heed {
namespace {

Sum checksum_of_tables(const Rotary& rotary) {
  Checksum sum;
  const auto bytes = static_cast<std::size_t>(rotary.angles()) * sizeof(float);
  for (const float* const table : {rotary.cosines, rotary.sines})
    for (std::int64_t row = 0; row <= rotary.last_position; ++row)
      sum.add(table + row * rotary.table_stride, bytes);
  return sum.value();
}

}  // namespace

Header header_of(const CacheProblem& p, std::int64_t length) {
  Header h{};
  h.magic = kMagic;
  h.byte_order = kByteOrder;
  h.version = kVersion;
  h.dtype = p.dtype;
  h.pairs = p.rotary.pairs;
  h.layers = p.layers;
  h.key_heads = p.key_heads;
  h.features = p.key.features;
  h.value_features = p.value.features;
  h.length = length;
  h.key_scale = static_cast<double>(p.key.scale);
  h.value_scale = static_cast<double>(p.value.scale);
  h.turned = p.rotary.features;
  h.base = p.rotary.base;
  if (p.rotary.cosines == nullptr) return h;
  h.table_rows = p.rotary.last_position + 1;
  h.tables = checksum_of_tables(p.rotary);
  return h;
}

std::size_t bytes_of_saved(const CacheProblem& p, std::int64_t length) {
  const std::size_t row = p.page_bytes() / static_cast<std::size_t>(p.page_rows);
  return sizeof(Header) + static_cast<std::size_t>(length) * row + sizeof(Sum);
}

}  // namespace heed
