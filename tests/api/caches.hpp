// Small caches with sequences in them, to append to, attend, save and load.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tests/api/support.hpp"
#include "tests/support/random.hpp"

namespace api_test {

using heed_test::Cache;
using heed_test::make_cache;
using heed_test::require_ok;
using heed_test::saved;

/// Two layers of two heads, keys of 6 features and values of 3, in eight pages of 16 rows.
inline heed_cache_desc small_cache(std::uint32_t dtype = HEED_DTYPE_F32) {
  heed_cache_desc desc = HEED_CACHE_DESC_INIT;
  desc.dtype = dtype;
  desc.layers = desc.key_heads = 2;
  desc.features = 6;
  desc.value_features = 3;
  desc.page_rows = 16;
  desc.pages = 8;
  desc.sequences = 3;
  return desc;
}

/// The same with keys of 4 features and values of 6, in three pages.
inline heed_cache_desc two_layers() {
  heed_cache_desc desc = small_cache();
  desc.features = 4;
  desc.value_features = 6;
  desc.pages = 3;
  return desc;
}

inline heed_sequence new_sequence(const Cache& cache) {
  heed_sequence sequence = 0;
  require_ok(heed_cache_sequence_create(cache.get(), &sequence));
  return sequence;
}

/// Appends rows of these float32 numbers, in contiguous order, to a layer.
inline void append(const Cache& cache, heed_sequence sequence, std::int64_t layer,
                   std::int64_t rows, const std::vector<float>& key,
                   const std::vector<float>& value) {
  heed_cache_append_desc desc = HEED_CACHE_APPEND_DESC_INIT;
  desc.layer = layer;
  desc.rows = rows;
  require_ok(heed_cache_append(cache.get(), sequence, &desc, key.data(), value.data()));
}

/// Pages used and shared, and sequences.
inline std::vector<std::int64_t> state(const Cache& cache) {
  const heed_cache_info info = heed_test::describe(cache);
  return {info.pages_used, info.pages_shared, info.sequences};
}

/// With two sequences: of 20 rows and none, and of 5 rows in each layer.
class FilledCache {
 public:
  FilledCache(const Context& context, const heed_cache_desc& desc, bool with_rows = true)
      : cache_(make_cache(context, desc)) {
    for (heed_sequence& sequence : sequences) sequence = new_sequence(cache_);
    if (with_rows) {
      append(cache_, sequences[0], 0, 20, zeros_, zeros_);
      append(cache_, sequences[1], 0, 5, zeros_, zeros_);
      append(cache_, sequences[1], 1, 5, zeros_, zeros_);
    }
    before = state();
  }
  heed_cache* get() const { return cache_.get(); }
  const float* zeros() const { return zeros_.data(); }

  /// And the length of every layer.
  std::vector<std::int64_t> state() const {
    std::vector<std::int64_t> all = api_test::state(cache_);
    for (const heed_sequence sequence : sequences)
      for (const std::int64_t layer : {0, 1}) {
        std::int64_t length = -1;
        (void)heed_cache_length(get(), sequence, layer, &length);
        all.push_back(length);
      }
    return all;
  }

  heed_sequence sequences[2] = {};
  std::vector<std::int64_t> before;

 private:
  Cache cache_;
  std::vector<float> zeros_ = std::vector<float>(2048);
};

/// As messages name a sequence.
inline std::string name_of(heed_sequence sequence) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "sequence 0x%llx",
                      static_cast<unsigned long long>(sequence));
  return text;
}

/// A sequence with so many random rows in every layer.
inline heed_sequence grown(const Cache& cache, const heed_cache_desc& desc, std::int64_t rows) {
  const heed_sequence sequence = new_sequence(cache);
  for (std::int64_t layer = 0; layer < desc.layers; ++layer) {
    const auto seed = static_cast<std::uint32_t>(layer);
    append(
        cache, sequence, layer, rows,
        numbers(static_cast<std::size_t>(rows * desc.key_heads * desc.features), seed),
        numbers(static_cast<std::size_t>(rows * desc.key_heads * desc.value_features), seed + 9));
  }
  return sequence;
}

inline heed_sequence loaded(const Cache& cache, const std::string& bytes) {
  heed_sequence sequence = 0;
  require_ok(heed_cache_load(cache.get(), bytes.data(), bytes.size(), &sequence));
  return sequence;
}

/// A load that is refused changes nothing: load(&sequence) is called.
template <class Load>
void check_load_refused(const Cache& cache, heed_status status, const std::string& words,
                        const Load& load) {
  const std::vector<std::int64_t> before = state(cache);
  heed_sequence sequence = 77;
  forget_last_error();
  check_refusal(load(&sequence), status, words);
  CHECK(sequence == 77);
  CHECK(state(cache) == before);
}

inline void check_load_refused(const Cache& cache, heed_status status, const std::string& words,
                               const std::string& bytes) {
  check_load_refused(cache, status, words, [&](heed_sequence* sequence) {
    return heed_cache_load(cache.get(), bytes.data(), bytes.size(), sequence);
  });
}

}  // namespace api_test
