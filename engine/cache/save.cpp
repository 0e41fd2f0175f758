#include "engine/cache/cache.hpp"
#include "engine/cache/format.hpp"
#include "engine/cache/sequences.hpp"
#include "engine/cache/streams.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// The rows that every layer of a sequence has.
std::int64_t common_length(const heed_cache& cache, std::int64_t slot) {
  const std::int32_t* const lengths = cache.lengths_of(slot);
  for (std::int64_t layer = 1; layer < cache.problem.layers; ++layer)
    if (lengths[layer] != lengths[0])
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "layer %lld of the sequence has %d rows; it must have %d, as layer 0, to be saved",
           static_cast<long long>(layer), lengths[layer], lengths[0]);
  return lengths[0];
}

/// What a layer of a sequence with these pages has.
struct LayerRows {
  const std::byte* row(const Storage& stored, std::int64_t t, std::int64_t head) const {
    return cache.row(stored, layer, page_of(t), head, t);
  }
  const float* scale(const Storage& stored, std::int64_t t, std::int64_t head) const {
    return cache.scale(stored, layer, page_of(t), head, t);
  }
  std::int32_t page_of(std::int64_t t) const { return pages[t / cache.problem.page_rows]; }

  const heed_cache& cache;
  std::int64_t layer;
  const std::int32_t* pages;
};

/// A sequence that nobody changes meanwhile.
class Saving {
 public:
  Saving(const heed_cache& cache, heed_sequence sequence)
      : cache_(cache),
        use_(cache, sequence, Access::kRead),
        length_(common_length(cache, use_.slot())) {}

  std::size_t bytes() const { return bytes_of_saved(cache_.problem, length_); }

  void write_to(OutputStream& to) const {
    const CacheProblem& p = cache_.problem;
    const Slot& slot = cache_.slots[use_.slot()];
    Array<std::int32_t> pages(cache_.context->allocator, slot.pages);
    cache_.pages.list(slot.last, slot.pages, slot.pages, pages.data());
    const Header header = header_of(p, length_);
    to.write(&header, sizeof header);
    for (std::int64_t layer = 0; layer < p.layers; ++layer)
      each_run(p, length_, LayerRows{cache_, layer, pages.data()},
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

}  // namespace heed
