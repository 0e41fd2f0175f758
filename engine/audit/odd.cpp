// Mistakes that are likely, but allowed: they are told, never refused.
#include <algorithm>
#include <cmath>

#include "engine/audit/audit.hpp"
#include "engine/dense/operands.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// Whether these look like int64 values above 0, read as int32. Offsets begin with a 0.
bool looks_like_halves(const std::int32_t* values, std::int64_t count, bool offsets) {
  if (count < 2 || (offsets && count < 3)) return false;
  for (std::int64_t i = 0; i < count; ++i)
    if ((values[i] > 0) != (i % 2 == 0 && !(offsets && i == 0))) return false;
  return true;
}

void tell_halves(const AuditedAttention& of, const char* field) {
  tell("check: every second number of %s%s is 0, as in int64 numbers read as int32", of.args_name,
       field);
}

struct Packed {
  const char* field;
  const std::int32_t* offsets;
  const char* total_field;
  std::int64_t total;
};

void tell_odd_offsets(const AuditedAttention& of, const Packed& packed) {
  if (packed.offsets == nullptr) return;
  const std::int64_t batch = of.problem->batch;
  const std::int32_t begin = packed.offsets[0];
  const std::int32_t end = packed.offsets[batch];
  if (looks_like_halves(packed.offsets, batch + 1, true)) tell_halves(of, packed.field);
  if (begin != 0 || end != packed.total)
    tell("check: %s%s goes from %d to %d, and %s%s is %lld: the other rows belong to no sequence",
         of.args_name, packed.field, begin, end, of.desc_name, packed.total_field,
         lld(packed.total));
}

void tell_odd_scale(const AuditedAttention& of) {
  const Problem& p = *of.problem;
  const double root = std::sqrt(static_cast<double>(p.features));
  if (p.features > 1 && std::fabs(p.scale - root) < 1e-3 * root)
    tell(
        "check: %sscale is %g, the square root of features; scores are multiplied with it, and "
        "the usual scale is 1 over the root, %g",
        of.desc_name, p.scale, 1 / root);
}

/// How many indices of an axis a mask with this stride tells apart.
std::int64_t told_apart(std::int64_t stride, std::int64_t size) {
  return stride == 0 ? std::min<std::int64_t>(size, 1) : size;
}

const std::uint8_t* mask_row(const AuditedAttention& of, std::int64_t b, std::int64_t h,
                             std::int64_t i) {
  return reinterpret_cast<const std::uint8_t*>(row_at(of.args.mask, of.problem->mask, b, h, i));
}

/// Tells of bytes that are neither 0 nor 1 nor 255, and of masks in which only every fourth byte is
/// set: their elements are probably wider than a byte.
void tell_odd_mask(const AuditedAttention& of) {
  if (of.args.mask == nullptr) return;
  const Problem& p = *of.problem;
  const Strides& strides = p.mask.strides;
  std::int64_t strange = 0;
  std::int64_t set = 0;
  std::int64_t set_in_place = 0;
  std::uint8_t first = 0;
  for (std::int64_t b = 0; b < told_apart(strides.batch, p.batch); ++b) {
    const Sequence s = sequence_of(p, of.args, b);
    for (std::int64_t h = 0; h < told_apart(strides.head, p.query_heads); ++h)
      for (std::int64_t i = 0; i < told_apart(strides.row, s.query_length); ++i)
        for (std::int64_t j = 0; j < s.key_length; ++j) {
          const std::uint8_t* const at = mask_row(of, b, h, i) + j * strides.feature;
          if (*at == 0) continue;
          if (*at != 1 && *at != 255 && strange++ == 0) first = *at;
          ++set;
          set_in_place += (at - of.args.mask) % 4 == 0 ? 1 : 0;
        }
  }
  if (strange > 0)
    tell(
        "check: %smask holds %lld bytes that are neither 0 nor 1 nor 255, the first %u; a mask is "
        "made of bytes, and all that are not 0 mean attend",
        of.args_name, lld(strange), unsigned{first});
  else if (strides.feature == 1 && p.key_length > 4 && set >= 8 && set_in_place == set)
    tell(
        "check: only every fourth byte of %smask is not 0, as in a mask of 4-byte numbers; a mask "
        "is made of bytes",
        of.args_name);
}

