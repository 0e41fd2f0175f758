#include "api/python/module/weights.hpp"

#include "api/python/module/bind.hpp"
#include "api/python/module/call.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/errors.hpp"
#include "api/python/module/plan.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {

Weights::Weights(nb::handle context, const heed_weights_desc& desc, const void* matrix,
                 const void* bias, double numbers) {
  const HeldContext held = hold_context(context);
  check(without_gil(numbers, {}, [&] {
    return heed_weights_create(held.context, &desc, matrix, bias, &weights_);
  }));
  check(heed_weights_describe(weights_, &info_));
}

heed_matrix_layout matrix_layout(const Form& form) {
  return {static_cast<std::uint32_t>(dtype_of(form.element)), HEED_STRIDES_EXPLICIT, form.stride(3),
          form.stride(2), form.stride(1)};
}

Matrix read_matrix(const char* name, nb::handle from, int axes) {
  Matrix matrix;
  if (nb::isinstance<Weights>(from)) {
    const auto& weights = *nb::inst_ptr<Weights>(from);
    matrix.prepared = weights.get();
    matrix.in = weights.info().in;
    matrix.out = weights.info().out;
    return matrix;
  }
  matrix.array = read_array(name, from);
  const Form& form = matrix.array.form;
  if (form.axes != axes)
    refuse("%s has shape %s; it must have axes %s", name, shape_text(form.shape, form.axes).c_str(),
           axes == 2 ? "[in, out]" : "[matrices, in, out]");
  check_floating(name, form);
  if (form.size(2) == 0 || form.size(1) == 0)
    refuse("%s is %s; it must have numbers", name, text(form).c_str());
  matrix.in = form.size(3) * form.size(2);
  matrix.out = form.size(1);
  matrix.layout = matrix_layout(form);
  static const double nothing = 0;  // no matrix for no node is given, too
  matrix.data = form.elements() == 0 ? &nothing : address_of(matrix.array);
  return matrix;
}

Bias read_bias(const NamedMatrix& names, nb::handle from, const Matrix& matrix) {
  Bias bias;
  if (!from.is_valid() || from.is_none()) return bias;
  const char* name = names.bias_name;
  if (matrix.prepared != nullptr)
    refuse("%s is given, but %s is heed.Weights, which have their bias inside", name, names.name);
  if (matrix.data == nullptr) refuse("%s is given without %s", name, names.name);
  bias.array = read_array(name, from);
  const Form& form = bias.array.form;
  check_floating(name, form);
  if (form.axes != 1 || form.size(1) != matrix.out)
    refuse("%s has shape %s; it must have [%lld], a number for each column of %s", name,
           shape_text(form.shape, form.axes).c_str(), static_cast<long long>(matrix.out),
           names.name);
  if (!is_contiguous(form))
    refuse("%s has a stride of %lld elements; its numbers must lie side by side", name,
           static_cast<long long>(form.stride(1)));
  check_arithmetic(name, form, names.name, matrix.array.form.element == Element::kF64);
  bias.data = bias.array.data;
  return bias;
}

std::uint32_t read_biases(const NamedMatrix* names, const Matrix* matrices, int count,
                          const nb::tuple& from, int first, Bias* biases) {
  std::uint32_t dtype = HEED_DTYPE_DEFAULT;
  const char* of = nullptr;
  for (int i = 0; i < count; ++i) {
    biases[i] = read_bias(names[i], from[first + i], matrices[i]);
    if (biases[i].data == nullptr) continue;
    const heed_dtype own = dtype_of(biases[i].array.form.element);
    if (of != nullptr && own != dtype)
      refuse("%s and %s are of different types; biases must all be of one", of, names[i].bias_name);
    dtype = own;
    of = names[i].bias_name;
  }
  return dtype;
}

void check_in(const char* name, const Matrix& matrix, const char* of, std::int64_t in) {
  if (matrix.in == in) return;
  const Form& form = matrix.array.form;
  const std::string is =
      matrix.prepared != nullptr ? "from " + std::to_string(matrix.in) + " features" : text(form);
  refuse(
      "%s is %s; it must be [in, out] with in %lld, as %s (a matrix [out, in], as PyTorch has "
      "it, is given as %s.T)",
      name, is.c_str(), static_cast<long long>(in), of, name);
}

