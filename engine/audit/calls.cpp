// Before calls without a plan.
#include <cstdio>

#include "engine/audit/audit.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

Axes row_axes(const Shape& s, std::int64_t features) {
  return {{s[0], s[1], s[2], features}, kRowNames};
}

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

void audit_merge(const heed_context& context, const MergeProblem& problem, const Merge& merge) {
  const MergeLayouts& l = problem.layouts;
  const std::int64_t features = problem.sizes[3];
  if (problem.rows == 0 || (features == 0 && merge.lse == nullptr)) return;
  const Axes rows = row_axes(problem.sizes, features);
  const Axes lses = row_axes(problem.sizes, 1);
  for (std::size_t k = 0; k < merge.parts; ++k) {
    const void* const part_out = features > 0 ? merge.outs[k] : nullptr;
    const void* const part_lse = merge.lses[k];
    char name[32];
    Audit audit(context);
    std::snprintf(name, sizeof name, "part_outs[%zu]", k);
    const GivenTensor* const out =
        audit.add(role_beside(part_out, l.part_out, merge.out, l.out, rows), Odd::kNone, "", name,
                  part_out, l.part_out, rows);
    std::snprintf(name, sizeof name, "part_lses[%zu]", k);
    const GivenTensor* const lse =
        audit.add(role_beside(part_lse, l.part_lse, merge.lse, l.lse, lses),
                  Odd::kNotFiniteUnlessMasked, "", name, part_lse, l.part_lse, lses);
    audit.add(Role::kOutput, Odd::kNone, "", "out", merge.out, l.out, rows);
    audit.add(Role::kOutput, Odd::kNone, "", "lse", merge.lse, l.lse, lses);
    audit.before();
    if (out != nullptr) tell_odd_partial(context, *out, *lse);
  }
}

void audit_rotate(const heed_context& context, const RotateProblem& p, const Rotate& rotate) {
  if (p.rows == 0) return;
  const Axes rows = row_axes(p.sizes, p.sizes[3]);
  Audit audit(context);
  audit.add(role_beside(rotate.from, p.from, rotate.to, p.to, rows), Odd::kNotFinite, "", "from",
            rotate.from, p.from, rows);
  audit.add(Role::kOutput, Odd::kNone, "", "to", rotate.to, p.to, rows);
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

void audit_project(const heed_context& context, const ProjectProblem& p, const Project& project) {
  const auto rows = [&](std::int64_t features) {
    return Axes{{p.batch, 1, p.rows, features}, kRowNames};
  };
  Audit audit(context);
  audit.add(Role::kInput, Odd::kNotFinite, "", "x", project.x, p.x, rows(p.weights->in));
  audit.add(Role::kOutput, Odd::kNone, "", "y", project.y, p.y, rows(p.weights->out));
  audit.before();
}

void audit_weights(const heed_context& context, const MatrixToPrepare& given) {
  const Matrix& m = given.matrix;
  Audit audit(context);
  audit.add(Role::kInput, Odd::kNotFinite, "", "matrix", given.data, m.layout,
            {{m.in / m.in_each, 1, m.in_each, m.out}, kMatrixNames});
  audit.add(Role::kInput, Odd::kNotFinite, "", "bias", given.bias,
            side_by_side(given.bias_layout.type), vector_axes(m.out));
  audit.before();
}

void audit_append(const heed_cache& cache, const Append& append) {
  Audit audit(*cache.context);
  for (const auto& [field, given] : {std::pair{"key", &append.key}, {"value", &append.value}})
    audit.add(Role::kInput, Odd::kNotFinite, "", field, given->data, given->layout,
              {{1, cache.problem.key_heads, append.rows, given->stored.features}, kPackedRowNames});
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
