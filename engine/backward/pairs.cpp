#include "engine/backward/pairs.hpp"

#include <cstdint>
#include <limits>

#include "engine/tensor/numbers.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// Whether numbers of bfloat16 are finite.
bool all_finite(const std::byte* row, std::int64_t stride, std::int64_t count) {
  constexpr std::uint16_t kExponent = 0x7f80;
  const auto* const bits = reinterpret_cast<const std::uint16_t*>(row);
  // Of exponents with all bits, and of no others, the sum with 0x80 reaches the sign.
  const auto sum = [](std::uint16_t x) {
    return static_cast<std::uint16_t>((x & kExponent) + 0x80);
  };
  constexpr auto kMany = static_cast<std::int64_t>(kVectorised);
  std::uint16_t many[kVectorised] = {};
  std::int64_t x = 0;
  for (; stride == 1 && x + kMany <= count; x += kMany)
    for (std::size_t c = 0; c < kVectorised; ++c)
      many[c] |= sum(bits[x + static_cast<std::int64_t>(c)]);
  std::uint16_t found = 0;
  for (; x < count; ++x) found |= sum(bits[x * stride]);
  for (const std::uint16_t some : many) found |= some;
  return (found & 0x8000) == 0;
}

}  // namespace

bool pairs_suffice(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                   const Sequence& sequence, std::int64_t key_head) {
  const Problem& p = plan.problem.attention;
  const heed_attention_args& given = args.attention;
  const auto rows_are = [&](const void* data, const Layout& layout, std::int64_t head,
                            std::int64_t begin, std::int64_t rows, std::int64_t features) {
    for (std::int64_t i = begin; i < begin + rows; ++i)
      if (!all_finite(row_at(data, layout, sequence.batch, head, i), layout.strides.feature,
                      features))
        return false;
    return true;
  };
  const auto numbers_are = [&](const void* data, const Layout& layout, std::int64_t head,
                               double lowest) {
    for (std::int64_t i = 0; data != nullptr && i < sequence.query_length; ++i) {
      const double number =
          number_at(*plan.context->kernels, layout.type,
                    row_at(data, layout, sequence.batch, head, sequence.query_begin + i));
      if (!(number >= lowest && number <= std::numeric_limits<double>::max())) return false;
    }
    return true;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!rows_are(given.key, p.key, key_head, sequence.key_begin, sequence.key_length, p.features) ||
      !rows_are(given.value, p.value, key_head, sequence.key_begin, sequence.key_length,
                p.value_features))
    return false;
  const std::int64_t group = plan.attention.pack_heads;
  for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
    const auto queries_are = [&](const void* data, const Layout& layout, std::int64_t features) {
      return rows_are(data, layout, head, sequence.query_begin, sequence.query_length, features);
    };
    if (!queries_are(given.query, p.query, p.features) ||
        !queries_are(args.given.grad_out, plan.problem.grad_out, p.value_features))
      return false;
    // A row that attends nothing has an lse of -infinity.
    if (!numbers_are(given.lse, p.lse, head, -kInfinity) ||
        !numbers_are(args.given.grad_lse, plan.problem.grad_lse, head,
                     -std::numeric_limits<double>::max()))
      return false;
  }
  return true;
}

}  // namespace heed
