// heed.graph_attention_backward.
#include <string>

#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/gradients.hpp"
#include "api/python/module/graph_call.hpp"
#include "api/python/module/names.hpp"

namespace heed::python {
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
  module.def("graph_attention_backward", &graph_attention_backward, nb::arg("graph").none(),
             nb::arg("parts"), nb::arg("grad_out").none(), nb::arg("grad_lse").none(),
             nb::arg("wanted"), nb::arg("accumulate").none(), nb::arg("context").none(),
             nb::sig("def graph_attention_backward(graph: Graph, parts: tuple[object, ...], "
                     "grad_out: object, grad_lse: object, wanted: tuple[object, ...], "
                     "accumulate: object, context: Context | None) -> typing.Any"));
}

}  // namespace heed::python
