// heed.multihead_backward.
#include <string>

#include "api/python/module/bind.hpp"
#include "api/python/module/block_kept.hpp"
#include "api/python/module/blocks.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/gradients.hpp"
#include "api/python/module/names.hpp"

namespace heed::python {
namespace {

/// In the order of heed.MultiheadGradients, up to what attention has by itself.
constexpr int kQuery = 0;
constexpr int kKey = 1;
constexpr int kMatrix = 2;
constexpr int kBias = kMatrix + BlockCall::kMatrices;
constexpr int kHeadWeights = kBias + BlockCall::kMatrices;
constexpr int kOptions = kHeadWeights + 1;

std::string gradient_of(const char* name) { return std::string("grad_") + name; }

/// Gradients of inputs, matrices, their biases, and weights of heads.
class BlockGradients {
 public:
  BlockGradients(const GradientMaker& make, const BlockCall& call, bool cross,
                 const nb::tuple& wanted, heed_multihead_backward_desc& desc,
                 heed_multihead_backward_args& args)
      : make_(make), call_(call), wanted_(wanted) {
    const Call& attention = call.attention;
    gradients_[kQuery] =
        of_input("grad_query", wanted[kQuery], call.query.form, attention.packed_queries(),
                 desc.grad_input_query, args.grad_input_query);
    const nb::handle key = unless_given(wanted[kKey], cross);
    if (!cross && is_wanted("grad_key", key))
      refuse("grad_key is wanted, but no key is given: grad_query is the sum of both");
    gradients_[kKey] = of_input("grad_key", key, call.key.form, attention.packed_keys(),
                                desc.grad_input_key, args.grad_input_key);
    heed_matrix_layout* const layouts[] = {&desc.grad_w_query, &desc.grad_w_key, &desc.grad_w_value,
                                           &desc.grad_w_out};
    void** const matrices[] = {&args.grad_w_query, &args.grad_w_key, &args.grad_w_value,
                               &args.grad_w_out};
    void** const biases[] = {&args.grad_b_query, &args.grad_b_key, &args.grad_b_value,
                             &args.grad_b_out};
    for (int i = 0; i < BlockCall::kMatrices; ++i) of_matrix(i, *layouts[i], *matrices[i]);
    for (int i = 0; i < BlockCall::kMatrices; ++i) of_bias(i, desc.grad_b_dtype, *biases[i]);
    const void* const weights = call.args.head_weights;
    const nb::handle of_heads = unless_given(wanted[kHeadWeights], weights != nullptr);
    if (weights == nullptr && is_wanted("grad_head_weights", of_heads))
      refuse("grad_head_weights is wanted, but no head_weights are given");
    gradients_[kHeadWeights] = make.of_reals("grad_head_weights", of_heads,
                                             attention.desc.query_heads, args.grad_head_weights);
  }
  BlockGradients(const BlockGradients&) = delete;
  BlockGradients& operator=(const BlockGradients&) = delete;

  void append_to(nb::list& results, nb::handle like) const {
    for (const Gradient& gradient : gradients_) results.append(gradient.result(make_.kind, like));
  }

 private:
  Gradient of_input(const char* name, nb::handle wanted, const Form& form, bool packed,
                    heed_layout& layout, void*& data) const {
    Array array;
    Gradient gradient = make_.of_tensor(name, wanted, form, array, packed);
    if (!gradient.object.is_valid()) return gradient;
    layout = rows_layout(array.form);
    data = address_of(array);
    return gradient;
  }

  /// As its array; of a prepared one in the arithmetic's type.
  Form form_of(int i) const {
    const Matrix& matrix = call_.matrices[i];
    if (matrix.data != nullptr) return matrix.array.form;
    const std::int64_t heads = call_.attention.desc.query_heads;
    const bool tensor = i == BlockCall::kOut && call_.desc.combine == HEED_COMBINE_TENSOR;
    const std::int64_t shape[] = {heads, tensor ? matrix.in / heads : matrix.in, matrix.out};
    return tensor ? contiguous_form(make_.real(), shape, 3)
                  : contiguous_form(make_.real(), shape + 1, 2);
  }

  /// Whether it is wanted; not of a matrix that the block lacks.
  bool wants(const std::string& name, nb::handle wanted, int i) const {
    if (!is_wanted(name.c_str(), wanted)) return false;
    if (!call_.matrices[i].given())
      refuse("%s is wanted, but there is no %s", name.c_str(), kBlockMatrices[i].name);
    return true;
  }

  void of_matrix(int i, heed_matrix_layout& layout, void*& data) {
    const std::string name = gradient_of(kBlockMatrices[i].name);
    const nb::handle wanted = unless_given(wanted_[kMatrix + i], call_.matrices[i].given());
    if (!wants(name, wanted, i)) return;
    Array array;
    gradients_[kMatrix + i] = make_.of_tensor(name.c_str(), wanted, form_of(i), array);
    layout = matrix_layout(array.form);
    data = address_of(array);
  }

