// heed.multihead, heed.multihead_plan and heed.MultiheadPlan.
#include <cstring>
#include <utility>

#include "api/python/module/bind.hpp"
#include "api/python/module/block_kept.hpp"
#include "api/python/module/blocks.hpp"
#include "api/python/module/c_plan.hpp"
#include "api/python/module/kept.hpp"
#include "api/python/module/pickling.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {
namespace {

nb::object result_of(const BlockCall& call, nb::handle query) {
  call.attention.score_function.raise();
  return call.outputs.result(call.attention.kind, call.attention.out_given, query);
}

constexpr PlanFunctions<heed_multihead_plan, heed_multihead_info, heed_multihead_args> kFunctions =
    {&heed_multihead_plan_destroy, &heed_multihead_plan_describe, &heed_multihead_plan_run};

/// A plan says how much is kept.
void compute_and_keep(BlockCall& call, Kept& kept, nb::handle context) {
  call.desc.keep = 1;
  const CPlan<heed_multihead_plan, heed_multihead_info, heed_multihead_args> plan(
      kFunctions, context, [&](const heed_context* held, heed_multihead_plan** made) {
        return heed_multihead_plan_create(held, &call.desc, made);
      });
  Kept::Filled room = kept.take(plan.info().kept_bytes);
  room.place_in(call);
  plan.run(call.args, call.flops(), call.attention.score_function);
  call.attention.score_function.raise();
  kept.fill(std::move(room), call);
}

nb::object multihead(nb::handle query, nb::handle key, const nb::tuple& matrices,
                     const nb::tuple& biases, const nb::tuple& settings, nb::handle out,
                     nb::handle context, nb::handle keep, nb::handle given) {
  const BlockArguments arguments = {
      query, key, out, matrices, biases, settings, read_options("multihead", given)};
  BlockCall call;
  call.read(arguments);
  call.make_outputs(arguments);
  if (Kept* const kept = read_kept(keep)) {
    compute_and_keep(call, *kept, context);
    return result_of(call, query);
  }
  const HeldContext held = hold_context(context);
  check(without_gil(call.flops(), call.attention.score_function,
                    [&] { return heed_multihead(held.context, &call.desc, &call.args); }));
  return result_of(call, query);
}

/// A plan, and what it was made from. It keeps settings and the model's parameters.
class MultiheadPlan {
 public:
  MultiheadPlan(const BlockCall& call, const BlockArguments& made, nb::handle context)
      : plan_(kFunctions, context,
              [&](const heed_context* held, heed_multihead_plan** plan) {
                return heed_multihead_plan_create(held, &call.desc, plan);
              }),
        info_(plan_.info()),
        attention_(call.attention.desc),
        desc_(call.desc),
        flops_(call.flops()),
        out_given_(call.attention.out_given),
        key_given_(!made.key.is_none()),
        matrices_(made.matrices),
        biases_(made.biases),
        settings_(made.settings),
        kept_(call.attention, made.options) {
    each_form(call, [&](int i, const char*, const Form& form) { forms_[i] = form; });
  }

  nb::object run(nb::handle query, nb::handle key, nb::handle out, const nb::dict& tensors) const {
    if (key_given_ == key.is_none())
      refuse_type("key is %s, but the plan was made %s", key_given_ ? "None" : "given",
                  key_given_ ? "with one: give it" : "without");
    if (out_given_ && out.is_none()) refuse_type("the plan was made with out: give it");
    const BlockArguments arguments = {
        query,
        key,
        out,
        matrices_,
        biases_,
        settings_,
        kept_.with("MultiheadPlan.__call__", "heed.multihead_plan", tensors)};
    BlockCall call;
    call.read(arguments);
    call.make_outputs(arguments);
    check_same(call);
    plan_.run(call.args, flops_, call.attention.score_function);
    return result_of(call, query);
  }

  nb::dict describe() const {
    nb::dict said;
    said["isa"] = info_.isa;
    said["executor"] = info_.executor;
    said["product"] = info_.product;
    said["threads"] = info_.threads;
    said["workspace_bytes"] = info_.workspace_bytes;
    said["projection_flops"] = info_.projection_flops;
    said["attention_flops"] = info_.attention_flops;
    said["precision"] = name_of_precision(info_.precision);
    return said;
  }

 private:
  static constexpr int kForms = 5 + BlockCall::kMatrices;

