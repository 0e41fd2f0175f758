// Rows on their way into a cache.
#pragma once

#include "engine/cache/cache.hpp"
#include "engine/dense/rotate.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {

/// New rows of keys, or of values, as the caller has them.
struct GivenRows {
  const Storage& stored;
  const void* data;
  Layout layout;
};

/// New rows for a layer of a sequence, checked as far as they do not depend on the sequence.
struct Append {
  std::int64_t layer;
  std::int64_t rows;
  Positions positions;
  GivenRows key, value;
};

/// Throws an Error that names the field, its value and the bound.
Append validate(const heed_cache& cache, const heed_cache_append_desc& desc, const void* key,
                const void* value);

void run_append(heed_cache& cache, heed_sequence sequence, const Append& append);

}  // namespace heed
