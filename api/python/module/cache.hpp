// Caches of keys and values, and their sequences: heed.Cache and heed.Sequence.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "api/python/module/numbers.hpp"

namespace heed::python {

/// A descriptor, and the tables of rotary embedding that it points at.
struct CacheDescription {
  heed_cache_desc desc = HEED_CACHE_DESC_INIT;
  std::vector<float> cosines;
  std::vector<float> sines;
};

/// The arguments that say what a cache is; but for the first three they may be None.
struct CacheSettings {
  nb::handle key_heads;
  nb::handle features;
  nb::handle pages;
  nb::handle layers;
  nb::handle value_features;
  nb::handle dtype;
  nb::handle page_rows;
  nb::handle sequences;
  nb::handle key_scale;
  nb::handle value_scale;
  nb::handle rotary;
};

std::unique_ptr<const CacheDescription> read_cache(const CacheSettings& given);

/// The name of a heed_dtype that can be stored.
const char* stored_name(std::uint32_t dtype);

class Cache {
 public:
  Cache(nb::handle context, std::unique_ptr<const CacheDescription> description);
  ~Cache() { heed_cache_destroy(cache_); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  heed_cache* get() const { return cache_; }
  const heed_cache_desc& desc() const { return description_->desc; }
  std::int64_t value_features() const {
    return desc().value_features == 0 ? desc().features : desc().value_features;
  }
  bool turns() const { return desc().rotary.pairs != HEED_ROTARY_NONE; }
  heed_cache_info info() const;
  /// Of a call, or a TypeError or heed.ArgumentError.
  std::int64_t layer(nb::handle given) const;
  /// Where rows stand, [batch, rows]; without data where they follow each other.
  Vector<std::int64_t> read_places(nb::handle positions, nb::handle offset, std::int64_t batch,
                                   std::int64_t rows) const;

 private:
  std::unique_ptr<const CacheDescription> description_;
  heed_cache* cache_ = nullptr;
};

/// A sequence of a cache, which it keeps; freed with its object, or before.
class Sequence {
 public:
  Sequence(nb::object cache, heed_sequence name) : cache_(std::move(cache)), name_(name) {}
  ~Sequence() {
    if (name_ != 0) heed_cache_free(cache().get(), name_);
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  const nb::object& holder() const { return cache_; }
  Cache& cache() const { return *nb::inst_ptr<Cache>(cache_); }
  bool alive() const { return name_ != 0; }
  /// Refuses one that was freed.
  heed_sequence name() const {
    const heed_sequence name = name_;
    if (name == 0) refuse("the sequence was freed");
    return name;
  }
  void free() {
    check(heed_cache_free(cache().get(), name()));
    name_ = 0;
  }

 private:
  nb::object cache_;
  std::atomic<heed_sequence> name_;
};

/// Cache.attention.
nb::object cache_attention(const nb::pointer_and_handle<Cache>& cache, nb::handle sequences,
                           nb::handle query, nb::handle layer, nb::handle positions,
                           nb::handle position_offset, nb::handle out, const nb::dict& given);

void bind_sequence(nb::module_& module);

}  // namespace heed::python
