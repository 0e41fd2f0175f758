#include "api/python/module/array.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

namespace heed::python {
namespace {

using Code = nb::dlpack::dtype_code;

struct Properties {
  const char* name;
  std::int64_t bytes;
  bool floating;
  heed_dtype dtype;
  char kind;  // NumPy's letter; 'V' of types that others define (ml_dtypes), known by their names
  Code code;  // DLPack's
};

// In the order of Element.
constexpr Properties kProperties[] = {
    {"bool", 1, false, HEED_DTYPE_DEFAULT, 'b', Code::Bool},
    {"int8", 1, false, HEED_DTYPE_I8, 'i', Code::Int},
    {"int32", 4, false, HEED_DTYPE_DEFAULT, 'i', Code::Int},
    {"int64", 8, false, HEED_DTYPE_DEFAULT, 'i', Code::Int},
    {"float16", 2, true, HEED_DTYPE_F16, 'f', Code::Float},
    {"bfloat16", 2, true, HEED_DTYPE_BF16, 'V', Code::Bfloat},
    {"float32", 4, true, HEED_DTYPE_F32, 'f', Code::Float},
    {"float64", 8, true, HEED_DTYPE_F64, 'f', Code::Float},
    {"float8_e4m3fn", 1, false, HEED_DTYPE_F8_E4M3, 'V', Code::Float8_E4M3FN},
};

const Properties& properties(Element element) {
  return kProperties[static_cast<std::size_t>(element)];
}

/// The first that is so.
template <class Is>
std::optional<Element> element_that(Is&& is) {
  const auto* const found = std::find_if(std::begin(kProperties), std::end(kProperties), is);
  if (found == std::end(kProperties)) return std::nullopt;
  return static_cast<Element>(found - kProperties);
}

}  // namespace

const char* name_of(Element element) { return properties(element).name; }
std::int64_t bytes_of(Element element) { return properties(element).bytes; }
bool is_floating(Element element) { return properties(element).floating; }
heed_dtype dtype_of(Element element) { return properties(element).dtype; }
nb::dlpack::dtype dlpack_type(Element element) {
  const auto bits = static_cast<std::uint8_t>(8 * bytes_of(element));
  return {static_cast<std::uint8_t>(properties(element).code), bits, 1};
}

std::int64_t Form::elements() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < axes; ++axis) product *= sizes[axis];
  return product;
}

bool is_contiguous(const Form& form) {
  if (form.elements() == 0) return true;
  std::int64_t stride = 1;
  for (int axis = form.axes - 1; axis >= 0; --axis) {
    if (form.sizes[axis] > 1 && form.strides[axis] != stride) return false;
    stride *= form.sizes[axis];
  }
  return true;
}

bool Shape::has_shape(const Shape& other) const {
  return axes == other.axes && std::equal(sizes, sizes + axes, other.sizes);
}

Form contiguous_form(Element element, const Shape& shape) {
  Form form = {shape, element};
  std::int64_t stride = 1;
  for (int axis = form.axes - 1; axis >= 0; --axis) {
    form.strides[axis] = shape.sizes[axis] > 1 ? stride : 0;
    stride *= std::max<std::int64_t>(1, shape.sizes[axis]);  // as NumPy has it of no elements
  }
  return form;
}

bool operator==(const Form& a, const Form& b) {
  return a.element == b.element && a.has_shape(b) &&
         std::equal(a.strides, a.strides + a.axes, b.strides);
}

Array read_output(const char* name, nb::handle from) {
  Array array = read_array(name, from);
  if (!array.writable) refuse("{} is read-only; the result could not be written to it", name);
  return array;
}

void check_floating(const char* name, const Form& form) {
  if (!is_floating(form.element))
    refuse("{} is {}; it must be float32, float64, float16 or bfloat16", name,
           name_of(form.element));
}

void check_features(const char* name, const Form& form) {
  if (form.size(1) == 0) refuse("{} is {}; it must have features", name, text(form));
}

