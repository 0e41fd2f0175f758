// Caches beside what they should hold.
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

/// A cache, and the rows that its sequences should have.
class Held {
 public:
  Held(const Context& context, const heed_cache_desc& desc);

  struct Sequence {
    heed_sequence id;
    std::vector<std::vector<double>> keys;  ///< given, of each layer, [row][head][feature]
    std::vector<std::vector<double>> values;
  };

  Index rows(const Sequence& s, Index layer) const;
  void create();
  void fork(std::size_t i);
  void free(std::size_t i);
  void truncate(std::size_t i, Index length);
  /// Appends random rows; false: the cache has no room.
  bool append(std::size_t i, Index layer, Index rows, Random& random);

  /// Random queries, `query_length` for each of some sequences, over what they should hold.
  Problem problem(const std::vector<std::size_t>& of, Index layer, Index query_length,
                  Index query_heads, Random& random) const;
  std::vector<heed_sequence> ids(const std::vector<std::size_t>& of) const;

  heed_cache_desc desc;
  Cache cache;
  std::vector<Sequence> sequences;
};

}  // namespace heed_test