std::int64_t features_of(const char* name, const Matrix& matrix, std::int64_t heads) {
  if (matrix.out % heads != 0)
    refuse("%s has %lld columns, which %lld heads cannot share", name,
           static_cast<long long>(matrix.out), static_cast<long long>(heads));
  return matrix.out / heads;
}

void check_columns(const char* name, const Matrix& matrix, std::int64_t heads,
                   std::int64_t features) {
  const std::int64_t columns = heads * features;
  if (matrix.given() && matrix.out != columns)
    refuse("%s has %lld columns; it must have %lld, for %lld heads of %lld features", name,
           static_cast<long long>(matrix.out), static_cast<long long>(columns),
           static_cast<long long>(heads), static_cast<long long>(features));
}

void check_arithmetic(const char* name, const Form& form, const char* like, bool float64) {
  if ((form.element == Element::kF64) != float64)
    refuse("%s is %s but %s is %s; all must be float64, or none", name, name_of(form.element), like,
           float64 ? "float64" : "not");
}

namespace {

void make_weights(Weights* self, nb::handle matrix, nb::handle bias, nb::handle context) {
  const int axes = nb::isinstance<Weights>(matrix) ? 2 : read_array("matrix", matrix).form.axes;
  const Matrix read = read_matrix("matrix", matrix, axes == 3 ? 3 : 2);
  if (read.prepared != nullptr) refuse_type("matrix must be an array, not heed.Weights");
  const Bias vector = read_bias({"matrix", "bias"}, bias, read);
  const Form& form = read.array.form;
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.arithmetic = form.element == Element::kF64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  desc.matrices = form.size(3);
  desc.in = form.size(2);
  desc.out = form.size(1);
  desc.layout = read.layout;
  if (vector.data != nullptr) desc.bias_dtype = dtype_of(vector.array.form.element);
  new (self) Weights(context, desc, read.data, vector.data, static_cast<double>(form.elements()));
}

nb::dict describe(const Weights& weights) {
  const heed_weights_info& info = weights.info();
  nb::dict said;
  said["arithmetic"] = info.arithmetic == HEED_DTYPE_F64 ? "float64" : "float32";
  said["in"] = info.in;
  said["out"] = info.out;
  said["bytes"] = info.bytes;
  return said;
}

nb::str representation(const Weights& weights) {
  const heed_weights_info& info = weights.info();
  return nb::str("<heed.Weights: {} features to {}, {}>")
      .format(info.in, info.out, info.arithmetic == HEED_DTYPE_F64 ? "float64" : "float32");
}

}  // namespace

void bind_weights(nb::module_& module) {
  nb::class_<Weights> weights(
      module, "Weights",
      R"(A matrix and its bias, prepared once in the order that products read them.

    y[o] = sum over i of x[i] * matrix[i, o] + bias[o]

Matrices that are given to a block as they are get packed in every call; those of a model are
constants, and are better prepared. Results have the same bits. Any threads, calls and plans may use
the same ones, in every context whose product (Context.describe) is the same.

    matrix   [in, out] of float32, float64, float16 or bfloat16, any strides: a PyTorch weight
             [out, in] is given as weight.T, a part of a packed W_qkv as w_qkv[:, begin:end]. For
             w_out with combine="tensor" [heads, value features, out]
    bias     [out], or None
    context  where to prepare; the default one unless given

The arrays are not needed afterwards: the numbers are kept as float32, or float64 of float64.

>>> import heed, numpy as np
>>> weights = heed.Weights(np.ones((4, 3)), np.zeros(3))
>>> weights
<heed.Weights: 4 features to 3, float64>

In C: heed_weights_create.)");
  method(weights,
         "def __init__(self, matrix: object, bias: object | None = None, *, "
         "context: Context | None = None) -> None",
         &make_weights);
  method(weights, "def describe(self) -> dict[str, object]", &describe,
         "What it holds: arithmetic (\"float32\" or \"float64\"), in and out (features), bytes. "
         "In C: heed_weights_describe.");
  weights.def("__repr__", &representation);
  refuse_pickling(weights, "it lies as this computer reads it: pickle the matrix and the bias");
}

}  // namespace heed::python
