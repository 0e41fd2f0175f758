#include "engine/check/edges.hpp"

#include <cstdint>

#include "engine/runtime/error.hpp"
#include "engine/runtime/text.hpp"

namespace heed {
namespace {

/// Whether every second number is 0, and not all are.
bool every_second_is_0(const void* given, std::int64_t count) {
  const auto* const numbers = static_cast<const std::int32_t*>(given);
  bool some = false;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % 2 == 1 && numbers[i] != 0) return false;
    some = some || numbers[i] != 0;
  }
  return some;
}

/// So many edges from 0 to 0, at every second place, leave no doubt that they are halves of int64.
constexpr std::int64_t kBeyondDoubt = 16;

}  // namespace

void check_given_edges(const heed_graph_desc& desc) {
  if (desc.index_type == HEED_INDEX_I64 || desc.edges < 4) return;
  const char* const rule =
      "int64 numbers read as int32 look like this; desc.index_type must be HEED_INDEX_I64 (2) for "
      "them";
  if (desc.offsets != nullptr) {
    if (desc.nodes > 1 && every_second_is_0(desc.offsets, desc.nodes + 1))
      tell("check: every second number of desc.offsets is 0; %s", rule);
    return;
  }
  if (!every_second_is_0(desc.sources, desc.edges) ||
      !every_second_is_0(desc.destinations, desc.edges))
    return;
  if (desc.index_type == HEED_INDEX_DEFAULT && desc.edges / 2 >= kBeyondDoubt)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.index_type is 0, and every second of desc.sources and desc.destinations, %lld of "
         "%lld, is 0; %s, and HEED_INDEX_I32 (1) if they are int32 nevertheless",
         static_cast<long long>(desc.edges / 2), static_cast<long long>(desc.edges), rule);
  tell("check: every second of desc.sources and desc.destinations is 0; %s", rule);
}

}  // namespace heed
