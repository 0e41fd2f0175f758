// heed.plan and heed.Plan.
#include "api/python/module/bind.hpp"
#include "api/python/module/c_plan.hpp"
#include "api/python/module/planned_call.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {
namespace {

constexpr PlanFunctions<heed_attention_plan, heed_attention_info, heed_attention_args> kFunctions =
    {&heed_attention_plan_destroy, &heed_attention_plan_describe, &heed_attention_plan_run};

/// A plan, and what it was made from. It keeps settings, but no tensors.
class Plan {
 public:
  Plan(Call& call, const Options& options, nb::handle context)
      : planned_(call, options),
        plan_(kFunctions, context,
              [&](const heed_context* held, heed_attention_plan** plan) {
                return heed_attention_plan_create(held, &call.desc, plan);
              }),
        info_(plan_.info()) {}

  nb::object run(nb::handle query, nb::handle key, nb::handle value, nb::handle out,
                 const nb::dict& tensors) const {
    Call call;
    const Outputs outputs = planned_.read(call, "heed.plan", {query, key, value, out, tensors});
    plan_.run(call.args, info_.flops, call.score_function);
    call.score_function.raise();
    return outputs.result(call.kind, call.out_given, query);
  }

  nb::dict describe() const {
    nb::dict said;
    said["strategy"] = info_.strategy;
    said["isa"] = info_.isa;
    said["executor"] = info_.executor;
    said["threads"] = info_.threads;
    said["tile_q"] = info_.tile_q;
    said["tile_kv"] = info_.tile_kv;
    said["tasks"] = info_.tasks;
    said["workspace_bytes"] = info_.workspace_bytes;
    said["flops"] = info_.flops;
    said["tuning_line"] = info_.tuning_line;
    said["precision"] = name_of_precision(info_.precision);
    return said;
  }

 private:
  PlannedCall planned_;
  CPlan<heed_attention_plan, heed_attention_info, heed_attention_args> plan_;
  heed_attention_info info_;
};

Plan* plan(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle context,
           nb::handle given) {
  const Options options = read_options("plan", given);
  Call call;
  read_lengths(call, options);
  read_tensors(call, query, key, value, options);
  read_scores(call, options);
  make_outputs(call, options, out.is_none() ? nb::handle() : out);
  return new Plan(call, options, context);
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<Plan> type(
      module, "Plan",
      R"(Attention of fixed shapes, strides, types and settings, made by heed.plan.

A call takes query, key and value as plan did, and exactly the tensors among its options that plan
was given (attn_mask, bias, alibi_slopes, sinks, key_lengths, cu_seqlens_q, cu_seqlens_k,
block_table, key_scales, value_scales, out), with the same shapes, strides and types. Any threads
may call one plan at once: it keeps a workspace for each. It keeps no tensor.

In C: heed_attention_plan.)");
  method(type,
         "def __call__(self, query: typing.Any, key: typing.Any, value: typing.Any, *, "
         "out: typing.Any | None = None, **tensors: typing.Any) -> typing.Any",
         &Plan::run, "Computes what heed.attention would. In C: heed_attention_plan_run.");
  method(type, "def describe(self) -> dict[str, object]", &Plan::describe,
         "How it computes: strategy (prefill, decode or mixed), isa, executor, threads, tile_q "
         "query rows per task, tile_kv keys per tile, tasks, workspace_bytes, flops, the "
         "tuning_line that gave tiles, or 0, and the precision in effect, \"default\" where "
         "weights "
         "are rounded to bfloat16, else \"exact\". In C: heed_attention_plan_describe.");
  module.def("plan", &plan, nb::arg("query").none(), nb::arg("key").none(), nb::arg("value").none(),
             nb::arg("out").none(), nb::arg("context").none(), nb::arg("options"),
             nb::sig("def plan(query: object, key: object, value: object, out: object, "
                     "context: Context | None, options: object) -> Plan"));
}

}  // namespace heed::python
