#include "tests/cache/held.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace heed_test {
namespace {

heed_layout layout_in_sequence(const Tensor& tensor) {
  const Axes& s = tensor.strides();
  return {tensor.dtype(), HEED_STRIDES_EXPLICIT, 0, s[1], s[2], s[3]};
}

const void* address(const Tensor& tensor, const Axes& at) {
  Index offset = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) offset += at[axis] * tensor.strides()[axis];
  return static_cast<const char*>(tensor.data()) + offset * format_of(tensor.dtype()).bytes;
}

void resize(std::vector<double>& rows, Index length, Index numbers) {
  rows.resize(static_cast<std::size_t>(length * numbers));
}

}  // namespace

heed_status append(const Cache& cache, heed_sequence sequence, const Call& call, const Tensor& key,
                   const Tensor& value, Index batch, Index begin, Index end) {
  heed_cache_append_desc desc = HEED_CACHE_APPEND_DESC_INIT;
  desc.layer = call.layer;
  desc.position_offset = call.offset;
  if (!call.positions.empty()) desc.positions = call.positions.data();
  desc.rows = end - begin;
  desc.key = layout_in_sequence(key);
  desc.value = layout_in_sequence(value);
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

Held::Held(const Context& context, const heed_cache_desc& given)
    : desc(given), cache(make_cache(context, given)) {}

Index Held::rows(const Sequence& s, Index layer) const {
  return static_cast<Index>(s.keys[static_cast<std::size_t>(layer)].size()) /
         (desc.key_heads * desc.features);
}

void Held::create() {
  Sequence made;
  require_ok(heed_cache_sequence_create(cache.get(), &made.id));
  made.keys.resize(static_cast<std::size_t>(desc.layers));
  made.values.resize(static_cast<std::size_t>(desc.layers));
  sequences.push_back(made);
}

void Held::fork(std::size_t i) {
  Sequence made = sequences[i];
  require_ok(heed_cache_fork(cache.get(), sequences[i].id, &made.id));
  sequences.push_back(made);
}

void Held::free(std::size_t i) {
  require_ok(heed_cache_free(cache.get(), sequences[i].id));
  sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(i));
}

void Held::truncate(std::size_t i, Index length) {
  require_ok(heed_cache_truncate(cache.get(), sequences[i].id, length));
  for (auto& keys : sequences[i].keys) resize(keys, length, desc.key_heads * desc.features);
  for (auto& values : sequences[i].values)
    resize(values, length, desc.key_heads * desc.value_features);
}

bool Held::append(std::size_t i, Index layer, Index rows, Random& random) {
  const auto draw = [&](Index features) {
    const auto dtype =
        random.pick<std::uint32_t>({HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16});
    const auto arrangement =
        static_cast<Arrangement>(random.integer(1, static_cast<Index>(Arrangement::kCount) - 1));
    Tensor tensor = placed({1, desc.key_heads, rows, features}, arrangement, dtype, 0);
    tensor.fill([&] { return random.normal(); });
    return tensor;
  };
  const Tensor key = draw(desc.features);
  const Tensor value = draw(desc.value_features);
  const heed_status status =
      heed_test::append(cache, sequences[i].id, {layer}, key, value, 0, 0, rows);
  if (status == HEED_STATUS_OUT_OF_MEMORY) return false;
  require_ok(status);
  const auto hold = [&](std::vector<double>& all, const Tensor& given) {
    for (Index row = 0; row < rows; ++row)
      for (Index head = 0; head < desc.key_heads; ++head)
        for (Index x = 0; x < given.shape()[3]; ++x) all.push_back(given.get({0, head, row, x}));
  };
  hold(sequences[i].keys[static_cast<std::size_t>(layer)], key);
  hold(sequences[i].values[static_cast<std::size_t>(layer)], value);
  return true;
}

Problem Held::problem(const std::vector<std::size_t>& of, Index layer, Index query_length,
                      Index query_heads, Random& random) const {
  Index longest = 0;
  std::vector<std::int32_t> lengths;
  for (const std::size_t i : of) {
    lengths.push_back(static_cast<std::int32_t>(rows(sequences[i], layer)));
    longest = std::max<Index>(longest, lengths.back());
  }
  Sizes sizes = {query_length,
                 longest,
                 desc.features,
                 desc.value_features,
                 static_cast<Index>(of.size()),
                 query_heads,
                 desc.key_heads};
  sizes.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  Problem p(sizes);
  p.query.fill([&] { return random.normal(); });
  p.key_lengths = lengths;
  const auto hold = [&](Tensor Problem::*tensor,
                        std::vector<std::vector<double>> Sequence::*numbers) {
    Tensor given = p.*tensor;
    given.fill([&](const Axes& at) {
      const auto b = static_cast<std::size_t>(at[0]);
      if (at[2] >= lengths[b]) return 0.0;
      const auto& all = (sequences[of[b]].*numbers)[static_cast<std::size_t>(layer)];
      const Index place = (at[2] * desc.key_heads + at[1]) * given.shape()[3] + at[3];
      return all[static_cast<std::size_t>(place)];
    });
    store(p, tensor, given, desc);
  };
  hold(&Problem::key, &Sequence::keys);
  hold(&Problem::value, &Sequence::values);
  return p;
}

std::vector<heed_sequence> Held::ids(const std::vector<std::size_t>& of) const {
  std::vector<heed_sequence> all(of.size());
  for (std::size_t n = 0; n < of.size(); ++n) all[n] = sequences[of[n]].id;
  return all;
}

}  // namespace heed_test
