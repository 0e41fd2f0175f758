// A cache's descriptor, checked, and where all that it holds lies in its memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/heed.h"
#include "engine/dense/rotate.hpp"
#include "engine/tensor/element.hpp"

namespace heed {

/// Keys or values as they are stored: a pool [pages, key_heads, page_rows, features] per layer. A
/// head's rows of a page lie side by side: of all orders this is the fastest to read.
struct Storage {
  std::int64_t features;
  std::size_t row_bytes;
  std::size_t pools;         ///< where layer 0's pool lies
  std::size_t pool_bytes;    ///< from one layer's pool to the next
  std::size_t scales;        ///< likewise of int8 rows: float32 [pages, key_heads, page_rows]
  std::size_t scales_bytes;  ///< 0: rows have no scales
  float scale;               ///< of all rows, E4M3
};

struct CacheProblem {
  ElementType type;
  std::uint32_t dtype;  ///< the same, as the API says it
  std::int64_t layers;
  std::int64_t key_heads;
  std::int64_t page_rows;
  std::int64_t pages;
  std::int64_t sequences;  ///< at once
  Storage key, value;
  Rotary rotary;

  // Offsets into the memory, which begins with the cache itself.
  std::size_t slots;        ///< Slot [sequences]
  std::size_t lengths;      ///< int32 [sequences][layers]
  std::size_t previous;     ///< int32 [pages], see PageTree
  std::size_t references;   ///< int32 [pages]
  std::size_t frequencies;  ///< double [rotary.angles()], unless rotary has tables
  std::size_t bytes;        ///< of all

  bool rows_have_scales() const { return type == ElementType::kI8; }
  std::size_t page_bytes() const {
    const std::size_t scales_of_row = rows_have_scales() ? 2 * sizeof(float) : 0;
    return static_cast<std::size_t>(layers * key_heads * page_rows) *
           (key.row_bytes + value.row_bytes + scales_of_row);
  }
};

/// Throws an Error that names the field, its value and the bound.
CacheProblem validate(const heed_cache_desc& desc);

}  // namespace heed
