#include "engine/tensor/dropout.hpp"

#include <algorithm>
#include <cmath>

#include "engine/kernels/philox.hpp"
#include "engine/runtime/error.hpp"

namespace heed {

std::uint32_t resolve_dropout(const char* field, double dropout) {
  if (!(dropout >= 0 && dropout < 1))
    refuse("%s is %g; it must be at least 0 and less than 1", field, dropout);
  if (dropout == 0) return 0;
  const double values = std::round(dropout * kDropoutValues);
  return static_cast<std::uint32_t>(std::clamp(values, 1.0, double{kDropoutValues - 1}));
}

std::uint32_t resolve_dropout(double dropout, bool hard) {
  const std::uint32_t threshold = resolve_dropout("desc.dropout", dropout);
  if (hard && threshold > 0)
    refuse("desc.dropout is %g; it must be 0 with desc.hard, which has one weight", dropout);
  return threshold;
}

void check_seeds(std::uint32_t threshold, std::uint64_t seed, std::uint64_t offset) {
  const auto check = [&](const char* field, std::uint64_t value) {
    if (threshold == 0 && value != 0)
      refuse("args.%s is %llu; it must be 0 with desc.dropout 0", field,
             static_cast<unsigned long long>(value));
  };
  check("dropout_seed", seed);
  check("dropout_offset", offset);
}

void check_origin(const std::int64_t* origin) {
  for (int axis = 0; origin != nullptr && axis < 4; ++axis)
    if (origin[axis] < 0 || origin[axis] > std::int64_t{1} << 40)
      refuse("args.dropout_origin[%d] is %lld; it must be 0 to 2^40", axis,
             static_cast<long long>(origin[axis]));
}

DropoutMask::DropoutMask(std::uint32_t threshold, std::uint64_t seed, std::uint64_t offset)
    : threshold(threshold), key{0, 0} {
  if (threshold == 0) return;
  const std::uint32_t given[2] = {static_cast<std::uint32_t>(seed),
                                  static_cast<std::uint32_t>(seed >> 32)};
  std::uint32_t counter[4] = {static_cast<std::uint32_t>(offset),
                              static_cast<std::uint32_t>(offset >> 32), 0, 0};
  philox(given, counter);
  key[0] = counter[0];
  key[1] = counter[1];
}

void DropoutMask::show(std::uint32_t batch, std::uint32_t head, std::uint32_t row,
                       std::uint64_t first_key, std::size_t keys, std::uint8_t* kept) const {
  DroppedKeys dropped = {key, threshold, row, head, batch};
  for (std::size_t j = 0; j < keys; ++j) kept[j] = dropped.drops(first_key + j) ? 0 : 1;
}

}  // namespace heed