void check_axes(const char* name, const Form& form, int least, int most, const char* axes) {
  if (form.axes < least || form.axes > most)
    refuse("{} has shape {}; it must have axes {}", name, shape_text(form), axes);
}

std::string shape_text(const std::int64_t* shape, int axes) {
  std::string text = "[";
  for (int axis = 0; axis < axes; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

std::string text(const Form& form) {
  return std::string(name_of(form.element)) + " " + shape_text(form);
}

// ---- How arrays of each kind say where their elements lie ----

namespace {

/// __array_struct__ points at this: version 3 of NumPy's array interface.
struct ArrayInterface {
  int two;
  int axes;
  char kind;
  int item_bytes;
  int flags;
  std::intptr_t* shape;
  std::intptr_t* strides;  // in bytes
  void* data;
  PyObject* description;
};
constexpr int kNotSwapped = 0x200;
constexpr int kWriteable = 0x400;

std::optional<Element> element_of(const nb::dlpack::dtype& type) {
  return element_that([&](const Properties& is) {
    return type.lanes == 1 && type.code == static_cast<std::uint8_t>(is.code) &&
           type.bits == 8 * is.bytes;
  });
}

std::optional<Element> element_of(nb::handle from, const ArrayInterface& interface) {
  nb::object name;
  if (interface.kind == 'V') {
    const nb::object dtype = attribute(from, names().dtype);
    if (!dtype.is_valid()) return std::nullopt;
    name = dtype.attr("type").attr("__name__");  // dtype.name is computed, in Python
  }
  return element_that([&](const Properties& is) {
    return is.kind == interface.kind && is.bytes == interface.item_bytes &&
           (!name.is_valid() || PyUnicode_CompareWithASCIIString(name.ptr(), is.name) == 0);
  });
}

std::string dtype_text(nb::handle from) {
  const nb::object dtype = attribute(from, names().dtype);
  return nb::str(dtype.is_valid() ? nb::handle(dtype) : nb::handle(from.type())).c_str();
}

[[noreturn]] void refuse_element(const char* name, nb::handle from) {
  if (std::strcmp(name, "attn_mask") == 0) refuse_mask(dtype_text(from));
  refuse(
      "{} is of {}; heed knows float32, float64, float16, bfloat16, and where it says so int8, "
      "float8_e4m3fn, bool, int32 and int64",
      name, dtype_text(from));
}

std::string device_name(std::int32_t type) {
  static constexpr std::pair<std::int32_t, const char*> kNames[] = {{2, "CUDA"},
                                                                    {3, "CUDA host memory"},
                                                                    {4, "OpenCL"},
                                                                    {7, "Vulkan"},
                                                                    {8, "Metal"},
                                                                    {10, "ROCm"},
                                                                    {11, "ROCm host memory"},
                                                                    {13, "CUDA managed memory"},
                                                                    {14, "oneAPI"}};
  for (const auto& [known, name] : kNames)
    if (known == type) return name;
  return "of DLPack's type " + std::to_string(type);
}

void check_device(const char* name, nb::dlpack::device device) {
  if (device.device_type == nb::device::cpu::value) return;
  refuse("{} lies on device {}, number {}; heed computes on CPUs: copy it there", name,
         device_name(device.device_type), device.device_id);
}

/// Strides count this many bytes; without any it is contiguous.
template <class Index>
Array array_at(const char* name, Element element, int axes, const Index* shape,
               const Index* strides, std::int64_t counts, void* data, bool writable) {
  if (axes > kMaxAxes) refuse("{} has {} axes; it may have at most {}", name, axes, kMaxAxes);
  Array array;
  Form& form = array.form;
  form.element = element;
  form.axes = axes;
  std::copy_n(shape, form.axes, form.sizes);
  if (strides == nullptr) form = contiguous_form(element, form);
  const std::int64_t bytes = bytes_of(element);
  for (int axis = 0; axis < form.axes && strides != nullptr; ++axis) {
    if (form.sizes[axis] <= 1) continue;
    const std::int64_t stride = strides[axis] * counts;
    if (stride % bytes != 0)
      refuse("{} has a stride of {} bytes, no multiple of the {} bytes of its elements: copy it",
             name, stride, bytes);
    form.strides[axis] = stride / bytes;
  }
  if (data == nullptr && form.elements() > 0)
    refuse("{} has no memory, although it has {} elements", name, form.elements());
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) != 0)
    refuse("{} begins at an address that is no multiple of the {} bytes of its elements: copy it",
           name, bytes);
  array.data = data;
  array.writable = writable;
  return array;
}

Array array_of(const char* name, nb::handle from, const dlpack::Tensor& tensor, bool writable) {
  check_device(name, tensor.device);
  const std::optional<Element> element = element_of(tensor.dtype);
  if (!element) refuse_element(name, from);
  auto* const begin = static_cast<char*>(tensor.data);
  return array_at(name, *element, tensor.ndim, tensor.shape, tensor.strides, bytes_of(*element),
                  begin == nullptr ? nullptr : begin + tensor.byte_offset, writable);
}

/// Tensors of PyTorch that are not what their memory says: results would have no gradient, or the
/// wrong sign.
void check_tensor(const char* name, nb::handle from) {
  const nb::object grad = attribute(from, names().requires_grad);
  if (!grad.is_valid()) return;  // of another library
  if (grad.ptr() == Py_True) {
    const nb::object torch = nb::module_::import_("torch");
    if (nb::cast<bool>(torch.attr("is_grad_enabled")()))
      refuse(
          "{} requires gradients, which only heed.torch keeps: call it under torch.no_grad(), or "
          "give it {}.detach()",
          name, name);
  }
  if (nb::object(from.attr(names().is_neg)()).ptr() == Py_True)
    refuse("{} has the negative bit set: give it {}.resolve_neg()", name, name);
}

const dlpack::ExchangeApi* exchange_api(nb::handle from) {
  const nb::object capsule = attribute(from.type(), names().exchange_api);
  if (!capsule.is_valid()) return nullptr;
  void* api = PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api");
  if (api == nullptr) PyErr_Clear();
  const auto* found = static_cast<const dlpack::ExchangeApi*>(api);
  while (found != nullptr && found->version.major > 1) found = found->previous;
  return found;
}

bool read_by_exchange(const char* name, nb::handle from, Array& array) {
  const dlpack::ExchangeApi* api = exchange_api(from);
  if (api == nullptr || api->version.major != 1 || api->borrow == nullptr) return false;
  dlpack::Tensor tensor;
  if (api->borrow(from.ptr(), &tensor) != 0) {
    nb::python_error error;
    if (!is_answer(error)) throw error;
    // __dlpack__ says in a line what is wrong
    return false;
  }
  array = array_of(name, from, tensor, true);
  array.kind = {Kind::kExchange, api};
  check_tensor(name, from);
  return true;
}

/// Calls what the array's library has, which may say why it does not export.
template <class Call>
auto asked(const char* name, Call&& call) {
  try {
    return call();
  } catch (nb::python_error& error) {
    if (!is_answer(error)) throw;
    const std::string why = nb::str(error.value()).c_str();
    error.restore();
    refuse("{}: {}", name, why);
  }
}

Array array_of(const char* name, nb::handle from, const ArrayInterface& interface) {
  const std::optional<Element> element = element_of(from, interface);
  if (!element) refuse_element(name, from);
  if ((interface.flags & kNotSwapped) == 0)
    refuse("{} has elements in another byte order than this CPU's: convert it", name);
  return array_at(name, *element, interface.axes, interface.shape, interface.strides, 1,
                  interface.data, (interface.flags & kWriteable) != 0);
}

/// Masks of NumPy's masked arrays lie elsewhere. Other classes derived from its arrays have the
/// same numbers as arrays.
void check_masked(const char* name, nb::handle from) {
  if (from.type().is(names().ndarray) || !nb::isinstance(from, names().ndarray)) return;
  if (nb::isinstance(from, names().numpy.attr("ma").attr("MaskedArray")))
    refuse("{} is a masked array, whose mask heed does not read: give {}.data, and attn_mask", name,
           name);
}

[[noreturn]] void refuse_capsule(const char* name, const char* method, nb::handle given) {
  PyErr_Clear();
  refuse_type("{} has {}, but gives {} there, not a capsule that heed knows", name, method,
              type_text(given));
}

bool read_by_array_struct(const char* name, nb::handle from, Array& array) {
  nb::object capsule = attribute(from, names().array_struct);
  if (!capsule.is_valid()) return false;
  const auto* interface =
      static_cast<const ArrayInterface*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (interface == nullptr) refuse_capsule(name, "__array_struct__", capsule);
  if (interface->two != 2) return false;
  check_masked(name, from);
  array = array_of(name, from, *interface);
  // Nobody else holds the memory of an array that was made on demand, as NumPy's scalars make one.
  array.keeper = std::move(capsule);
  return true;
}

nb::object dlpack_capsule(nb::handle from) {
  nb::object export_ = from.attr(names().dlpack);
  try {
    return export_(nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    return export_();  // of before version 1
  }
}

bool read_by_dlpack(const char* name, nb::handle from, Array& array) {
  if (!attribute(from, names().dlpack).is_valid()) return false;
  if (attribute(from, names().dlpack_device).is_valid())
    check_device(name, asked(name, [&] {
                   const nb::object device = from.attr(names().dlpack_device)();
                   return nb::dlpack::device{
                       static_cast<std::int32_t>(integer("device[0]", device[0])),
                       static_cast<std::int32_t>(integer("device[1]", device[1]))};
                 }));
  // A capsule that is not taken over frees what it stands for: it is kept.
  nb::object capsule = asked(name, [&] { return dlpack_capsule(from); });
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    const auto* managed = static_cast<const dlpack::ManagedVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != 1)
      refuse("{} comes by version {} of DLPack; heed knows version 1", name,
             managed->version.major);
    array = array_of(name, from, managed->tensor, (managed->flags & dlpack::kReadOnly) == 0);
  } else {
    const auto* managed =
        static_cast<const dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (managed == nullptr) refuse_capsule(name, "__dlpack__", capsule);
    array = array_of(name, from, managed->tensor, true);
  }
  array.kind = {Kind::kOther, nullptr};
  array.keeper = std::move(capsule);
  return true;
}

