// What a saved sequence is made of; api/docs/reference/cache.md states it byte by byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/cache/problem.hpp"

namespace heed {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are saved as they lie");

inline constexpr std::uint64_t kMagic = 0x0a71657364656568;  // "heedseq\n"
inline constexpr std::uint32_t kByteOrder = 0x01020304;
inline constexpr std::uint32_t kVersion = 1;

/// What a saved sequence begins with.
struct Header {
  std::uint64_t magic;
  std::uint32_t byte_order;
  std::uint32_t version;
  std::uint32_t dtype;
  std::uint32_t pairs;  ///< heed_rotary_pairs
  std::int64_t layers, key_heads, features, value_features;
  std::int64_t length;
  double key_scale, value_scale;  ///< 1 but for HEED_DTYPE_F8_E4M3
  std::int64_t turned;            ///< rotary features
  double base;                    ///< 0: tables
  std::int64_t table_rows;
  std::uint64_t tables;  ///< checksum of what tables hold
};
static_assert(sizeof(Header) == 112, "there is no padding");

/// What it ends with: the checksum of all before it.
using Sum = std::uint64_t;

/// Of a sequence of such a cache.
Header header_of(const CacheProblem& p, std::int64_t length);

/// Of all, from header to checksum; the cache has pages for so many rows.
std::size_t bytes_of_saved(const CacheProblem& p, std::int64_t length);

/// Calls each(begin, bytes) for all that a layer has, in the order in which it is saved, as much at
/// once as lies side by side. rows.row and rows.scale are where row t of a head lies, and its
/// scale.
template <class Rows, class Each>
void each_run(const CacheProblem& p, std::int64_t length, const Rows& rows, const Each& each) {
  for (const Storage* const stored : {&p.key, &p.value})
    for (std::int64_t head = 0; head < p.key_heads; ++head) {
      const auto each_page = [&](std::size_t row_bytes, const auto& place) {
        for (std::int64_t t = 0; t < length; t += p.page_rows)
          each(place(t), static_cast<std::size_t>(std::min(p.page_rows, length - t)) * row_bytes);
      };
      each_page(stored->row_bytes, [&](std::int64_t t) { return rows.row(*stored, t, head); });
      if (p.rows_have_scales())
        each_page(sizeof(float), [&](std::int64_t t) { return rows.scale(*stored, t, head); });
    }
}

}  // namespace heed
