#include "tests/cache/calls.hpp"

namespace heed_test {
namespace {

/// Any stride does along an axis of one element.
heed_layout layout_in_sequence(const Tensor& tensor, Index rows) {
  const Axes shape = {1, tensor.shape()[1], rows, tensor.shape()[3]};
  Axes s = tensor.strides();
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (shape[axis] == 1) s[axis] = axis % 2 == 0 ? INT64_MIN : INT64_MAX;
  return {tensor.dtype(), HEED_STRIDES_EXPLICIT, s[0], s[1], s[2], s[3]};
}

const void* address(const Tensor& tensor, const Axes& at) {
  Index offset = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) offset += at[axis] * tensor.strides()[axis];
  return static_cast<const char*>(tensor.data()) + offset * format_of(tensor.dtype()).bytes;
}

}  // namespace

heed_status append(const Cache& cache, heed_sequence sequence, const Call& call, const Tensor& key,
                   const Tensor& value, Index batch, Index begin, Index end) {
  heed_cache_append_desc desc = HEED_CACHE_APPEND_DESC_INIT;
  desc.layer = call.layer;
  desc.position_offset = call.offset;
  if (!call.positions.empty()) desc.positions = call.positions.data();
  desc.rows = end - begin;
  desc.key = layout_in_sequence(key, desc.rows);
  desc.value = layout_in_sequence(value, desc.rows);
  const auto from = [&](const Tensor& tensor) {
    return begin < end ? address(tensor, {batch, 0, begin, 0}) : nullptr;
  };
  return heed_cache_append(cache.get(), sequence, &desc, from(key), from(value));
}

std::uint32_t draw_stored(Random& random) {
  return random.pick<std::uint32_t>(
      {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_I8, HEED_DTYPE_F8_E4M3});
}

void store(Problem& p, Tensor Problem::*rows, const Tensor& given, const heed_cache_desc& desc) {
  const bool keys = rows == &Problem::key;
  Tensor& to = p.*rows = placed(given.shape(), Arrangement::kContiguous, desc.dtype, 0);
  (keys ? p.desc.key : p.desc.value) = to.layout();
  std::optional<Tensor>& scales = keys ? p.key_scales : p.value_scales;
  heed_layout& scale_layout = keys ? p.desc.key_scales : p.desc.value_scales;
  scales.reset();
  scale_layout = HEED_LAYOUT_INIT;
  const bool by_row = desc.dtype == HEED_DTYPE_I8;
  const Axes& n = given.shape();
  if (by_row || desc.dtype == HEED_DTYPE_F8_E4M3)
    scales = placed(by_row ? Axes{n[0], n[1], n[2], 1} : Axes{1, 1, 1, 1}, Arrangement::kContiguous,
                    HEED_DTYPE_F32, 0);
  if (by_row) scale_layout = scales->layout();
  const double told = keys ? desc.key_scale : desc.value_scale;
  std::vector<double> all;
  given.each([&](const Axes& at) { all.push_back(given.get(at)); });
  std::size_t i = 0;
  p.store(rows, (told == 0 ? 1 : told) * format_of(HEED_DTYPE_F8_E4M3).largest,
          [&] { return all[i++]; });
}

Outputs attend(const Cache& cache, Problem& p, const std::vector<heed_sequence>& sequences,
               const Call& call) {
  heed_attention_desc attention = p.desc;
  attention.key_heads = attention.features = attention.value_features = 0;
  attention.key = attention.value = HEED_LAYOUT_INIT;
  attention.key_scales = attention.value_scales = HEED_LAYOUT_INIT;
  attention.key_length = call.key_length;
  heed_cache_attention_desc desc = HEED_CACHE_ATTENTION_DESC_INIT;
  desc.attention = &attention;
  desc.sequences = sequences.data();
  desc.layer = call.layer;
  desc.position_offset = call.offset;
  if (!call.positions.empty()) desc.positions = call.positions.data();
  return p.run_all([&](heed_attention_args args) {
    args.key = args.value = nullptr;
    args.key_lengths = nullptr;
    args.key_scales = args.value_scales = nullptr;
    return heed_cache_attention(cache.get(), &desc, &args);
  });
}

}  // namespace heed_test
