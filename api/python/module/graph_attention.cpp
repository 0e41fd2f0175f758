// heed.graph_attention, heed.graph_attention_plan and heed.GraphAttentionPlan.
#include <cstring>

#include "api/python/module/bind.hpp"
#include "api/python/module/c_plan.hpp"
#include "api/python/module/graph_call.hpp"
#include "api/python/module/kept.hpp"
#include "api/python/module/pickling.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {
namespace {

nb::object graph_attention(nb::object graph, const nb::tuple& parts, nb::object out,
                           nb::handle context) {
  const GraphArguments arguments(std::move(graph), parts, std::move(out));
  GraphCall call;
  call.read(arguments);
  call.make_outputs(arguments);
  const HeldContext held = hold_context(context);
  check(without_gil(call.flops(), {}, [&] {
    return heed_graph_attention(held.context, call.graph->get(), &call.desc, &call.args);
  }));
  return call.result(arguments);
}

constexpr PlanFunctions<heed_graph_attention_plan, heed_graph_attention_info,
                        heed_graph_attention_args>
    kFunctions = {&heed_graph_attention_plan_destroy, &heed_graph_attention_plan_describe,
                  &heed_graph_attention_plan_run};

/// A plan, and what it was made from: the graph, the model's parameters and settings.
class GraphAttentionPlan {
 public:
  GraphAttentionPlan(const GraphCall& call, const GraphArguments& made, nb::handle context)
      : plan_(kFunctions, context,
              [&](const heed_context* held, heed_graph_attention_plan** plan) {
                return heed_graph_attention_plan_create(held, call.graph->get(), &call.desc, plan);
              }),
        info_(plan_.info()),
        desc_(call.desc),
        flops_(call.flops()),
        out_given_(call.out_given),
        kept_(made) {
    kept_.out = nb::none();
    kept_.tensors = nb::tuple();
    for (int i = 0; i < GraphCall::kTensors; ++i) given_[i] = call.tensors[i].form.axes > 0;
    each_form(call, [&](int i, const char*, const Form& form) { forms_[i] = form; });
  }

  nb::object run(nb::handle query, nb::handle key, nb::handle value, nb::handle data,
                 nb::handle edge_data, nb::handle edge_bias, nb::handle out) const {
    GraphArguments arguments = kept_;
    arguments.tensors = nb::make_tuple(query, key, value, data, edge_data, edge_bias);
    arguments.out = nb::borrow(out);
    for (int i = 0; i < GraphCall::kTensors; ++i)
      if (nb::handle(arguments.tensors[i]).is_none() == given_[i])
        refuse_type(given_[i] ? "the plan was made with %s: give it"
                              : "%s is given, but the plan was made without",
                    kGraphTensors[i]);
    if (out_given_ && out.is_none()) refuse_type("the plan was made with out: give it");
    GraphCall call;
    call.read(arguments);
    call.make_outputs(arguments);
    check_same(call);
    plan_.run(call.args, flops_, {});
    return call.result(arguments);
  }

  nb::dict describe() const {
    nb::dict said;
    said["isa"] = info_.isa;
    said["executor"] = info_.executor;
    said["threads"] = info_.threads;
    said["tasks"] = info_.tasks;
    said["workspace_bytes"] = info_.workspace_bytes;
    said["gathered_bytes"] = info_.gathered_bytes;
    return said;
  }

 private:
  static constexpr int kForms = int{GraphCall::kTensors} + int{GraphCall::kMatrices} + 1;

  template <class Use>
  static void each_form(const GraphCall& call, Use use) {
    for (int i = 0; i < GraphCall::kTensors; ++i) use(i, kGraphTensors[i], call.tensors[i].form);
    for (int i = 0; i < GraphCall::kMatrices; ++i)
      use(GraphCall::kTensors + i, kGraphMatrices[i].name, call.matrices[i].array.form);
    use(kForms - 1, "out", call.out.form);
  }

  void check_same(const GraphCall& call) const {
    if (std::memcmp(&call.desc, &desc_, sizeof desc_) == 0) return;
    each_form(call, [&](int i, const char* name, const Form& form) {
      check_form(name, form, forms_[i]);
    });
    refuse("biases are of another type than those that the plan was made with");
  }

  CPlan<heed_graph_attention_plan, heed_graph_attention_info, heed_graph_attention_args> plan_;
  heed_graph_attention_info info_;
  heed_graph_attention_desc desc_;
  double flops_;
  bool out_given_;
  bool given_[GraphCall::kTensors] = {};
  GraphArguments kept_;
  Form forms_[kForms];
};

GraphAttentionPlan* graph_attention_plan(nb::object graph, const nb::tuple& parts, nb::object out,
                                         nb::handle context) {
  const GraphArguments arguments(std::move(graph), parts, std::move(out));
  GraphCall call;
  call.read(arguments);
  call.make_outputs(arguments);
  return new GraphAttentionPlan(call, arguments, context);
}

}  // namespace

void bind_graph_attention(nb::module_& module) {
  nb::class_<GraphAttentionPlan> plan(
      module, "GraphAttentionPlan",
      R"(Attention over one graph, of fixed shapes, strides, types and settings, made by
heed.graph_attention_plan.

A call takes exactly the arrays among query, key, value, data, edge_data, edge_bias and out that the
plan was made with, in the same shapes, strides and types. The plan keeps the graph, and the matrices
and biases that it was given, which it reads anew in every call. Any threads may call one plan at
once: it keeps a workspace for each.

In C: heed_graph_attention_plan.)");
  method(plan,
         "def __call__(self, query: typing.Any | None = None, key: typing.Any | None = None, "
         "value: typing.Any | None = None, *, data: typing.Any | None = None, "
         "edge_data: typing.Any | None = None, edge_bias: typing.Any | None = None, "
         "out: typing.Any | None = None) -> typing.Any",
         &GraphAttentionPlan::run,
         "Computes what heed.graph_attention would. In C: heed_graph_attention_plan_run.");
  method(plan, "def describe(self) -> dict[str, object]", &GraphAttentionPlan::describe,
         "How it computes: isa, executor, threads, tasks, workspace_bytes, gathered_bytes (of "
         "keys and values, read through edges in a step). In C: "
         "heed_graph_attention_plan_describe.");
  refuse_pickling(plan,
                  "it is made for this computer: make it anew with heed.graph_attention_plan");
  module.def("graph_attention", &graph_attention, nb::arg("graph").none(), nb::arg("parts"),
             nb::arg("out").none(), nb::arg("context").none(),
             nb::sig("def graph_attention(graph: Graph, parts: tuple[object, ...], out: object, "
                     "context: Context | None) -> typing.Any"));
  module.def("graph_attention_plan", &graph_attention_plan, nb::arg("graph").none(),
             nb::arg("parts"), nb::arg("out").none(), nb::arg("context").none(),
             nb::sig("def graph_attention_plan(graph: Graph, parts: tuple[object, ...], "
                     "out: object, context: Context | None) -> GraphAttentionPlan"));
}

}  // namespace heed::python