/// Tells how many rows may attend no key, though there are some.
void tell_rows_without_keys(const AuditedAttention& of) {
  const Problem& p = *of.problem;
  const bool masked = of.args.mask != nullptr;
  const Strides& strides = p.mask.strides;
  const std::int64_t heads = told_apart(masked ? strides.head : 0, p.query_heads);
  const std::int64_t each = heads == 0 ? 0 : p.query_heads / heads;
  std::int64_t all = 0;
  std::int64_t none = 0;
  std::int64_t first[3] = {};
  const auto attends = [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t from,
                           std::int64_t end) {
    while (masked && from < end && mask_row(of, b, h, i)[from * strides.feature] == 0) ++from;
    return from < end;
  };
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const Sequence s = sequence_of(p, of.args, b);
    all += s.query_length * p.query_heads;
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < s.query_length; ++i) {
        if (attends(b, h, i, s.first_key(i), s.end_key(i))) continue;
        if (none == 0) first[0] = b, first[1] = h, first[2] = i;
        none += each;
      }
  }
  if (none > 0)
    tell(
        "check: %lld of %lld rows may attend no key%s and become 0, the first at batch %lld, head "
        "%lld, row %lld",
        lld(none), lld(all), masked ? " (a mask is not 0 where a key is attended)" : "",
        lld(first[0]), lld(first[1]), lld(first[2]));
}

/// Tells of causal problems aligned at the top left that have more keys than rows.
void tell_keys_without_rows(const AuditedAttention& of) {
  const Problem& p = *of.problem;
  if (p.right != 0 || p.bottom_right || p.offset != 0) return;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const Sequence s = sequence_of(p, of.args, b);
    if (s.query_length == 0 || s.key_length <= s.query_length) continue;
    tell(
        "check: of batch %lld no row may attend the keys %lld to %lld: rows stand at the top left, "
        "where row 0 attends key 0 alone; HEED_CAUSAL_BOTTOM_RIGHT lets the last row attend all",
        lld(b), lld(s.query_length), lld(s.key_length - 1));
    return;
  }
}

}  // namespace

bool tell_empty(const AuditedAttention& of, bool queries_given, bool keys_given) {
  const Problem& p = *of.problem;
  const struct {
    const char* field;
    std::int64_t size;
  } sizes[] = {
      {"batch", p.batch}, {"query_heads", p.query_heads}, {"query_length", p.query_length}};
  bool empty = false;
  for (const auto& [field, size] : sizes) {
    empty = empty || size == 0;
    if (size == 0 && queries_given)
      tell("check: %s%s is 0, so no row of out is computed", of.desc_name, field);
  }
  if (!empty && p.key_length == 0 && keys_given)
    tell("check: %skey_length is 0, so all of out becomes 0", of.desc_name);
  return !empty;
}

void tell_odd_options(const AuditedAttention& of) {
  const Problem& p = *of.problem;
  const heed_attention_args& args = of.args;
  tell_odd_scale(of);
  tell_odd_offsets(of, {"cu_seqlens_q", args.cu_seqlens_q, "packed_queries", p.packed_queries});
  tell_odd_offsets(of, {"cu_seqlens_k", args.cu_seqlens_k, "packed_keys", p.packed_keys});
  for (const Operand<Problem>& row : kAttentionOperands) {
    if (row.axes != sequence_axes) continue;
    const auto* const numbers = static_cast<const std::int32_t*>(row.pointer_in(&args));
    if (numbers != nullptr && looks_like_halves(numbers, p.batch, false)) tell_halves(of, row.name);
  }
  tell_odd_mask(of);
  if (p.key_length > 0) tell_rows_without_keys(of);
  tell_keys_without_rows(of);
}

}  // namespace heed
