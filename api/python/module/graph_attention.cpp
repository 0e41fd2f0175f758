// heed.graph_attention, its plans and its gradients.
#include <cstring>
#include <string>

#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/errors.hpp"
#include "api/python/module/gradients.hpp"
#include "api/python/module/graph.hpp"
#include "api/python/module/plan.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {

// ---- heed.graph_attention, heed.graph_attention_plan and heed.GraphAttentionPlan ----
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
  internal(module,
           "def graph_attention(graph: Graph, parts: tuple[object, ...], out: object, context: "
           "Context | None) -> typing.Any",
           &graph_attention);
  internal(module,
           "def graph_attention_plan(graph: Graph, parts: tuple[object, ...], out: object, "
           "context: Context | None) -> GraphAttentionPlan",
           &graph_attention_plan);
}

// ---- heed.graph_attention_backward ----

namespace {

/// In the order of heed.GraphGradients: tensors, matrices, biases, weights of heads.
constexpr int kTensor = 0;
constexpr int kMatrix = kTensor + int{GraphCall::kTensors};
constexpr int kBias = kMatrix + int{GraphCall::kMatrices};
constexpr int kHeadWeights = kBias + 3;
constexpr int kCount = kHeadWeights + 1;

/// What gradients a call has, and where C writes them.
class GraphGradients {
 public:
  GraphGradients(const GradientMaker& make, const GraphCall& call, const nb::tuple& wanted,
                 heed_graph_attention_backward_desc& desc, heed_graph_attention_backward_args& args)
      : make_(make), call_(call), wanted_(wanted) {
    heed_layout* const layouts[] = {&desc.grad_query, &desc.grad_key,       &desc.grad_value,
                                    &desc.grad_data,  &desc.grad_edge_data, &desc.grad_edge_bias};
    void** const tensors[] = {&args.grad_query, &args.grad_key,       &args.grad_value,
                              &args.grad_data,  &args.grad_edge_data, &args.grad_edge_bias};
    for (int i = 0; i < GraphCall::kTensors; ++i) of_tensor(i, *layouts[i], *tensors[i]);
    heed_matrix_layout* const shapes[] = {&desc.grad_w_query, &desc.grad_w_key, &desc.grad_w_value,
                                          &desc.grad_w_edge_key, &desc.grad_w_edge_value};
    void** const matrices[] = {&args.grad_w_query, &args.grad_w_key, &args.grad_w_value,
                               &args.grad_w_edge_key, &args.grad_w_edge_value};
    for (int i = 0; i < GraphCall::kMatrices; ++i) of_matrix(i, *shapes[i], *matrices[i]);
    void** const biases[] = {&args.grad_b_query, &args.grad_b_key, &args.grad_b_value};
    for (int i = 0; i < 3; ++i)
      of_reals(kBias + i, kGraphMatrices[i].bias_name, call.biases[i].data, call.matrices[i].out,
               *biases[i]);
    of_reals(kHeadWeights, "head_weights", call.args.head_weights, call.desc.heads,
             args.grad_head_weights);
  }
  GraphGradients(const GraphGradients&) = delete;
  GraphGradients& operator=(const GraphGradients&) = delete;

  nb::object result(nb::handle like) const {
    nb::list found;
    for (const Gradient& gradient : gradients_) found.append(gradient.result(make_.kind, like));
    return names().graph_gradients(*nb::tuple(found));
  }

 private:
  /// What is asked for of a gradient; nothing of what is not given.
  nb::handle asked(int i, const std::string& name, const char* of, bool given) const {
    const nb::handle wanted = unless_given(wanted_[i], given);
    if (!given && is_wanted(name.c_str(), wanted))
      refuse("%s is wanted, but no %s is given", name.c_str(), of);
    return wanted;
  }

