// The C boundary of gradients: of attention, and of multi-head blocks.
#include "api/shim.hpp"

heed_status heed_attention_backward_plan_create(const heed_context* context,
                                                const heed_attention_backward_desc* desc,
                                                heed_attention_backward_plan** plan) {
  return heed::create_plan(plan, context, desc);
}

HEED_PLAN_FUNCTIONS(heed_attention_backward)

heed_status heed_attention_backward_plan_describe(const heed_attention_backward_plan* plan,
                                                  heed_attention_info* info) {
  return heed::guarded([&] {
    const heed_attention_backward_plan& p = heed::required(plan, "plan");
    heed_attention_info known = HEED_ATTENTION_INFO_INIT;
    heed::describe_plan(p, known);
    known.precision = p.pairs ? HEED_PRECISION_DEFAULT : HEED_PRECISION_EXACT;
    known.threads = p.workers;
    known.tile_q = static_cast<uint32_t>(p.block_panels * p.attention.panel_rows);
    known.tile_kv = static_cast<uint32_t>(p.attention.tile_kv);
    known.tasks = static_cast<uint64_t>(p.tasks);
    known.flops = p.flops;
    known.strategy = "backward";
    known.tuning_line = p.attention.tuning_line;
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_attention_backward(const heed_context* context,
                                    const heed_attention_backward_desc* desc,
                                    const heed_attention_backward_args* args) {
  return heed::run_once(args, context, desc);
}

heed_status heed_multihead_backward_plan_create(const heed_context* context,
                                                const heed_multihead_backward_desc* desc,
                                                heed_multihead_backward_plan** plan) {
  return heed::create_plan(plan, context, desc);
}

HEED_PLAN_FUNCTIONS(heed_multihead_backward)

heed_status heed_multihead_backward_plan_describe(const heed_multihead_backward_plan* plan,
                                                  heed_multihead_info* info) {
  return heed::guarded([&] {
    const heed_multihead_backward_plan& p = heed::required(plan, "plan");
    heed_multihead_info known = HEED_MULTIHEAD_INFO_INIT;
    heed::describe_plan(p, known);
    known.threads = heed::workers_of(p);
    known.product = heed::name_of(p.context->backend);
    known.projection_flops = 2 * p.block.projection_flops;
    known.attention_flops = p.attention.flops;
    known.kept_bytes = p.problem.kept ? p.block.space.kept_bytes : 0;
    known.precision = static_cast<std::uint32_t>(p.block.precision());
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_multihead_backward(const heed_context* context,
                                    const heed_multihead_backward_desc* desc,
                                    const heed_multihead_backward_args* args) {
  return heed::run_once(args, context, desc);
}
