#include "engine/cache/positions.hpp"

#include <cstdio>

#include "engine/runtime/error.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {

void Positions::check() const {
  if (!rotary.turns() && given != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.positions is given; it must be NULL: the cache has no rotary embedding");
  if (offset != 0 && (given != nullptr || !rotary.turns()))
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.position_offset is %lld; it must be 0 %s",
         static_cast<long long>(offset),
         given != nullptr ? "with desc.positions" : "without rotary embedding");
  check_alignment("desc.positions", given, sizeof(std::int64_t));
}

void Positions::check_rows(std::int64_t i, std::int64_t t, std::int64_t count) const {
  if (!rotary.turns() || count == 0) return;
  for (std::int64_t k = i; given != nullptr && k < i + count; ++k) {
    if (rotary.has(given[k])) continue;
    char field[48];
    std::snprintf(field, sizeof field, "desc.positions[%lld]", static_cast<long long>(k));
    check_position(field, rotary, given[k]);
  }
  if (given != nullptr) return;
  std::int64_t first = 0;
  std::int64_t last = 0;
  if (__builtin_add_overflow(t, offset, &first) ||
      __builtin_add_overflow(t + count - 1, offset, &last) || !rotary.has(first) ||
      !rotary.has(last))
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.position_offset is %lld; rows that lie at %lld to %lld must stand at 0 to %lld",
         static_cast<long long>(offset), static_cast<long long>(t),
         static_cast<long long>(t + count - 1), static_cast<long long>(rotary.last_position));
}

}  // namespace heed
