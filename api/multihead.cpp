// The C boundary of weight matrices and multi-head blocks.
#include "engine/multihead/multihead.hpp"

#include "api/heed.h"
#include "api/shim.hpp"
#include "engine/check/matrices.hpp"
#include "engine/multihead/verbose.hpp"
#include "engine/projection/weights.hpp"
#include "engine/runtime/structs.hpp"

using heed::guarded;
using heed::OwnedWorkspace;
using heed::required;

namespace {

void run(const heed_multihead_plan& plan, const heed_multihead_args* args, void* workspace,
         std::size_t bytes) {
  const heed_multihead_args known = heed::read_struct(args, "args");
  heed::run_between_checks(
      plan, known, plan.space.bytes, workspace, bytes, [&](void* memory, std::size_t size) {
        heed::run_and_tell(
            *plan.context, [&] { heed::run_multihead(plan, known, memory, size); },
            [&](double seconds) { heed::print_run(plan, known, seconds); });
      });
}

heed_multihead_plan plan_of(const heed_context& context, const heed_multihead_desc* desc) {
  return heed::make_plan(context, heed::validate(heed::read_struct(desc, "desc")));
}

std::size_t lent_bytes(const heed_multihead_plan& plan) {
  return heed::with_canaries(*plan.context, plan.space.bytes);
}

}  // namespace

heed_status heed_weights_create(const heed_context* context, const heed_weights_desc* desc,
                                const void* matrix, const void* bias, heed_weights** weights) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    heed_weights*& result = required(weights, "weights");
    const heed::MatrixToPrepare given =
        heed::validate(heed::read_struct(desc, "desc"), matrix, bias);
    if (c.checked)
      heed::check_to_prepare(
          c, {"matrix", given.data, given.matrix, "bias", given.bias, given.bias_layout});
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

heed_status heed_multihead_plan_create(const heed_context* context, const heed_multihead_desc* desc,
                                       heed_multihead_plan** plan) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    heed_multihead_plan*& result = required(plan, "plan");
    result = heed::make<heed_multihead_plan>(c.allocator, plan_of(c, desc));
    heed::share(c);
  });
}

void heed_multihead_plan_destroy(heed_multihead_plan* plan) {
  if (plan == nullptr) return;
  const heed_context* const context = plan->context;
  heed::destroy(context->allocator, plan);
  heed::release(context);
}

heed_status heed_multihead_plan_describe(const heed_multihead_plan* plan,
                                         heed_multihead_info* info) {
  return guarded([&] {
    const heed_multihead_plan& p = required(plan, "plan");
    heed_multihead_info known = HEED_MULTIHEAD_INFO_INIT;
    known.threads = heed::workers_of(p);
    known.isa = p.context->kernels->f32.isa;
    known.executor = p.context->threads.name;
    known.product = heed::name_of(p.context->product);
    known.workspace_bytes = lent_bytes(p);
    known.projection_flops = p.projection_flops;
    known.attention_flops = p.attention.flops;
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_multihead_plan_workspace(const heed_multihead_plan* plan, size_t* bytes) {
  return guarded([&] { required(bytes, "bytes") = lent_bytes(required(plan, "plan")); });
}

heed_status heed_multihead_plan_run(const heed_multihead_plan* plan,
                                    const heed_multihead_args* args, void* workspace,
                                    size_t workspace_bytes) {
  return guarded([&] { run(required(plan, "plan"), args, workspace, workspace_bytes); });
}

heed_status heed_multihead(const heed_context* context, const heed_multihead_desc* desc,
                           const heed_multihead_args* args) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    const heed_multihead_plan plan = plan_of(c, desc);
    const std::size_t bytes = lent_bytes(plan);
    const OwnedWorkspace workspace(c.allocator, bytes);
    run(plan, args, workspace.get(), bytes);
  });
}
