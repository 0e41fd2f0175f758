#include "engine/check/append.hpp"

#include "engine/check/attention.hpp"
#include "engine/check/numbers.hpp"
#include "engine/runtime/tell.hpp"

namespace heed {

void check_append(const heed_cache& cache, const Append& append) {
  if (append.rows == 0 && append.key.data != nullptr)
    tell("check: desc.rows is 0, so nothing is appended");
  Operands all("");
  const auto add = [&](const char* field, const GivenRows& given) {
    return all.add(Role::kInput, field, given.data, given.layout,
                   {1, cache.problem.key_heads, append.rows, given.stored.features}, kRowAxes);
  };
  const Operand* const key = add("key", append.key);
  const Operand* const value = add("value", append.value);
  tell_odd_strides(all);
  tell_odd_numbers(*cache.context, key);
  tell_odd_numbers(*cache.context, value);
}

}  // namespace heed
