// heed.attention, its plans and its gradients.
#include "api/python/module/gradients.hpp"
#include "api/python/module/plan.hpp"

namespace heed::python {
namespace {

// ---- heed.attention ----

nb::object attention(nb::handle query, nb::handle key, nb::handle value, nb::handle options) {
  Arguments given = read_arguments("attention", options, kOfAttention, kForward);
  given.query = query, given.key = key, given.value = value;
  return compute<Call>(given);
}

// ---- heed.plan and heed.Plan ----

using Plan = PlanOf<Call, CPlan<&heed_attention_plan_destroy, &heed_attention_plan_describe,
                                &heed_attention_plan_run>>;

Plan* plan(nb::handle query, nb::handle key, nb::handle value, nb::handle options) {
  Arguments given = read_arguments("plan", options, kOfAttention, kForward);
  given.query = query, given.key = key, given.value = value;
  return new Plan(given);
}

nb::dict describe(const Plan& plan) {
  const heed_attention_info info = plan.info();
  return dict_of("strategy", info.strategy, "isa", info.isa, "executor", info.executor, "threads",
                 info.threads, "tile_q", info.tile_q, "tile_kv", info.tile_kv, "tasks", info.tasks,
                 "workspace_bytes", info.workspace_bytes, "flops", info.flops, "tuning_line",
                 info.tuning_line, "precision", name_of_precision(info.precision));
}

// ---- heed.attention_backward ----

nb::object attention_backward(nb::handle arguments) {
  const Arguments given =
      read_arguments("attention_backward", arguments, kOfAttention, kBackward | kOut);
  Call call;
  call.read(given);
  check_differentiable("attention_backward", given);
  if (call.paged())
    refuse_unsupported("block_table is given; gradients of keys in pages are not supported");
  for (const auto& [name, array] : {std::pair{"key", &call.key}, std::pair{"value", &call.value}})
    if (!is_floating(array->form.element))
      refuse_unsupported("{} is {}; gradients of 8-bit numbers are not supported", name,
                         name_of(array->form.element));
  AttentionGradients back(call, given);
  back.args.score_gradient = score_gradient_of(call, given);
  constexpr double kProducts = 2.5;  // of the forward call's two
  run_in(given.context, kProducts * call.flops(), &call.score_function,
         [&](const heed_context* held) {
           return heed_attention_backward(held, &back.desc, &back.args);
         });
  call.score_function.raise();
  return back.result(given.query);
}

}  // namespace

void bind_dense(nb::module_& module) {
  nb::class_<Plan> type(
      module, "Plan",
      R"(Attention of fixed shapes, strides, types and settings, made by heed.plan.

A call takes query, key and value as plan did, and exactly the tensors among its options that plan
was given, lists of numbers too, with the same shapes, strides and types. Any threads may call one
plan at once: it keeps a workspace for each. It keeps no tensor.

In C: heed_attention_plan.)");
  method(type,
         "def __call__(self, query: typing.Any, key: typing.Any, value: typing.Any, *, "
         "out: typing.Any | None = None, **tensors: typing.Any) -> typing.Any",
         &run<Plan, kOfAttention>,
         "Computes what heed.attention would. In C: heed_attention_plan_run.");
  method(type, "def describe(self) -> dict[str, object]", &describe,
         "How it computes: strategy (prefill, decode or mixed), isa, executor, threads, tile_q "
         "query rows per task, tile_kv keys per tile, tasks, workspace_bytes, flops, the "
         "tuning_line that gave tiles, or 0, and the precision in effect, \"default\" where "
         "weights "
         "are rounded to bfloat16, else \"exact\". In C: heed_attention_plan_describe.");
  internal(module,
           "def attention(query: object, key: object, value: object, options: object) -> "
           "typing.Any",
           &attention);
  internal(module, "def plan(query: object, key: object, value: object, options: object) -> Plan",
           &plan);
  internal(module, "def attention_backward(arguments: object) -> typing.Any", &attention_backward);
}

}  // namespace heed::python
