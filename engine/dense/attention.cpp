// A run of a plan, and its line for HEED_VERBOSE.
#include "engine/dense/plan.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

void add_types(const Problem& p, Text& text) {
  const ElementType types[4] = {p.query.type, p.key.type, p.value.type, p.out.type};
  bool plain = true;
  for (const ElementType type : types) plain = plain && type == ElementType::kF32;
  if (!plain)
    text.add(" %s,%s,%s->%s", name_of(types[0]), name_of(types[1]), name_of(types[2]),
             name_of(types[3]));
}

void add_positions(const Problem& p, Text& text) {
  // The offset of full-length sequences: at the bottom right shorter ones have their own.
  const std::int64_t offset = p.limits(p.query_length, p.key_length).offset;
  const bool causal = p.right == 0;
  if (causal) text.add(" causal");
  if (p.offset_given) text.add(causal ? "%+lld" : " offset=%lld", lld(offset));
  if (!causal && p.right != kUnbounded) text.add(" right=%lld", lld(p.right));
  if (p.left != kUnbounded) text.add(" left=%lld", lld(p.left));
}

}  // namespace

const Strategy kMixed = {"mixed", [](const heed_attention_plan& plan,
                                     const heed_attention_args& args, std::byte* workspace) {
                           kPrefill.run(plan, args, workspace);
                           kDecode.run(plan, args, workspace);
                         }};

void run_plan(const heed_attention_plan& plan, const heed_attention_args& args, void* workspace,
              std::size_t bytes) {
  validate(plan.problem, args);
  check_workspace(plan.bytes, workspace, bytes);
  auto* const space = static_cast<std::byte*>(workspace);
  plan.strategy->run(plan, args, space);
  recompute(plan, args, space);
}

Text sizes_of(const Problem& p) {
  Text text;
  text.add("B%lld H%lld Hkv%lld Lq%lld Lkv%lld D%lld Dv%lld", lld(p.batch), lld(p.query_heads),
           lld(p.key_heads), lld(p.query_length), lld(p.key_length), lld(p.features),
           lld(p.value_features));
  return text;
}

Text options_of(const Problem& p, const heed_attention_args& args) {
  Text text;
  add_types(p, text);
  add_positions(p, text);
  text.add_if(args.cu_seqlens_q != nullptr || args.cu_seqlens_k != nullptr, " packed");
  text.add_if(args.key_lengths != nullptr, " lengths");
  if (p.pages > 0) text.add(" pages=%lldx%lld", lld(p.pages), lld(p.page_rows));
  text.add_if(args.mask != nullptr, " mask");
  if (p.softcap > 0) text.add(" softcap=%g", p.softcap);
  text.add_if(args.alibi_slopes != nullptr, " alibi");
  text.add_if(args.bias != nullptr, " bias");
  text.add_if(args.score_function != nullptr, " function");
  if (p.temperature != 1) text.add(" temperature=%g", p.temperature);
  text.add_if(p.hard, " hard");
  text.add_if(args.sinks != nullptr, " sinks");
  text.add_if(args.lse != nullptr, " lse");
  if (p.weights_point != HEED_WEIGHTS_NONE)
    text.add(" weights=%d", static_cast<int>(p.weights_point));
  text.add_if(p.sum_columns, " columns");
  return text;
}

void print_run(const heed_attention_plan& plan, const heed_attention_args& args,
               double seconds) noexcept {
  const Problem& p = plan.problem;
  const heed_context& c = *plan.context;
  Text precision;
  if (plan.precision() != Precision::kExact) precision.add(" %s", name_of(plan.precision()));
  Text tuned;
  if (plan.tuning_line > 0) tuned.add(" of line %u", plan.tuning_line);
  tell(
      "attention %s scale %.6g%s, %s %s%s %s x%u, tiles %lld x %lld%s, %lld tasks, %.3f ms, "
      "%.1f GFLOP/s",
      sizes_of(p).c_str(), p.scale, options_of(p, args).c_str(), plan.strategy->name,
      c.kernels->f32.isa, precision.c_str(), c.threads.name, plan.workers, lld(plan.tile_q),
      lld(plan.tile_kv), tuned.c_str(), lld(plan.all_tasks()), seconds * 1e3,
      seconds > 0 ? plan.flops / seconds * 1e-9 : 0.0);
}

}  // namespace heed
