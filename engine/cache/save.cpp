#include "engine/cache/save.hpp"

#include <algorithm>
#include <cstring>

#include "engine/cache/growth.hpp"
#include "engine/cache/sequences.hpp"
#include "engine/cache/streams.hpp"
#include "engine/runtime/array.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

using Long = long long;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are saved as they lie");

constexpr std::uint64_t kMagic = 0x0a71657364656568;  // "heedseq\n"
constexpr std::uint32_t kByteOrder = 0x01020304;
constexpr std::uint32_t kVersion = 1;

/// What a saved sequence begins with.
struct Header {
  std::uint64_t magic;
  std::uint32_t byte_order;
  std::uint32_t version;
  std::uint32_t dtype;
  std::uint32_t pairs;  ///< heed_rotary_pairs
  std::int64_t layers, key_heads, features, value_features;
  std::int64_t length;
  std::int64_t turned;  ///< rotary features
  double base;          ///< 0: tables
  std::int64_t table_rows;
  std::uint64_t tables;  ///< checksum of what tables hold
};
static_assert(sizeof(Header) == 96, "there is no padding");

using Sum = std::uint64_t;

Sum checksum_of_tables(const Rotary& rotary) {
  Checksum sum;
  const auto bytes = static_cast<std::size_t>(rotary.angles()) * sizeof(float);
  for (const float* const table : {rotary.cosines, rotary.sines})
    for (std::int64_t row = 0; row <= rotary.last_position; ++row)
      sum.add(table + row * rotary.table_stride, bytes);
  return sum.value();
}

Header header_of(const CacheProblem& p, std::int64_t length) {
  Header h = {kMagic,
              kByteOrder,
              kVersion,
              p.dtype,
              p.rotary.pairs,
              p.layers,
              p.key_heads,
              p.key.features,
              p.value.features,
              length,
              p.rotary.features,
              p.rotary.base,
              0,
              0};
  if (p.rotary.cosines != nullptr) {
    h.table_rows = p.rotary.last_position + 1;
    h.tables = checksum_of_tables(p.rotary);
  }
  return h;
}

/// Of all, from header to checksum; the cache has pages for so many rows.
std::size_t bytes_of_saved(const CacheProblem& p, std::int64_t length) {
  const auto rows = static_cast<std::size_t>(p.layers * p.key_heads * length);
  return sizeof(Header) + rows * (p.key.row_bytes + p.value.row_bytes) + sizeof(Sum);
}

/// Calls each(row, bytes) for a layer's rows in the order in which they are saved, as many at once
/// as lie side by side; row_at(stored, t, head) is where row t of a head lies.
template <class RowAt, class Each>
void each_run(const CacheProblem& p, std::int64_t length, const RowAt& row_at, const Each& each) {
  for (const Stored* const stored : {&p.key, &p.value})
    for (std::int64_t head = 0; head < p.key_heads; ++head)
      for (std::int64_t t = 0; t < length; t += p.page_rows)
        each(row_at(*stored, t, head),
             static_cast<std::size_t>(std::min(p.page_rows, length - t)) * stored->row_bytes);
}

// ---- Saving ------------------------------------------------------------------------------------

/// The rows that every layer of a sequence has.
std::int64_t common_length(const heed_cache& cache, std::int64_t slot) {
  const std::int32_t* const lengths = cache.lengths_of(slot);
  for (std::int64_t layer = 1; layer < cache.problem.layers; ++layer)
    if (lengths[layer] != lengths[0])
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "layer %lld of the sequence has %d rows; it must have %d, as layer 0, to be saved",
           static_cast<Long>(layer), lengths[layer], lengths[0]);
  return lengths[0];
}

/// A sequence that nobody changes meanwhile.
class Saving {
 public:
  Saving(const heed_cache& cache, heed_sequence sequence)
      : cache_(cache),
        use_(cache, sequence, Access::kRead),
        length_(common_length(cache, use_.slot())) {}

