// The C boundary of caches.
#include "engine/cache/cache.hpp"

#include "api/heed.h"
#include "api/shim.hpp"
#include "engine/cache/attention.hpp"
#include "engine/cache/sequences.hpp"
#include "engine/runtime/structs.hpp"

using heed::guarded;
using heed::required;

heed_status heed_cache_bytes(const heed_cache_desc* desc, size_t* bytes) {
  return guarded([&] {
    const std::size_t needed = heed::validate(heed::read_struct(desc, "desc")).bytes;
    required(bytes, "bytes") = needed;
  });
}

heed_status heed_cache_create(const heed_context* context, const heed_cache_desc* desc,
                              heed_cache** cache) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    heed_cache*& result = required(cache, "cache");
    result = heed::make_cache(c, heed::read_struct(desc, "desc"));
  });
}

void heed_cache_destroy(heed_cache* cache) {
  if (cache != nullptr) heed::destroy_cache(cache);
}

heed_status heed_cache_describe(const heed_cache* cache, heed_cache_info* info) {
  return guarded(
      [&] { heed::write_struct(info, heed::describe(required(cache, "cache")), "info"); });
}

heed_status heed_cache_sequence_create(heed_cache* cache, heed_sequence* sequence) {
  return guarded([&] {
    heed_cache& c = required(cache, "cache");
    heed_sequence& result = required(sequence, "sequence");
    result = heed::create_sequence(c);
  });
}

heed_status heed_cache_fork(heed_cache* cache, heed_sequence from, heed_sequence* fork) {
  return guarded([&] {
    heed_cache& c = required(cache, "cache");
    heed_sequence& result = required(fork, "fork");
    result = heed::fork_sequence(c, from);
  });
}

heed_status heed_cache_free(heed_cache* cache, heed_sequence sequence) {
  return guarded([&] { heed::free_sequence(required(cache, "cache"), sequence); });
}

heed_status heed_cache_truncate(heed_cache* cache, heed_sequence sequence, int64_t length) {
  return guarded([&] { heed::truncate_sequence(required(cache, "cache"), sequence, length); });
}

heed_status heed_cache_length(const heed_cache* cache, heed_sequence sequence, int64_t layer,
                              int64_t* length) {
  return guarded([&] {
    const heed_cache& c = required(cache, "cache");
    std::int64_t& result = required(length, "length");
    result = heed::length_of(c, sequence, layer);
  });
}

heed_status heed_cache_append(heed_cache* cache, heed_sequence sequence,
                              const heed_cache_append_desc* desc, const void* key,
                              const void* value) {
  return guarded([&] {
    heed_cache& c = required(cache, "cache");
    const heed::Append append = heed::validate(c, heed::read_struct(desc, "desc"), key, value);
    if (c.context->checked)
      heed::audit_call<heed::kAppendOperands>(*c.context, append, &append.given);
    heed::run_append(c, sequence, append);
  });
}

heed_status heed_cache_attention(const heed_cache* cache, const heed_cache_attention_desc* desc,
                                 const heed_attention_args* args) {
  return guarded([&] {
    const heed_cache& c = required(cache, "cache");
    const heed_cache_attention_desc known = heed::read_struct(desc, "desc");
    const heed::CacheAttention attention(c, known, heed::read_struct(args, "args"));
    if (c.context->checked) heed::audit_cache_attention(attention);
    heed::run_alone(heed::make_plan(*c.context, attention.problem()), &attention.args());
  });
}

heed_status heed_cache_save_bytes(const heed_cache* cache, heed_sequence sequence, size_t* bytes) {
  return guarded([&] {
    const heed_cache& c = required(cache, "cache");
    std::size_t& result = required(bytes, "bytes");
    result = heed::saved_bytes(c, sequence);
  });
}

heed_status heed_cache_save(const heed_cache* cache, heed_sequence sequence, void* memory,
                            size_t bytes) {
  return guarded([&] {
    const heed_cache& c = required(cache, "cache");
    (void)required(static_cast<std::byte*>(memory), "memory");
    heed::save_to_memory(c, sequence, memory, bytes);
  });
}

heed_status heed_cache_load(heed_cache* cache, const void* memory, size_t bytes,
                            heed_sequence* sequence) {
  return guarded([&] {
    heed_cache& c = required(cache, "cache");
    (void)required(static_cast<const std::byte*>(memory), "memory");
    heed_sequence& result = required(sequence, "sequence");
    result = heed::load_from_memory(c, memory, bytes);
  });
}

heed_status heed_cache_save_file(const heed_cache* cache, heed_sequence sequence, int descriptor) {
  return guarded([&] { heed::save_to_file(required(cache, "cache"), sequence, descriptor); });
}

heed_status heed_cache_load_file(heed_cache* cache, int descriptor, heed_sequence* sequence) {
  return guarded([&] {
    heed_cache& c = required(cache, "cache");
    heed_sequence& result = required(sequence, "sequence");
    result = heed::load_from_file(c, descriptor);
  });
}