  void of_tensor(int i, heed_layout& layout, void*& data) {
    const std::string name = std::string("grad_") + kGraphTensors[i];
    const Form& form = call_.tensors[i].form;
    const nb::handle wanted = asked(kTensor + i, name, kGraphTensors[i], form.axes > 0);
    const bool bias = i == GraphCall::kEdgeBias;
    if (bias && form.axes == 2 && form.size(1) > 1 && form.stride(1) == 0 && form.elements() > 0 &&
        is_wanted(name.c_str(), wanted))
      refuse("%s is wanted, but edge_bias repeats a number for all heads; give it as [edges]",
             name.c_str());
    Array array;
    Gradient& gradient = gradients_[kTensor + i];
    gradient = make_.of_tensor(name.c_str(), wanted, form, array);
    if (!gradient.object.is_valid()) return;
    layout = bias ? heads_layout(array.form) : layout_over(array.form);
    data = address_of(array);
  }

  void of_matrix(int i, heed_matrix_layout& layout, void*& data) {
    const Matrix& matrix = call_.matrices[i];
    const std::string name = std::string("grad_") + kGraphMatrices[i].name;
    const nb::handle wanted = asked(kMatrix + i, name, kGraphMatrices[i].name, matrix.given());
    Array array;
    Gradient& gradient = gradients_[kMatrix + i];
    gradient = make_.of_tensor(name.c_str(), wanted, matrix.array.form, array);
    if (!gradient.object.is_valid()) return;
    layout = matrix_layout(array.form);
    data = address_of(array);
  }

  void of_reals(int i, const char* of, const void* given, std::int64_t count, void*& data) {
    const std::string name = std::string("grad_") + of;
    const nb::handle wanted = asked(i, name, of, given != nullptr);
    gradients_[i] = make_.of_reals(name.c_str(), wanted, count, data);
  }

  const GradientMaker& make_;
  const GraphCall& call_;
  const nb::tuple& wanted_;
  Gradient gradients_[kCount];
};

void check_differentiable(const GraphCall& call) {
  if (call.desc.hard != 0)
    refuse_unsupported("hard is True; it must be False: hard attention is not differentiable");
  for (int i = 0; i < GraphCall::kMatrices; ++i)
    if (call.matrices[i].prepared != nullptr)
      refuse_unsupported(
          "%s is heed.Weights; gradients need the array that they were made from, and its bias",
          kGraphMatrices[i].name);
  if (call.info.reverse == 0) refuse("graph was made without reverse=True, which gradients need");
}

nb::object graph_attention_backward(nb::object graph, const nb::tuple& parts, nb::handle grad_out,
                                    nb::handle grad_lse, const nb::tuple& wanted,
                                    nb::handle accumulate, nb::handle context) {
  const GraphArguments arguments(std::move(graph), parts, nb::none());
  GraphCall call;
  call.read(arguments);
  check_differentiable(call);
  const Array& like = call.tensors[call.like()];
  heed_graph_attention_backward_desc desc = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;
  heed_graph_attention_backward_args args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  desc.attention = &call.desc;
  args.attention = &call.args;
  desc.accumulate = flag("accumulate", accumulate) ? 1 : 0;
  const GradientMaker make = {like.kind, kGraphTensors[call.like()], like.form.element,
                              desc.accumulate != 0};
  call.desc.out.dtype = dtype_of(like.form.element);  // which says what steps round to
  const Array from_out = read_like_out(make, "grad_out", grad_out, call.out_shape());
  desc.grad_out = call.out_layout(from_out.form);
  args.grad_out = address_of(from_out);
  Array from_lse;
  if (!grad_lse.is_none()) {
    from_lse = read_like_lse("grad_lse", grad_lse, Shape({call.info.nodes, call.desc.heads}, 0));
    desc.grad_lse = heads_layout(from_lse.form);
    args.grad_lse = address_of(from_lse);
  }
  const GraphGradients gradients(make, call, wanted, desc, args);
  const HeldContext held = hold_context(context);
  constexpr double kPasses = 3;  // by destination, and by source with twice the products
  check(without_gil(kPasses * call.flops(), {}, [&] {
    return heed_graph_attention_backward(held.context, call.graph->get(), &desc, &args);
  }));
  return gradients.result(arguments.tensor(call.like()));
}

}  // namespace

void bind_graph_backward(nb::module_& module) {
  internal(module,
           "def graph_attention_backward(graph: Graph, parts: tuple[object, ...], grad_out: "
           "object, grad_lse: object, wanted: tuple[object, ...], accumulate: object, context: "
           "Context | None) -> typing.Any",
           &graph_attention_backward);
}

}  // namespace heed::python