  std::size_t bytes() const { return bytes_of_saved(cache_.problem, length_); }

  void write_to(Output& to) const {
    const CacheProblem& p = cache_.problem;
    const Slot& slot = cache_.slots[use_.slot()];
    Array<std::int32_t> pages(cache_.context->allocator, slot.pages);
    std::int32_t page = slot.last;
    for (std::int64_t n = slot.pages; n-- > 0; page = cache_.pages.before(page)) pages[n] = page;
    const Header header = header_of(p, length_);
    to.write(&header, sizeof header);
    for (std::int64_t layer = 0; layer < p.layers; ++layer)
      each_run(
          p, length_,
          [&](const Stored& stored, std::int64_t t, std::int64_t head) {
            return cache_.rows(stored, layer, pages[t / p.page_rows], head);
          },
          [&](const std::byte* rows, std::size_t bytes) { to.write(rows, bytes); });
    const Sum sum = to.checksum();
    to.write(&sum, sizeof sum);
    to.flush();
  }

 private:
  const heed_cache& cache_;
  const Use use_;
  const std::int64_t length_;
};

// ---- Loading -----------------------------------------------------------------------------------

void check_format(const Header& h) {
  if (h.magic != kMagic)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "the first 8 bytes are 0x%016llx; those of a saved sequence are 0x%016llx",
         static_cast<unsigned long long>(h.magic), static_cast<unsigned long long>(kMagic));
  if (h.byte_order != kByteOrder)
    fail(HEED_STATUS_INVALID_ARGUMENT,
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
  if (h.base != own.base)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "rotary.base of the saved sequence is %.17g; it must be the cache's, %.17g", h.base,
         own.base);
  if (h.tables != own.tables)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "the checksum of the saved sequence's rotary tables is 0x%016llx; it must be that of the "
         "cache's, 0x%016llx",
         static_cast<unsigned long long>(h.tables), static_cast<unsigned long long>(own.tables));
  if (h.length < 0 || h.length > INT32_MAX)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "the length of the saved sequence is %lld; it must be 0 to %d",
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

heed_sequence load(heed_cache& cache, Input& from) {
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
    each_run(
        p, header.length,
        [&](const Stored& stored, std::int64_t t, std::int64_t head) {
          return growth.row(stored, t, head);
        },
        [&](std::byte* rows, std::size_t bytes) { from.read(rows, bytes); });
    growth.keep();
  }
  const Sum sum = from.checksum();
  Sum saved = 0;
  from.read(&saved, sizeof saved);
  if (sum != saved)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "the checksum of the saved sequence is 0x%016llx; that of its bytes is 0x%016llx, so they "
         "have been altered",
         static_cast<unsigned long long>(saved), static_cast<unsigned long long>(sum));
  return made.keep();
}

}  // namespace

std::size_t saved_bytes(const heed_cache& cache, heed_sequence sequence) {
  return Saving(cache, sequence).bytes();
}

void save_to_memory(const heed_cache& cache, heed_sequence sequence, void* memory,
                    std::size_t bytes) {
  const Saving saving(cache, sequence);
  if (bytes < saving.bytes())
    fail(HEED_STATUS_INVALID_ARGUMENT, "bytes is %zu; it must be at least %zu for this sequence",
         bytes, saving.bytes());
  MemoryOutput to(memory);
  saving.write_to(to);
}

void save_to_file(const heed_cache& cache, heed_sequence sequence, int descriptor) {
  const Saving saving(cache, sequence);
  FileOutput to(cache.context->allocator, descriptor);
  saving.write_to(to);
}

heed_sequence load_from_memory(heed_cache& cache, const void* memory, std::size_t bytes) {
  MemoryInput from(memory, bytes);
  return load(cache, from);
}

heed_sequence load_from_file(heed_cache& cache, int descriptor) {
  FileInput from(cache.context->allocator, descriptor);
  return load(cache, from);
}

}  // namespace heed
