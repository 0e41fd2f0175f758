#include "engine/cache/attention.hpp"

#include <algorithm>
#include <mutex>

#include "engine/dense/operands.hpp"
#include "engine/dense/rotate.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/structs.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {
namespace {

/// The descriptor of the attention inside, without the fields that the cache knows.
heed_attention_desc read_attention(const heed_cache& cache, const heed_cache_attention_desc& desc) {
  check_reserved("desc.reserved", desc.reserved);
  check_layer(cache, "desc.layer", desc.layer);
  heed_attention_desc attention = read_struct(desc.attention, "desc.attention");
  const struct {
    const char* name;
    std::int64_t value;
  } sizes[] = {{"key_heads", attention.key_heads},
               {"features", attention.features},
               {"value_features", attention.value_features},
               {"packed_keys", attention.packed_keys},
               {"pages", attention.pages},
               {"page_rows", attention.page_rows},
               {"block_table_stride", attention.block_table_stride}};
  for (const auto& size : sizes)
    if (size.value != 0)
      refuse("desc.attention->%s is %lld; it must be 0: the cache knows it", size.name,
             lld(size.value));
  constexpr const char* kWhy = "the cache knows it";
  check_unset("desc.attention->key", attention.key, kWhy);
  check_unset("desc.attention->value", attention.value, kWhy);
  check_unset("desc.attention->key_scales", attention.key_scales, kWhy);
  check_unset("desc.attention->value_scales", attention.value_scales, kWhy);
  for (const auto& [name, dtype] :
       {std::pair{"query", attention.query.dtype}, std::pair{"out", attention.out.dtype}})
    if (dtype == HEED_DTYPE_F64)
      refuse(
          "desc.attention->%s.dtype is %u; it must be another than HEED_DTYPE_F64 (2): the cache's "
          "keys are float32 at most",
          name, dtype);
  check_size("attention->batch", attention.batch, 0);
  check_size("attention->key_length", attention.key_length, 0);
  check_alignment("desc.sequences", desc.sequences, sizeof(heed_sequence));
  if (desc.sequences == nullptr && attention.batch > 0)
    refuse("desc.sequences is NULL; desc.attention->batch is %lld", lld(attention.batch));
  return attention;
}

heed_attention_args check_own(const heed_attention_args& args) {
  const struct {
    const char* name;
    const void* pointer;
  } own[] = {{"key", args.key},
             {"value", args.value},
             {"key_lengths", args.key_lengths},
             {"cu_seqlens_k", args.cu_seqlens_k},
             {"block_table", args.block_table},
             {"key_scales", args.key_scales},
             {"value_scales", args.value_scales}};
  for (const auto& tensor : own)
    if (tensor.pointer != nullptr)
      refuse("args.%s is given; it must be NULL: it is the cache's", tensor.name);
  return args;
}

}  // namespace

CacheAttention::CacheAttention(const heed_cache& cache, const heed_cache_attention_desc& desc,
                               const heed_attention_args& args)
    : cache_(cache),
      desc_(read_attention(cache, desc)),
      args_(check_own(args)),
      readers_(cache, desc.sequences, desc_.batch) {
  const CacheProblem& p = cache.problem;
  const Positions positions = {p.rotary, desc.position_offset, desc.positions};
  positions.check();
  find_lengths(desc.layer);
  find_pages();
  desc_.key_heads = p.key_heads;
  desc_.features = p.key.features;
  desc_.value_features = p.value.features;
  desc_.key.dtype = desc_.value.dtype = p.dtype;
  desc_.pages = p.pages;
  desc_.page_rows = p.page_rows;
  args_.key = cache.pool(p.key, desc.layer);
  args_.value = cache.pool(p.value, desc.layer);
  if (is_scaled(p.type)) {
    args_.key_scales = p.rows_have_scales() ? cache.scales(p.key, desc.layer) : &p.key.scale;
    args_.value_scales = p.rows_have_scales() ? cache.scales(p.value, desc.layer) : &p.value.scale;
  }
  args_.key_lengths = lengths_.data();
  args_.block_table = table_.data();
  problem_ = within("desc.attention", [&] { return validate(desc_); });
  if (p.rotary.turns()) turn_queries(positions);
}

/// Finds the length of every sequence, and of the longest.
void CacheAttention::find_lengths(std::int64_t layer) {
  lengths_ = Array<std::int32_t>(cache_.context->allocator, readers_.count());
  const std::int64_t given = desc_.key_length;
  for (std::int64_t b = 0; b < readers_.count(); ++b) {
    lengths_[b] = cache_.lengths_of(readers_.slot(b))[layer];
    if (given > 0 && lengths_[b] > given)
      refuse(
          "desc.attention->key_length is %lld; it must be 0 or at least %d, the rows of "
          "desc.sequences[%lld]",
          lld(given), lengths_[b], lld(b));
    desc_.key_length = std::max<std::int64_t>(desc_.key_length, lengths_[b]);
  }
}

/// A sequence may have more pages than the rows of this layer take.
void CacheAttention::find_pages() {
  const std::int64_t width = ceil_div(desc_.key_length, cache_.problem.page_rows);
  table_ = Array<std::int32_t>(cache_.context->allocator, (Size(readers_.count()) * width).value());
  for (std::int64_t b = 0; b < readers_.count(); ++b) {
    const Slot& slot = cache_.slots[readers_.slot(b)];
    cache_.pages.list(slot.last, slot.pages, width, table_.data() + b * width);
  }
}

/// Queries become float32, [batch, head, row, feature]; rows of no sequence stand at 0.
void CacheAttention::turn_queries(const Positions& positions) {
  const heed_allocator& allocator = cache_.context->allocator;
  validate(problem_, args_);
  RotateProblem turn{};
  std::copy_n(query_axes(problem_).sizes, 4, turn.sizes);
  const auto& [batch, heads, rows, features] = turn.sizes;
  turn.rows = (Size(batch) * heads * rows).value();
  if (turn.rows == 0) return;
  turn.from = problem_.query;
  turn.to = {
      ElementType::kF32, sizeof(float), {heads * rows * features, rows * features, features, 1}};
  turn.rotary = cache_.problem.rotary;
  Array<std::int64_t> places(allocator, (Size(batch) * rows).value());
  std::fill(places.begin(), places.end(), 0);
  for (std::int64_t b = 0; b < readers_.count(); ++b) {
    const Sequence s = sequence_of(problem_, args_, b);
    const std::int64_t first = problem_.packed_queries > 0 ? s.query_begin : b * rows;
    const std::int64_t at = s.key_length - s.query_length;
    positions.check_rows(first, at, s.query_length);
    for (std::int64_t i = 0; i < s.query_length; ++i)
      places[first + i] = positions.of(first + i, at + i);
  }
  queries_ = Array<float>(allocator, (Size(turn.rows) * features).value());
  run_rotate(*cache_.context, turn,
             {args_.query, places.data(), queries_.data(), cache_.frequencies});
  problem_.query = turn.to;
  if (problem_.packed_queries > 0) problem_.query.strides.batch = 0;
  args_.query = queries_.data();
}

}  // namespace heed
