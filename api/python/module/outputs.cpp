#include "api/python/module/outputs.hpp"

#include <algorithm>
#include <cstring>

#include "api/python/module/errors.hpp"

namespace heed::python {
namespace {

nb::object numpy_dtype(Element element) {
  if (element == Element::kF32) return names().float32;
  if (element == Element::kBf16) return nb::module_::import_("ml_dtypes").attr("bfloat16");
  return nb::str(name_of(element));
}

Made made_by_numpy(Element element, const std::int64_t* shape, int axes) {
  nb::object sizes = nb::steal(PyTuple_New(axes));
  for (int axis = 0; axis < axes; ++axis)
    PyTuple_SetItem(sizes.ptr(), axis, PyLong_FromLongLong(shape[axis]));
  nb::object array = names().empty(sizes, numpy_dtype(element));
  void* data = read_array("out", array).data;
  return {std::move(array), data};
}

dlpack::DataType dlpack_type(Element element) {
  const auto bits = static_cast<std::uint8_t>(8 * bytes_of(element));
  const std::uint8_t code = element == Element::kBf16 ? dlpack::kBfloat
                            : is_floating(element)    ? dlpack::kFloat
                                                      : dlpack::kInt;
  return {code, bits, 1};
}

Made made_by_exchange(const dlpack::ExchangeApi& api, Element element, const std::int64_t* shape,
                      int axes) {
  std::int64_t sizes[kMaxAxes];
  std::copy_n(shape, axes, sizes);
  dlpack::Tensor prototype = {nullptr, {dlpack::kCpu, 0}, axes, dlpack_type(element),
                              sizes,   nullptr,           0};
  dlpack::ManagedVersioned* managed = nullptr;
  const auto set_error = [](void*, const char*, const char* message) {
    PyErr_SetString(PyExc_MemoryError, message);
  };
  if (api.allocate(&prototype, &managed, nullptr, set_error) != 0) throw nb::python_error();
  void* data = static_cast<char*>(managed->tensor.data) + managed->tensor.byte_offset;
  void* object = nullptr;
  if (api.to_object(managed, &object) != 0) throw nb::python_error();
  return {nb::steal(static_cast<PyObject*>(object)), data};
}

/// A result beside out, of the arithmetic's type.
nb::object add(const Call& call, const Shape& shape, void*& pointer, bool zeroed = false) {
  Made made = make_array(call.kind, call.float64 ? Element::kF64 : Element::kF32,
                         shape.sizes.data(), shape.axes(), zeroed);
  pointer = made.data;
  return std::move(made.object);
}

nb::object add_out(Call& call, const Shape& shape, nb::handle given) {
  if (!given.is_valid()) {
    Made made = make_array(call.kind, call.out_element, shape.sizes.data(), shape.axes(),
                           leaves_rows(call));
    call.desc.out.dtype = dtype_of(call.out_element);
    call.args.out = made.data;
    return std::move(made.object);
  }
  call.out = take_out(given, shape.sizes.data(), shape.axes(), "query", call.out_element);
  call.out_given = true;
  call.desc.out = layout_of(call.out.form, call.packed_queries());
  call.args.out = address_of(call.out);
  return nb::borrow(given);
}

bool wanted(const char* name, nb::handle given) { return given.is_valid() && flag(name, given); }

}  // namespace

bool leaves_rows(const Call& call) {
  const std::int32_t* const offsets = call.args.cu_seqlens_q;
  return call.packed_queries() && offsets != nullptr &&
         (offsets[0] != 0 || offsets[call.desc.batch] != call.rows);
}

Shape out_shape(const Call& call) {
  const heed_attention_desc& desc = call.desc;
  if (call.packed_queries()) return Shape({call.rows, desc.query_heads, desc.value_features}, 0);
  return Shape({desc.batch, desc.query_heads, call.rows, desc.value_features}, 4 - call.axes);
}

Shape lse_shape(const Call& call) {
  const heed_attention_desc& desc = call.desc;
  if (call.packed_queries()) return Shape({desc.query_heads, call.rows}, 0);
  return Shape({desc.batch, desc.query_heads, call.rows}, 4 - call.axes);
}

Made make_array(const Kind& kind, Element element, const std::int64_t* shape, int axes,
                bool zeroed) {
  Made made = kind.family == Kind::kExchange ? made_by_exchange(*kind.api, element, shape, axes)
                                             : made_by_numpy(element, shape, axes);
  std::int64_t bytes = bytes_of(element);
  for (int axis = 0; axis < axes; ++axis) bytes *= shape[axis];
  if (bytes == 0) made.data = nullptr;
  if (zeroed && bytes > 0) std::memset(made.data, 0, static_cast<std::size_t>(bytes));
  return made;
}

nb::object as_kind_of(const Kind& kind, nb::handle like, nb::object made) {
  if (kind.family != Kind::kOther || !attribute(like, names().array_namespace).is_valid())
    return made;
  const nb::object library = like.attr(names().array_namespace)();
  try {
    return library.attr("from_dlpack")(made);
  } catch (nb::python_error& error) {
    if (!is_answer(error)) throw;
    return library.attr("asarray")(made);  // types that NumPy does not export
  }
}

Array take_out(nb::handle given, const std::int64_t* shape, int axes, const char* like,
               Element element) {
  Array out = read_output("out", given);
  const Form& form = out.form;
  if (form.axes != axes || !std::equal(shape, shape + axes, form.shape))
    refuse("out has shape %s; the result has %s", shape_text(form.shape, form.axes).c_str(),
           shape_text(shape, axes).c_str());
  check_floating("out", form);
  if ((element == Element::kF64) != (form.element == Element::kF64))
    refuse("out is %s but %s is %s; what is given and out must all be float64, or none",
           name_of(form.element), like, name_of(element));
  return out;
}

Outputs make_outputs(Call& call, const Options& options, nb::handle out) {
  Outputs outputs;
  outputs.out = add_out(call, out_shape(call), out);
  add_outputs_beside_out(call, options, outputs);
  return outputs;
}

void add_outputs_beside_out(Call& call, const Options& options, Outputs& outputs) {
  const heed_attention_desc& desc = call.desc;
  const bool packed = call.packed_queries();
  const std::int64_t batch = desc.batch;
  const std::int64_t heads = desc.query_heads;
  const int lacking = packed ? 0 : 4 - call.axes;
  if (wanted("return_lse", options.return_lse))
    outputs.lse = add(call, lse_shape(call), call.args.lse, leaves_rows(call));
  if (desc.weights_point != HEED_WEIGHTS_NONE) {
    const std::int64_t listed = desc.weight_rows > 0 ? desc.weight_rows : desc.query_length;
    outputs.weights = add(call, Shape({batch, heads, listed, desc.key_length}, lacking),
                          call.args.weights, packed);
  }
  if (desc.sum_columns != 0)
    outputs.column_sums =
        add(call, Shape({batch, heads, desc.key_length}, lacking), call.args.column_sums);
}

nb::object Outputs::result(const Kind& kind, bool out_given, nb::handle like) const {
  const auto handed = [&](const nb::object& made) -> nb::object {
    return made.is_valid() ? as_kind_of(kind, like, made) : nb::none();
  };
  nb::object first = out_given ? out : handed(out);
  if (!lse.is_valid() && !weights.is_valid() && !column_sums.is_valid()) return first;
  return names().result(first, handed(lse), handed(weights), handed(column_sums));
}

}  // namespace heed::python
