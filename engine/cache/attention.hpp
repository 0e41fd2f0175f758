// Attention over sequences of a cache, as dense attention over pages.
#pragma once

#include <cstdint>
#include <mutex>

#include "engine/cache/sequences.hpp"
#include "engine/dense/problem.hpp"
#include "engine/dense/rotate.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"

namespace heed {

/// Marks sequences as read while it lives.
class Readers {
 public:
  Readers(const heed_cache& cache, const heed_sequence* sequences, std::int64_t count)
      : cache_(cache), slots_(cache.context->allocator, count) {
    const std::lock_guard<std::mutex> lock(cache.mutex);
    for (std::int64_t i = 0; i < count; ++i) {
      try {
        slots_[i] = static_cast<std::int32_t>(find_slot(cache, sequences[i], Access::kRead));
      } catch (const Error& error) {
        release(i);
        fail(error.status, "desc.sequences[%lld]: %s", lld(i), error.message);
      }
      ++cache.slots[slots_[i]].readers;
    }
  }

  ~Readers() {
    const std::lock_guard<std::mutex> lock(cache_.mutex);
    release(count());
  }

  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;
  std::int64_t count() const { return static_cast<std::int64_t>(slots_.size()); }
  std::int64_t slot(std::int64_t i) const { return slots_[i]; }

 private:
  void release(std::int64_t marked) const {
    for (std::int64_t i = 0; i < marked; ++i) --cache_.slots[slots_[i]].readers;
  }

  const heed_cache& cache_;
  Array<std::int32_t> slots_;
};

/// The dense problem and its arguments, which last as long as this does.
class CacheAttention {
 public:
  /// Throws an Error that names the field, its value and the bound.
  CacheAttention(const heed_cache& cache, const heed_cache_attention_desc& desc,
                 const heed_attention_args& args);

  const Problem& problem() const { return problem_; }
  const heed_attention_args& args() const { return args_; }

 private:
  void find_lengths(std::int64_t layer);
  void find_pages();
  void turn_queries(const Positions& positions);

  const heed_cache& cache_;
  heed_attention_desc desc_;
  heed_attention_args args_;
  const Readers readers_;
  Array<std::int32_t> lengths_;  ///< [batch]
  Array<std::int32_t> table_;    ///< [batch][pages of key_length]
  Array<float> queries_;         ///< as rotary embedding turns them; else empty
  Problem problem_;
};

}  // namespace heed
