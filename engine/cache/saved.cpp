// Sequences as bytes; api/docs/reference/cache.md states the format byte by byte.
#include <algorithm>
#include <cmath>

#include "engine/cache/cache.hpp"
#include "engine/cache/sequences.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/bytes.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are saved as they lie");

constexpr std::uint64_t kMagic = 0x0a71657364656568;  // "heedseq\n"
constexpr std::uint32_t kByteOrder = 0x01020304;
constexpr std::uint32_t kVersion = 1;

/// A saved sequence begins with this.
struct Header {
  std::uint64_t magic;
  std::uint32_t byte_order;
  std::uint32_t version;
  std::uint32_t dtype;
  std::uint32_t pairs;  ///< heed_rotary_pairs
  std::int64_t layers, key_heads, features, value_features;
  std::int64_t length;
  double key_scale, value_scale;  ///< 1 except with HEED_DTYPE_F8_E4M3
  std::int64_t turned;            ///< rotary features
  double base;                    ///< 0: tables
  std::int64_t table_rows;
  std::uint64_t tables;  ///< checksum of the tables
};
static_assert(sizeof(Header) == 112, "there is no padding");

/// It ends with this: the checksum of all before it.
using Sum = std::uint64_t;

Sum checksum_of_tables(const Rotary& rotary) {
  Checksum sum;
  const auto bytes = static_cast<std::size_t>(rotary.angles()) * sizeof(float);
  for (const float* const table : {rotary.cosines, rotary.sines})
    for (std::int64_t row = 0; row <= rotary.last_position; ++row)
      sum.add(table + row * rotary.table_stride, bytes);
  return sum.value();
}

/// The header of a sequence of such a cache.
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

/// The bytes of all, from header to checksum; the cache has pages for so many rows.
std::size_t bytes_of_saved(const CacheProblem& p, std::int64_t length) {
  const std::size_t row = p.page_bytes() / static_cast<std::size_t>(p.page_rows);
  return sizeof(Header) + static_cast<std::size_t>(length) * row + sizeof(Sum);
}

/// Calls each(begin, bytes) for all that a layer has, in the order in which it is saved, as much at
/// once as lies side by side. Row t lies in page_of(t).
template <class PageOf, class Each>
void each_stretch(const heed_cache& cache, std::int64_t layer, std::int64_t length,
                  const PageOf& page_of, const Each& each) {
  const CacheProblem& p = cache.problem;
  for (const Storage* const stored : {&p.key, &p.value})
    for (std::int64_t head = 0; head < p.key_heads; ++head) {
      const auto each_page = [&](std::size_t row_bytes, const auto& place) {
        for (std::int64_t t = 0; t < length; t += p.page_rows)
          each(place(t), static_cast<std::size_t>(std::min(p.page_rows, length - t)) * row_bytes);
      };
      each_page(stored->row_bytes,
                [&](std::int64_t t) { return cache.row(*stored, layer, page_of(t), head, t); });
      if (p.rows_have_scales())
        each_page(sizeof(float),
                  [&](std::int64_t t) { return cache.scale(*stored, layer, page_of(t), head, t); });
    }
}

// ---- Streams ------------------------------------------------------------------------------------

/// Memory, or a descriptor's file, pipe or socket. These go through a buffer, because
/// rows may be a few bytes.
constexpr std::int64_t kBuffer = 1 << 16;

class Output {
 public:
  Output(void* memory, std::size_t bytes)
      : next_(static_cast<std::byte*>(memory)), end_(next_ + bytes) {}
  Output(const heed_allocator& allocator, int descriptor)
      : descriptor_(descriptor),
        buffer_(allocator, kBuffer),
        next_(buffer_.data()),
        end_(buffer_.end()) {}

  /// Memory must have as many bytes left.
  void write(const void* from, std::size_t count) {
    checksum_.add(from, count);
    const auto* bytes = static_cast<const std::byte*>(from);
    for (std::size_t some = 0; count > 0; count -= some, bytes += some) {
      if (next_ == end_) flush();
      some = std::min(count, static_cast<std::size_t>(end_ - next_));
      next_ = std::copy_n(bytes, some, next_);
    }
  }
  /// The checksum of all bytes written so far.
  Sum checksum() const { return checksum_.value(); }
  /// Brings the bytes written so far to where they belong.
  void flush() {
    if (buffer_.size() == 0) return;
    write_all(descriptor_, buffer_.data(), static_cast<std::size_t>(next_ - buffer_.data()));
    next_ = buffer_.data();
  }

 private:
  Checksum checksum_;
  int descriptor_ = 0;
  Array<std::byte> buffer_;  ///< empty: all goes to memory
  std::byte* next_;
  std::byte* end_;
};

class Input {
 public:
  Input(const void* memory, std::size_t bytes)
      : next_(static_cast<const std::byte*>(memory)), end_(next_ + bytes), taken_(bytes) {}
  Input(const heed_allocator& allocator, int descriptor)
      : descriptor_(descriptor), buffer_(allocator, kBuffer) {}

  /// From the first byte on there are so many; no more is read. Throws if fewer are known to be
  /// there.
  void expect(std::size_t count) {
    expected_ = count;
    if (from_memory() && taken_ < count)
      fail(HEED_STATUS_CORRUPT,
           "bytes is %zu; it must be at least %zu, or the saved sequence is not whole", taken_,
           count);
  }
  /// Throws if they are not there.
  void read(void* to, std::size_t count) {
    auto* bytes = static_cast<std::byte*>(to);
    for (std::size_t some = 0, left = count; left > 0; left -= some) {
      if (next_ == end_) fill();
      some = std::min(left, static_cast<std::size_t>(end_ - next_));
      bytes = std::copy_n(next_, some, bytes);
      next_ += some;
    }
    checksum_.add(to, count);
  }
  /// The checksum of all bytes read so far.
  Sum checksum() const { return checksum_.value(); }

