// heed.plan and heed.Plan.
#include <cstring>
#include <iterator>

#include "api/python/module/bind.hpp"
#include "api/python/module/c_plan.hpp"
#include "api/python/module/kept.hpp"
#include "api/python/module/outputs.hpp"

namespace heed::python {
namespace {

constexpr struct {
  const char* name;
  Array Call::*array;
} kArrays[] = {{"query", &Call::query},           {"key", &Call::key},
               {"value", &Call::value},           {"out", &Call::out},
               {"attn_mask", &Call::attn_mask},   {"bias", &Call::bias},
               {"key_scales", &Call::key_scales}, {"value_scales", &Call::value_scales}};

constexpr PlanFunctions<heed_attention_plan, heed_attention_info, heed_attention_args> kFunctions =
    {&heed_attention_plan_destroy, &heed_attention_plan_describe, &heed_attention_plan_run};

/// A plan, and what it was made from. It keeps settings, but no tensors.
class Plan {
 public:
  Plan(Call& call, const Options& options, nb::handle context)
      : desc_(call.desc),
        plan_(kFunctions, context,
              [&](const heed_context* held, heed_attention_plan** plan) {
                return heed_attention_plan_create(held, &desc_, plan);
              }),
        info_(plan_.info()),
        out_given_(call.out_given),
        kept_(call, options) {
    for (std::size_t i = 0; i < std::size(kArrays); ++i) forms_[i] = (call.*kArrays[i].array).form;
  }

  nb::object run(nb::handle query, nb::handle key, nb::handle value, nb::handle out,
                 const nb::kwargs& tensors) {
    const Options options = kept_.with("Plan.__call__", "heed.plan", tensors);
    if (out_given_ && out.is_none()) refuse_type("the plan was made with out: give it");
    Call call;
    read_lengths(call, options);
    read_tensors(call, query, key, value, options);
    read_scores(call, options);
    const Outputs outputs = make_outputs(call, options, out.is_none() ? nb::handle() : out);
    if (call.out_given && !out_given_) take_plain_out(call);
    // Made in the same way from the same, they are the same in every byte.
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c)
    if (std::memcmp(&call.desc, &desc_, sizeof desc_) != 0) refuse_difference(call);
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
  /// An out where the plan was made without: it lies as a new one would.
  void take_plain_out(Call& call) const {
    const Form& form = call.out.form;
    if (!is_contiguous(form) || dtype_of(form.element) != static_cast<heed_dtype>(desc_.out.dtype))
      refuse(
          "out is %s with strides %s; the plan was made without, so it must be contiguous and "
          "of query's type",
          text(form).c_str(), shape_text(form.strides, form.axes).c_str());
    call.desc.out = desc_.out;
  }

  [[noreturn]] void refuse_difference(const Call& call) const {
    kept_.check_mask(call);
    for (std::size_t i = 0; i < std::size(kArrays); ++i) {
      const char* name = kArrays[i].name;
      check_form(name, (call.*kArrays[i].array).form, forms_[i]);
    }
    if (call.desc.batch != desc_.batch)
      refuse("%s is for %lld sequences; the plan was made for %lld", call.batch_of,
             static_cast<long long>(call.desc.batch), static_cast<long long>(desc_.batch));
    refuse("block_table has rows of %lld entries; the plan was made for %lld",
           static_cast<long long>(call.desc.block_table_stride),
           static_cast<long long>(desc_.block_table_stride));
  }

  heed_attention_desc desc_;
  CPlan<heed_attention_plan, heed_attention_info, heed_attention_args> plan_;
  heed_attention_info info_;
  bool out_given_;
  KeptOptions kept_;
  Form forms_[std::size(kArrays)];
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
  nb::class_<Plan>(module, "Plan",
                   R"(Attention of fixed shapes, strides, types and settings, made by heed.plan.

A call takes query, key and value as plan did, and exactly the tensors among its options that plan
was given (attn_mask, bias, alibi_slopes, sinks, key_lengths, cu_seqlens_q, cu_seqlens_k,
block_table, key_scales, value_scales, out), with the same shapes, strides and types. Any threads
may call one plan at once: it keeps a workspace for each. It keeps no tensor.

In C: heed_attention_plan.)")
      .def("__call__", &Plan::run, nb::arg("query").none(), nb::arg("key").none(),
           nb::arg("value").none(), nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("tensors"),
           nb::sig("def __call__(self, query: typing.Any, key: typing.Any, value: typing.Any, *, "
                   "out: typing.Any | None = None, **tensors: typing.Any) -> typing.Any"),
           "Computes what heed.attention would. In C: heed_attention_plan_run.")
      .def("describe", &Plan::describe, nb::sig("def describe(self) -> dict[str, object]"),
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
