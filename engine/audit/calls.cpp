// Before calls without a plan.
#include <cstdio>

#include "engine/audit/audit.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// Whether every second value is 0, and not all are.
bool every_second_is_0(const void* given, std::int64_t count) {
  const auto* const values = static_cast<const std::int32_t*>(given);
  bool some = false;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % 2 == 1 && values[i] != 0) return false;
    some = some || values[i] != 0;
  }
  return some;
}

/// So many edges from 0 to 0, at every second place, leave no doubt that they are halves of int64.
constexpr std::int64_t kBeyondDoubt = 16;

}  // namespace

void audit_merge(const heed_context& context, const MergeProblem& p, const Merge& merge) {
  if (p.rows == 0 || (p.sizes[3] == 0 && merge.lse == nullptr)) return;
  for (std::size_t k = 0; k < merge.parts; ++k) {
    const MergeArgs args = merge.part(k);
    Audit audit(context);
    audit.add(kMergeOperands, p, &args, false, "");
    GivenTensor* const out = audit.find("part_out");
    GivenTensor* const lse = audit.find("part_lse");
    if (out != nullptr)
      out->role = role_beside(args.part_out, p.part_out, args.out, p.out, merged_axes(p));
    lse->role = role_beside(args.part_lse, p.part_lse, args.lse, p.lse, merged_lse_axes(p));
    for (GivenTensor* const part : {out, lse})
      if (part != nullptr)
        std::snprintf(part->name, sizeof part->name, "part_%ss[%zu]", part == out ? "out" : "lse",
                      k);
    audit.before();
    if (out != nullptr) tell_odd_partial(context, *out, *lse);
  }
}

void audit_rotate(const heed_context& context, const RotateProblem& p, const Rotate& rotate) {
  if (p.rows == 0) return;
  Audit audit(context);
  audit.add(kRotateOperands, p, &rotate, p.float64, "");
  audit.find("from")->role = role_beside(rotate.from, p.from, rotate.to, p.to, rotated_axes(p));
  audit.add(Role::kInput, Odd::kNone, "", "positions", rotate.positions,
            side_by_side(ElementType::kMask, sizeof(std::int64_t)),
            vector_axes(p.sizes[0] * p.sizes[2]));
  const Layout table = {ElementType::kF32, sizeof(float), {0, 0, p.rotary.table_stride, 1}};
  const Axes entries = {{1, 1, p.rotary.last_position + 1, p.rotary.angles()}, kRowNames};
  for (const auto& [field, values] :
       {std::pair{"cosines", p.rotary.cosines}, std::pair{"sines", p.rotary.sines}})
    audit.add(Role::kInput, Odd::kNone, "desc.rotary.", field, values, table, entries);
  audit.before();
}

void audit_cache_attention(const CacheAttention& attention) {
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
        lld(s.query_length), lld(b));
    return;
  }
}

void audit_edges(const heed_graph_desc& desc) {
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
    refuse(
        "desc.index_type is 0, and every second of desc.sources and desc.destinations, %lld of "
        "%lld, is 0; %s, and HEED_INDEX_I32 (1) if they are int32 nevertheless",
        lld(desc.edges / 2), lld(desc.edges), rule);
  tell("check: every second of desc.sources and desc.destinations is 0; %s", rule);
}

}  // namespace heed
