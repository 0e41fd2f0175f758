#include <cmath>

#include "engine/cache/cache.hpp"
#include "engine/cache/format.hpp"
#include "engine/cache/growth.hpp"
#include "engine/cache/sequences.hpp"
#include "engine/cache/streams.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

using Long = long long;

void check_format(const Header& h) {
  if (h.magic != kMagic)
    fail(HEED_STATUS_CORRUPT,
         "the first 8 bytes are 0x%016llx; those of a saved sequence are 0x%016llx",
         static_cast<unsigned long long>(h.magic), static_cast<unsigned long long>(kMagic));
  if (h.byte_order != kByteOrder)
    fail(HEED_STATUS_CORRUPT,
         "the byte order of the saved sequence is 0x%08x; it must be 0x%08x, little-endian",
         h.byte_order, kByteOrder);
  if (h.version != kVersion)
    fail(HEED_STATUS_UNSUPPORTED, "the version of the saved sequence is %u; this library reads %u",
         h.version, kVersion);
}

/// Throws unless such a cache may hold it.
void check_fits(const CacheProblem& p, const Header& h) {
  const Header own = header_of(p, 0);
  const struct {
    const char* field;
    std::int64_t is, must_be;
  } numbers[] = {{"dtype", h.dtype, own.dtype},
                 {"layers", h.layers, own.layers},
                 {"key_heads", h.key_heads, own.key_heads},
                 {"features", h.features, own.features},
                 {"value_features", h.value_features, own.value_features},
                 {"rotary.pairs", h.pairs, own.pairs},
                 {"rotary.features", h.turned, own.turned},
                 {"rotary.table_rows", h.table_rows, own.table_rows}};
  for (const auto& number : numbers)
    if (number.is != number.must_be)
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "%s of the saved sequence is %lld; it must be the cache's, %lld", number.field,
           static_cast<Long>(number.is), static_cast<Long>(number.must_be));
  const struct {
    const char* field;
    double is, must_be;
  } reals[] = {{"key_scale", h.key_scale, own.key_scale},
               {"value_scale", h.value_scale, own.value_scale},
               {"rotary.base", h.base, own.base}};
  for (const auto& real : reals)
    if (!(real.is == real.must_be) || std::signbit(real.is) != std::signbit(real.must_be))
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "%s of the saved sequence is %.17g; it must be the cache's, %.17g", real.field, real.is,
           real.must_be);
  if (h.tables != own.tables)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "the checksum of the saved sequence's rotary tables is 0x%016llx; it must be that of the "
         "cache's, 0x%016llx",
         static_cast<unsigned long long>(h.tables), static_cast<unsigned long long>(own.tables));
  if (h.length < 0 || h.length > INT32_MAX)
    fail(HEED_STATUS_CORRUPT, "the length of the saved sequence is %lld; it must be 0 to %d",
         static_cast<Long>(h.length), INT32_MAX);
  const std::int64_t wanted = ceil_div(h.length, p.page_rows);
  if (wanted > p.pages)
    fail(HEED_STATUS_OUT_OF_MEMORY,
         "the saved sequence of %lld rows takes %lld pages; the cache has %lld",
         static_cast<Long>(h.length), static_cast<Long>(wanted), static_cast<Long>(p.pages));
}

/// A new sequence, which is freed unless it is kept.
class NewSequence {
 public:
  explicit NewSequence(heed_cache& cache) : cache_(cache), id_(create_sequence(cache)) {}
  ~NewSequence() {
    if (!kept_) free_sequence(cache_, id_);
  }
  NewSequence(const NewSequence&) = delete;
  NewSequence& operator=(const NewSequence&) = delete;
  heed_sequence id() const { return id_; }
  heed_sequence keep() {
    kept_ = true;
    return id_;
  }

 private:
  heed_cache& cache_;
  const heed_sequence id_;
  bool kept_ = false;
};

heed_sequence load(heed_cache& cache, InputStream& from) {
  const CacheProblem& p = cache.problem;
  Header header;
  from.expect(sizeof header + sizeof(Sum));
  from.read(&header, sizeof header);
  check_format(header);
  check_fits(p, header);
  from.expect(bytes_of_saved(p, header.length));
  NewSequence made(cache);
  for (std::int64_t layer = 0; layer < p.layers && header.length > 0; ++layer) {
    Growth growth(cache, made.id(), layer, header.length);
    each_run(p, header.length, growth,
             [&](void* begin, std::size_t bytes) { from.read(begin, bytes); });
    growth.keep();
  }
  const Sum sum = from.checksum();
  Sum saved = 0;
  from.read(&saved, sizeof saved);
  if (sum != saved)
    fail(HEED_STATUS_CORRUPT,
         "the checksum of the saved sequence is 0x%016llx; that of its bytes is 0x%016llx, so they "
         "have been altered",
         static_cast<unsigned long long>(saved), static_cast<unsigned long long>(sum));
  return made.keep();
}

}  // namespace

heed_sequence load_from_memory(heed_cache& cache, const void* memory, std::size_t bytes) {
  MemoryInput from(memory, bytes);
  return load(cache, from);
}

heed_sequence load_from_file(heed_cache& cache, int descriptor) {
  FileInput from(cache.context->allocator, descriptor);
  return load(cache, from);
}

}  // namespace heed