 private:
  bool from_memory() const { return buffer_.size() == 0; }
  void fill() {
    const std::size_t most = std::min(buffer_.size(), expected_ - taken_);
    const std::size_t got = read_some(descriptor_, buffer_.data(), most);
    if (got == 0)
      fail(HEED_STATUS_CORRUPT,
           "descriptor %d ends after %zu bytes; it must have at least %zu, or the saved sequence "
           "is not whole",
           descriptor_, taken_, expected_);
    next_ = buffer_.data();
    end_ = next_ + got;
    taken_ += got;
  }

  Checksum checksum_;
  int descriptor_ = 0;
  Array<std::byte> buffer_;
  const std::byte* next_ = nullptr;  ///< the bytes at hand, up to end_
  const std::byte* end_ = nullptr;
  std::size_t taken_ = 0;  ///< from the descriptor; of memory all there is
  std::size_t expected_ = 0;
};

// ---- Saving -------------------------------------------------------------------------------------

/// The rows that every layer of a sequence has.
std::int64_t common_length(const heed_cache& cache, std::int64_t slot) {
  const std::int32_t* const lengths = cache.lengths_of(slot);
  for (std::int64_t layer = 1; layer < cache.problem.layers; ++layer)
    if (lengths[layer] != lengths[0])
      refuse("layer %lld of the sequence has %d rows; it must have %d, as layer 0, to be saved",
             lld(layer), lengths[layer], lengths[0]);
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
    cache_.pages.list(slot.last, slot.pages, slot.pages, pages.data());
    const Header header = header_of(p, length_);
    to.write(&header, sizeof header);
    for (std::int64_t layer = 0; layer < p.layers; ++layer)
      each_stretch(
          cache_, layer, length_, [&](std::int64_t t) { return pages[t / p.page_rows]; },
          [&](const void* begin, std::size_t bytes) { to.write(begin, bytes); });
    const Sum sum = to.checksum();
    to.write(&sum, sizeof sum);
    to.flush();
  }

 private:
  const heed_cache& cache_;
  const Use use_;
  const std::int64_t length_;
};

// ---- Loading ------------------------------------------------------------------------------------

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
      refuse("%s of the saved sequence is %lld; it must be the cache's, %lld", number.field,
             lld(number.is), lld(number.must_be));
  const struct {
    const char* field;
    double is, must_be;
  } reals[] = {{"key_scale", h.key_scale, own.key_scale},
               {"value_scale", h.value_scale, own.value_scale},
               {"rotary.base", h.base, own.base}};
  for (const auto& real : reals)
    if (!(real.is == real.must_be) || std::signbit(real.is) != std::signbit(real.must_be))
      refuse("%s of the saved sequence is %.17g; it must be the cache's, %.17g", real.field,
             real.is, real.must_be);
  if (h.tables != own.tables)
    refuse(
        "the checksum of the saved sequence's rotary tables is 0x%016llx; it must be that of the "
        "cache's, 0x%016llx",
        static_cast<unsigned long long>(h.tables), static_cast<unsigned long long>(own.tables));
  if (h.length < 0 || h.length > INT32_MAX)
    fail(HEED_STATUS_CORRUPT, "the length of the saved sequence is %lld; it must be 0 to %d",
         lld(h.length), INT32_MAX);
  const std::int64_t wanted = ceil_div(h.length, p.page_rows);
  if (wanted > p.pages)
    fail(HEED_STATUS_OUT_OF_MEMORY,
         "the saved sequence of %lld rows takes %lld pages; the cache has %lld", lld(h.length),
         lld(wanted), lld(p.pages));
}

/// Reads the rows of a new sequence, and the checksum behind them.
void load_rows(heed_cache& cache, heed_sequence to, std::int64_t length, Input& from) {
  for (std::int64_t layer = 0; layer < cache.problem.layers && length > 0; ++layer) {
    Growth growth(cache, to, layer, length);
    each_stretch(
        cache, layer, length, [&](std::int64_t t) { return growth.page_of(t); },
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
}

heed_sequence load(heed_cache& cache, Input& from) {
  Header header;
  from.expect(sizeof header + sizeof(Sum));
  from.read(&header, sizeof header);
  check_format(header);
  check_fits(cache.problem, header);
  from.expect(bytes_of_saved(cache.problem, header.length));
  const heed_sequence made = create_sequence(cache);
  try {
    load_rows(cache, made, header.length, from);
  } catch (...) {
    free_sequence(cache, made);
    throw;
  }
  return made;
}

}  // namespace

std::size_t saved_bytes(const heed_cache& cache, heed_sequence sequence) {
  return Saving(cache, sequence).bytes();
}

void save_to_memory(const heed_cache& cache, heed_sequence sequence, void* memory,
                    std::size_t bytes) {
  const Saving saving(cache, sequence);
  if (bytes < saving.bytes())
    refuse("bytes is %zu; it must be at least %zu for this sequence", bytes, saving.bytes());
  Output to(memory, bytes);
  saving.write_to(to);
}

void save_to_file(const heed_cache& cache, heed_sequence sequence, int descriptor) {
  const Saving saving(cache, sequence);
  Output to(cache.context->allocator, descriptor);
  saving.write_to(to);
}

heed_sequence load_from_memory(heed_cache& cache, const void* memory, std::size_t bytes) {
  Input from(memory, bytes);
  return load(cache, from);
}

heed_sequence load_from_file(heed_cache& cache, int descriptor) {
  Input from(cache.context->allocator, descriptor);
  return load(cache, from);
}

}  // namespace heed