/// NumPy understands every buffer.
bool read_by_buffer(const char* name, nb::handle from, Array& array) {
  if (PyObject_CheckBuffer(from.ptr()) == 0) return false;
  const nb::object numpy = asked(name, [&] {
    PyObject* view = PyMemoryView_FromObject(from.ptr());
    if (view == nullptr) throw nb::python_error();
    return names().asarray(nb::steal(view));
  });
  return read_by_array_struct(name, numpy, array);
}

}  // namespace

void refuse_mask(const std::string& type) {
  refuse(
      "attn_mask is {}; it must be bool (True attends), or floating (added to scores): of a "
      "tokenizer's ones and zeros give attn_mask != 0",
      type);
}

Array read_array(const char* name, nb::handle from) {
  if (!from.is_valid()) from = Py_None;
  Array array;
  // NumPy's own first: to ask for what they lack would cost more than to read them.
  if (from.type().is(names().ndarray) && read_by_array_struct(name, from, array)) return array;
  if (read_by_exchange(name, from, array) || read_by_array_struct(name, from, array) ||
      read_by_dlpack(name, from, array) || read_by_buffer(name, from, array))
    return array;
  refuse_type(
      "{} must be an array, of NumPy, PyTorch or another library with DLPack or the buffer "
      "protocol, not {}",
      name, type_text(from));
}

}  // namespace heed::python
