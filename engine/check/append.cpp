#include "engine/check/append.hpp"

#include "engine/check/attention.hpp"
#include "engine/check/numbers.hpp"
#include "engine/runtime/text.hpp"

namespace heed {

void check_append(const heed_cache& cache, const Append& append) {
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

void check_cache_attention(const CacheAttention& attention) {
  const Problem& p = attention.problem();
  const heed_attention_args& args = attention.args();
  if (p.right != kUnbounded || args.mask != nullptr || args.bias != nullptr) return;
  validate(p, args);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const Sequence s = sequence_of(p, args, b);
    if (s.query_length < 2 || s.key_length < 2) continue;
    tell(
        "check: the %lld query rows of desc.sequences[%lld] attend all of its keys, later ones "
        "too, "
        "without causal or a mask; HEED_CAUSAL_BOTTOM_RIGHT lets the last row attend all, and each "
        "row before it one less",
        static_cast<long long>(s.query_length), static_cast<long long>(b));
    return;
  }
}

}  // namespace heed
