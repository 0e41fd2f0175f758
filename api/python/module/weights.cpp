#include "api/python/module/weights.hpp"

#include "api/python/module/plan.hpp"

namespace heed::python {

namespace {

/// The bias `name` of the matrix `of`; none beside heed.Weights, whose bias is inside.
Array read_bias(const char* name, const char* of, nb::handle from, const Matrix& matrix) {
  if (!from.is_valid()) return {};
  if (matrix.prepared != nullptr)
    refuse("{} is given, but {} is heed.Weights, which have their bias inside", name, of);
  if (matrix.data == nullptr) refuse("{} is given without {}", name, of);
  Array bias = read_array(name, from);
  const Form& form = bias.form;
  check_floating(name, form);
  if (form.axes != 1 || form.size(1) != matrix.out)
    refuse("{} has shape {}; it must have [{}], a number for each column of {}", name,
           shape_text(form), matrix.out, of);
  if (!is_contiguous(form))
    refuse("{} has a stride of {} elements; its numbers must lie side by side", name,
           form.stride(1));
  check_arithmetic(name, form, of, matrix.array.form.element == Element::kF64);
  return bias;
}

}  // namespace

Weights::Weights(const Given& given) {
  const nb::handle from = given.values()[0];
  const int axes = nb::isinstance<Weights>(from) ? 2 : read_array("matrix", from).form.axes;
  const Matrix matrix = read_matrix("matrix", from, axes == 3 ? 3 : 2);
  if (matrix.prepared != nullptr) refuse_type("matrix must be an array, not heed.Weights");
  const Array bias = read_bias("bias", "matrix", given["bias"], matrix);
  const Form& form = matrix.array.form;
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.arithmetic = form.element == Element::kF64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  desc.matrices = form.size(3);
  desc.in = form.size(2);
  desc.out = form.size(1);
  desc.layout = matrix.layout;
  if (bias.data != nullptr) desc.bias_dtype = dtype_of(bias.form.element);
  run_in(given["context"], static_cast<double>(form.elements()), nullptr,
         [&](const heed_context* held) {
           return heed_weights_create(held, &desc, matrix.data, bias.data, &weights_);
         });
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
  check_axes(name, form, axes, axes, axes == 2 ? "[in, out]" : "[matrices, in, out]");
  check_floating(name, form);
  if (form.size(2) == 0 || form.size(1) == 0)
    refuse("{} is {}; it must have numbers", name, text(form));
  matrix.in = form.size(3) * form.size(2);
  matrix.out = form.size(1);
  matrix.layout = matrix_layout(form);
  static const double nothing = 0;  // no matrix for no node is given, too
  matrix.data = form.elements() == 0 ? &nothing : address_of(matrix.array);
  return matrix;
}

std::uint32_t place_with_biases(const Projection* rows, int count, const Matrix* matrices,
                                const Arguments& given, Array* biases, void* desc, void* args) {
  std::uint32_t dtype = HEED_DTYPE_DEFAULT;
  const char* of = nullptr;
  for (int i = 0; i < count; ++i) {
    set_member(desc, rows[i].matrix.layout, matrices[i].layout);
    set_member(args, rows[i].matrix.data, matrices[i].data);
    const Operand& row = rows[i].bias;
    if (row.name == nullptr) continue;
    biases[i] = read_bias(row.name, rows[i].matrix.name, given.*row.given, matrices[i]);
    set_member(args, rows[i].prepared, matrices[i].prepared);
    set_member(args, row.data, biases[i].data);
    if (biases[i].data == nullptr) continue;
    const heed_dtype own = dtype_of(biases[i].form.element);
    if (of != nullptr && own != dtype)
      refuse("{} and {} are of different types; biases must all be of one", of, row.name);
    dtype = own;
    of = row.name;
  }
  return dtype;
}

void check_in(const char* name, const Matrix& matrix, const char* of, std::int64_t in) {
  if (matrix.in == in) return;
  const Form& form = matrix.array.form;
  const std::string is =
      matrix.prepared != nullptr ? "from " + std::to_string(matrix.in) + " features" : text(form);
  refuse(
      "{} is {}; it must be [in, out] with in {}, as {} (a matrix [out, in], as PyTorch has "
      "it, is given as {}.T)",
      name, is, in, of, name);
}

std::int64_t features_of(const char* name, const Matrix& matrix, std::int64_t heads) {
  if (matrix.out % heads != 0)
    refuse("{} has {} columns, which {} heads cannot share", name, matrix.out, heads);
  return matrix.out / heads;
}

void check_columns(const char* name, const Matrix& matrix, std::int64_t heads,
                   std::int64_t features) {
  const std::int64_t columns = heads * features;
  if (matrix.given() && matrix.out != columns)
    refuse("{} has {} columns; it must have {}, for {} heads of {} features", name, matrix.out,
           columns, heads, features);
}

void check_arithmetic(const char* name, const Form& form, const char* like, bool float64) {
  if ((form.element == Element::kF64) != float64)
    refuse("{} is {} but {} is {}; all must be float64, or none", name, name_of(form.element), like,
           float64 ? "float64" : "not");
}

namespace {

void make_weights(Weights* self, const Given& given) { new (self) Weights(given); }

const char* arithmetic_of(const Weights& weights) {
  return weights.info().arithmetic == HEED_DTYPE_F64 ? "float64" : "float32";
}

nb::dict describe(const Weights& weights) {
  const heed_weights_info& info = weights.info();
  return dict_of("arithmetic", arithmetic_of(weights), "in", info.in, "out", info.out, "bytes",
                 info.bytes);
}

nb::str representation(const Weights& weights) {
  const heed_weights_info& info = weights.info();
  return nb::str("<heed.Weights: {} features to {}, {}>")
      .format(info.in, info.out, arithmetic_of(weights));
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
