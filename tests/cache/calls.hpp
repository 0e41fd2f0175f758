// What tests do to caches, and what caches make of it.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/problem/attention.hpp"

namespace heed_test {

using Index = std::int64_t;

/// What calls of a cache are told besides tensors.
struct Call {
  Index layer = 0;
  Index key_length = 0;
  Index offset = 0;
  std::vector<Index> positions = {};
};

/// Appends rows [begin, end) of an item of the batch, wherever and in whatever type they lie.
heed_status append(const Cache& cache, heed_sequence sequence, const Call& call, const Tensor& key,
                   const Tensor& value, Index batch, Index begin, Index end);

/// What caches store.
std::uint32_t draw_stored(Random& random);

/// Puts rows into a problem's keys, or values, as a cache of this descriptor stores them.
void store(Problem& p, Tensor Problem::*rows, const Tensor& given, const heed_cache_desc& desc);

/// What a cache makes of a problem whose keys and values its sequences hold.
Outputs attend(const Cache& cache, Problem& p, const std::vector<heed_sequence>& sequences,
               const Call& call);

}  // namespace heed_test
