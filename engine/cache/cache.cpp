#include "engine/cache/cache.hpp"

#include <limits>
#include <new>

#include "engine/cache/sequences.hpp"
#include "engine/dense/problem.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {
namespace {

ElementType stored_type(std::uint32_t dtype) {
  const heed_layout stored = {dtype, 0, 0, 0, 0, 0};
  const ElementType type =
      layout_of("desc", stored, {1, 1, 1, 1}, {ElementType::kF32, false, false, HEED_DTYPE_F8_E4M3})
          .type;
  if (type == ElementType::kF64)
    refuse(
        "desc.dtype is %u; it must be another than HEED_DTYPE_F64 (2): the arithmetic is float32",
        dtype);
  return type;
}

/// The scale of all rows, as float32.
float resolve_scale(const char* field, double scale, std::uint32_t dtype) {
  if (scale != 0 && dtype != HEED_DTYPE_F8_E4M3)
    refuse("desc.%s is %g with desc.dtype %u; it must be 0 unless dtype is HEED_DTYPE_F8_E4M3 (6)",
           field, scale, dtype);
  constexpr double kLeast = std::numeric_limits<float>::min();
  constexpr double kMost = std::numeric_limits<float>::max();
  if (scale != 0 && !(scale >= kLeast && scale <= kMost))
    refuse("desc.%s is %g; it must be %g to %g, or 0 for the default 1", field, scale, kLeast,
           kMost);
  return scale == 0 ? 1.0F : static_cast<float>(scale);
}

/// A field's default, and a bound that depends on nothing.
std::int64_t size_of(const char* field, std::int64_t given, std::int64_t if_zero) {
  check_size(field, given, if_zero == 0 ? 1 : 0);
  return given == 0 ? if_zero : given;
}

void check_at_most(const char* field, std::int64_t value, std::int64_t most) {
  if (value > most)
    refuse("desc.%s is %lld; it must be at most %lld", field, lld(value), lld(most));
}

/// Where all that the cache holds lies.
void lay_out(CacheProblem& p) {
  Offsets offsets;
  offsets.take(1, 1, sizeof(heed_cache));
  p.slots = offsets.take(p.sequences, 1, sizeof(Slot));
  p.lengths = offsets.take(p.sequences, p.layers, sizeof(std::int32_t));
  p.previous = offsets.take(p.pages, 1, sizeof(std::int32_t));
  p.references = offsets.take(p.pages, 1, sizeof(std::int32_t));
  p.frequencies = offsets.take(p.rotary.base == 0 ? 0 : p.rotary.angles(), 1, sizeof(double));
  const Size rows = Size(p.pages) * p.key_heads * p.page_rows;
  for (Storage* const stored : {&p.key, &p.value}) {
    const Size row_bytes = Size(stored->features) * bytes_of(p.type);
    const Size pool_bytes = round_up(rows * row_bytes, kAlignment);
    stored->row_bytes = static_cast<std::size_t>(row_bytes.value());
    stored->pool_bytes = static_cast<std::size_t>(pool_bytes.value());
    stored->pools = offsets.take(p.layers, pool_bytes, 1);
    const Size scales_bytes =
        p.rows_have_scales() ? round_up(rows * sizeof(float), kAlignment) : Size(0);
    stored->scales_bytes = static_cast<std::size_t>(scales_bytes.value());
    stored->scales = offsets.take(p.layers, scales_bytes, 1);
  }
  p.bytes = offsets.end("the cache", {{"desc.layers", p.layers},
                                      {"desc.key_heads", p.key_heads},
                                      {"desc.features", p.key.features},
                                      {"desc.value_features", p.value.features},
                                      {"desc.page_rows", p.page_rows},
                                      {"desc.pages", p.pages},
                                      {"desc.sequences", p.sequences}});
}

}  // namespace

CacheProblem validate(const heed_cache_desc& desc) {
  constexpr std::int64_t kMostSequences = std::int64_t{1} << kSlotBits;
  CacheProblem p{};
  p.dtype = desc.dtype == HEED_DTYPE_DEFAULT ? std::uint32_t{HEED_DTYPE_F32} : desc.dtype;
  p.type = stored_type(p.dtype);
  p.layers = size_of("layers", desc.layers, 1);
  p.key_heads = size_of("key_heads", desc.key_heads, 0);
  p.key.features = size_of("features", desc.features, 0);
  p.value.features = size_of("value_features", desc.value_features, desc.features);
  p.page_rows = desc.page_rows == 0 ? 64 : desc.page_rows;
  check_page_rows(p.page_rows);
  p.pages = size_of("pages", desc.pages, 0);
  check_at_most("pages", p.pages, INT32_MAX);
  p.sequences = size_of("sequences", desc.sequences, 1024);
  check_at_most("sequences", p.sequences, kMostSequences);
  p.key.scale = resolve_scale("key_scale", desc.key_scale, p.dtype);
  p.value.scale = resolve_scale("value_scale", desc.value_scale, p.dtype);
  p.rotary = resolve_rotary("desc.rotary", desc.rotary, p.key.features);
  lay_out(p);
  return p;
}

heed_cache* make_cache(const heed_context& context, const heed_cache_desc& desc) {
  const CacheProblem problem = validate(desc);
  void* const memory = allocate(context.allocator, problem.bytes, kAlignment);
  auto* const cache = new (memory) heed_cache(context, problem);
  share(context);
  prefer_large_pages(cache->memory(problem.key.pools), cache->memory(problem.bytes));
  return cache;
}

void destroy_cache(heed_cache* cache) noexcept {
  const heed_context* const context = cache->context;
  const std::size_t bytes = cache->problem.bytes;
  cache->~heed_cache();
  context->allocator.release(context->allocator.user, cache, bytes);
  release(context);
}

heed_cache_info describe(const heed_cache& cache) {
  const CacheProblem& p = cache.problem;
  heed_cache_info info = HEED_CACHE_INFO_INIT;
  info.dtype = p.dtype;
  info.pages = p.pages;
  info.page_rows = p.page_rows;
  info.bytes = p.bytes;
  info.page_bytes = p.page_bytes();
  const std::lock_guard<std::mutex> lock(cache.mutex);
  info.sequences = cache.alive;
  info.pages_used = p.pages - cache.pages.free();
  info.pages_shared = info.pages_used;
  for (std::int64_t slot = 0; slot < p.sequences; ++slot)  // free ones have no pages
    info.pages_shared -= cache.pages.own(cache.slots[slot].last, cache.slots[slot].pages);
  return info;
}

}  // namespace heed

heed_cache::heed_cache(const heed_context& of, const heed::CacheProblem& checked)
    : context(&of),
      problem(checked),
      pages(reinterpret_cast<std::int32_t*>(memory(checked.previous)),
            reinterpret_cast<std::int32_t*>(memory(checked.references)), checked.pages),
      slots(reinterpret_cast<heed::Slot*>(memory(checked.slots))),
      lengths(reinterpret_cast<std::int32_t*>(memory(checked.lengths))),
      frequencies(checked.rotary.base == 0
                      ? nullptr
                      : reinterpret_cast<double*>(memory(checked.frequencies))) {
  if (frequencies != nullptr) fill_frequencies(problem.rotary, frequencies);
  for (std::int64_t slot = 0; slot < problem.sequences; ++slot)
    new (slots + slot) heed::Slot{0, slot + 1, 0, heed::kNoPage, false, 0};
}