  template <class Use>
  static void each_form(const BlockCall& call, Use use) {
    use(0, "query", call.query.form);
    use(1, "key", call.key.form);
    use(2, "out", call.attention.out.form);
    use(3, "attn_mask", call.attention.attn_mask.form);
    use(4, "bias", call.attention.bias.form);
    for (int i = 0; i < BlockCall::kMatrices; ++i)
      use(5 + i, kBlockMatrices[i].name, call.matrices[i].array.form);
  }

  void check_same(const BlockCall& call) const {
    heed_multihead_desc desc = call.desc;
    desc.attention = desc_.attention;
    if (std::memcmp(&desc, &desc_, sizeof desc) == 0 &&
        std::memcmp(&call.attention.desc, &attention_, sizeof attention_) == 0)
      return;
    kept_.check_mask(call.attention);
    each_form(call, [&](int i, const char* name, const Form& form) {
      check_form(name, form, forms_[i]);
    });
    refuse("%s is for %lld sequences; the plan was made for %lld", call.attention.batch_of,
           static_cast<long long>(call.attention.desc.batch),
           static_cast<long long>(attention_.batch));
  }

  CPlan<heed_multihead_plan, heed_multihead_info, heed_multihead_args> plan_;
  heed_multihead_info info_;
  heed_attention_desc attention_;
  heed_multihead_desc desc_;  // with a pointer that points nowhere any more
  double flops_;
  bool out_given_;
  bool key_given_;
  nb::tuple matrices_;
  nb::tuple biases_;
  nb::tuple settings_;
  KeptOptions kept_;
  Form forms_[kForms];
};

MultiheadPlan* multihead_plan(nb::handle query, nb::handle key, const nb::tuple& matrices,
                              const nb::tuple& biases, const nb::tuple& settings, nb::handle out,
                              nb::handle context, nb::handle given) {
  const BlockArguments arguments = {
      query, key, out, matrices, biases, settings, read_options("multihead_plan", given)};
  BlockCall call;
  call.read(arguments);
  call.make_outputs(arguments);
  return new MultiheadPlan(call, arguments, context);
}

}  // namespace

void bind_multihead(nb::module_& module) {
  nb::class_<MultiheadPlan> plan(
      module, "MultiheadPlan",
      R"(A multi-head block of fixed shapes, strides, types and settings, made by heed.multihead_plan.

A call takes query, and key and out if the plan was made with them, and exactly the tensors among
attention's options that it was made with, in the same shapes, strides and types. The plan keeps the
matrices and biases that it was given, and reads them anew in every call. Any threads may call one
plan at once: it keeps a workspace for each.

In C: heed_multihead_plan.)");
  method(plan,
         "def __call__(self, query: typing.Any, key: typing.Any | None = None, *, "
         "out: typing.Any | None = None, **tensors: typing.Any) -> typing.Any",
         &MultiheadPlan::run, "Computes what heed.multihead would. In C: heed_multihead_plan_run.");
  method(plan, "def describe(self) -> dict[str, object]", &MultiheadPlan::describe,
         "How it computes: isa, executor, product (what computes projections), threads, "
         "workspace_bytes, projection_flops, attention_flops, and the precision in effect, "
         "\"default\" where what lies between products is bfloat16, else \"exact\". In C: "
         "heed_multihead_plan_describe.");
  refuse_pickling(plan, "it is made for this computer: make it anew with heed.multihead_plan");
  module.def("multihead", &multihead, nb::arg("query").none(), nb::arg("key").none(),
             nb::arg("matrices"), nb::arg("biases"), nb::arg("settings"), nb::arg("out").none(),
             nb::arg("context").none(), nb::arg("keep").none(), nb::arg("options"),
             nb::sig("def multihead(query: object, key: object, matrices: tuple[object, ...], "
                     "biases: tuple[object, ...], settings: tuple[object, ...], out: object, "
                     "context: Context | None, keep: object, options: object) -> typing.Any"));
  module.def("multihead_plan", &multihead_plan, nb::arg("query").none(), nb::arg("key").none(),
             nb::arg("matrices"), nb::arg("biases"), nb::arg("settings"), nb::arg("out").none(),
             nb::arg("context").none(), nb::arg("options"),
             nb::sig("def multihead_plan(query: object, key: object, matrices: tuple[object, ...], "
                     "biases: tuple[object, ...], settings: tuple[object, ...], out: object, "
                     "context: Context | None, options: object) -> MultiheadPlan"));
}

}  // namespace heed::python
