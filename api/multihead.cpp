// The C boundary of weight matrices, products with them, and multi-head blocks.
#include "api/heed.h"
#include "api/shim.hpp"
#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/plan.hpp"
#include "engine/projection/matmul.hpp"
#include "engine/projection/weights.hpp"
#include "engine/runtime/structs.hpp"

using heed::guarded;
using heed::required;

heed_status heed_weights_create(const heed_context* context, const heed_weights_desc* desc,
                                const void* matrix, const void* bias, heed_weights** weights) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    heed_weights*& result = required(weights, "weights");
    const heed::MatrixToPrepare given =
        heed::validate(c, heed::read_struct(desc, "desc"), matrix, bias);
    if (c.checked) heed::audit_call<heed::kWeightsOperands>(c, given, &given);
    result = heed::make_weights(c, given);
  });
}

void heed_weights_destroy(heed_weights* weights) {
  if (weights != nullptr) heed::release(weights);
}

heed_status heed_weights_describe(const heed_weights* weights, heed_weights_info* info) {
  return guarded([&] {
    const heed_weights& w = required(weights, "weights");
    heed_weights_info known = HEED_WEIGHTS_INFO_INIT;
    known.arithmetic = w.float64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
    known.in = w.in;
    known.out = w.out;
    known.bytes = w.bytes;
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_project(const heed_context* context, const heed_project_desc* desc,
                         const heed_weights* weights, const void* x, void* y) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    const heed_weights& w = required(weights, "weights");
    const heed::ProjectProblem problem = heed::validate(c, heed::read_struct(desc, "desc"), w);
    const heed::Project project = {x, y};
    heed::validate(problem, project);
    if (c.checked) heed::audit_call<heed::kProjectOperands>(c, problem, &project);
    heed::run_project(c, problem, project);
  });
}

heed_status heed_multihead_plan_create(const heed_context* context, const heed_multihead_desc* desc,
                                       heed_multihead_plan** plan) {
  return heed::create_plan(plan, context, desc);
}

HEED_PLAN_FUNCTIONS(heed_multihead)

heed_status heed_multihead_plan_describe(const heed_multihead_plan* plan,
                                         heed_multihead_info* info) {
  return guarded([&] {
    const heed_multihead_plan& p = required(plan, "plan");
    heed_multihead_info known = HEED_MULTIHEAD_INFO_INIT;
    heed::describe_plan(p, known);
    known.threads = heed::workers_of(p);
    known.product = heed::name_of(p.context->backend);
    known.projection_flops = p.projection_flops;
    known.attention_flops = p.attention.flops;
    known.kept_bytes = p.space.kept_bytes;
    known.precision = static_cast<std::uint32_t>(p.precision());
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_multihead(const heed_context* context, const heed_multihead_desc* desc,
                           const heed_multihead_args* args) {
  return heed::run_once(args, context, desc);
}