  /// They are all of one type: that of the biases, unless arrays are given.
  void of_bias(int i, std::uint32_t& dtype, void*& data) {
    const std::string name = gradient_of(kBlockMatrices[i].bias_name);
    const Bias& bias = call_.biases[i];
    const nb::handle wanted = unless_given(wanted_[kBias + i], bias.data != nullptr);
    if (!wants(name, wanted, i)) return;
    const std::int64_t width = call_.matrices[i].out;
    const Form form =
        contiguous_form(bias.data != nullptr ? bias.array.form.element : make_.real(), &width, 1);
    Array array;
    gradients_[kBias + i] = make_.of_tensor(name.c_str(), wanted, form, array);
    if (!is_contiguous(array.form))
      refuse("%s has a stride of %lld elements; its numbers must lie side by side", name.c_str(),
             static_cast<long long>(array.form.stride(1)));
    const std::uint32_t own = dtype_of(array.form.element);
    if (first_bias_ != nullptr && own != dtype)
      refuse("grad_%s and %s are of different types; gradients of biases must all be of one",
             first_bias_, name.c_str());
    first_bias_ = kBlockMatrices[i].bias_name;
    dtype = own;
    data = address_of(array);
  }

  const GradientMaker& make_;
  const BlockCall& call_;
  const nb::tuple& wanted_;
  const char* first_bias_ = nullptr;
  Gradient gradients_[kOptions];
};

nb::object multihead_backward(nb::handle query, nb::handle key, const nb::tuple& matrices,
                              const nb::tuple& biases, const nb::tuple& settings,
                              nb::handle grad_out, nb::handle grad_lse, const nb::tuple& wanted,
                              nb::handle accumulate, nb::handle score_gradient, nb::handle context,
                              nb::handle keep, nb::handle given) {
  const BlockArguments arguments = {query,
                                    key,
                                    nb::none(),
                                    matrices,
                                    biases,
                                    settings,
                                    read_options("multihead_backward", given)};
  BlockCall call;
  call.read(arguments);
  Call& attention = call.attention;
  check_differentiable("multihead_backward", attention, arguments.options);
  Kept::Filled filled;  // stays to the end
  if (const Kept* const kept = read_kept(keep)) {
    filled = kept->of(call);
    filled.place_in(call);
  }
  heed_multihead_backward_desc desc = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  heed_multihead_backward_args args = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  desc.block = &call.desc;
  args.block = &call.args;
  desc.accumulate = flag("accumulate", accumulate) ? 1 : 0;
  const GradientMaker make = {attention.kind, "query", attention.out_element, desc.accumulate != 0};
  const Array from_out = read_like_out(make, "grad_out", grad_out, call.out_shape());
  desc.grad_out = rows_layout(from_out.form);
  args.grad_out = address_of(from_out);
  Array from_lse;
  if (!grad_lse.is_none()) {
    from_lse = read_like_lse("grad_lse", grad_lse, lse_shape(attention));
    desc.grad_lse = lse_layout(from_lse.form);
    args.grad_lse = address_of(from_lse);
  }
  args.score_gradient = score_gradient_of(attention, score_gradient);
  const BlockGradients block(make, call, !key.is_none(), wanted, desc, args);
  const OptionGradients others(make, attention, wanted, kOptions, desc, args);
  const HeldContext held = hold_context(context);
  constexpr double kProducts = 3;  // of the forward call's: once more, and two for each
  check(without_gil(kProducts * call.flops(), attention.score_function,
                    [&] { return heed_multihead_backward(held.context, &desc, &args); }));
  attention.score_function.raise();
  nb::list found;
  block.append_to(found, query);
  others.append_to(found, attention.kind, query);
  return names().block_gradients(*nb::tuple(found));
}

}  // namespace

void bind_multihead_backward(nb::module_& module) {
  module.def("multihead_backward", &multihead_backward, nb::arg("query").none(),
             nb::arg("key").none(), nb::arg("matrices"), nb::arg("biases"), nb::arg("settings"),
             nb::arg("grad_out").none(), nb::arg("grad_lse").none(), nb::arg("wanted"),
             nb::arg("accumulate").none(), nb::arg("score_gradient").none(),
             nb::arg("context").none(), nb::arg("keep").none(), nb::arg("options"),
             nb::sig("def multihead_backward(query: object, key: object, "
                     "matrices: tuple[object, ...], biases: tuple[object, ...], "
                     "settings: tuple[object, ...], grad_out: object, grad_lse: object, "
                     "wanted: tuple[object, ...], accumulate: object, score_gradient: object, "
                     "context: Context | None, keep: object, options: object) -> typing.Any"));
}

}  // namespace heed::python
