// Arrays of the caller's library, taken where they lie; and numbers of Python, one or many.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "api/python/module/errors.hpp"

namespace heed::python::dlpack {

using Tensor = nb::dlpack::dltensor;  // before version 1.2 without strides where it is contiguous

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

/// Capsules called "dltensor" point at this.
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

/// Capsules called "dltensor_versioned" point at this.
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned* self);
  std::uint64_t flags;
  Tensor tensor;
};

constexpr std::uint64_t kReadOnly = 1;

/// Functions of a library, behind the capsule "dlpack_exchange_api" that is the attribute
/// __dlpack_c_exchange_api__ of its type: tensors without a detour through Python. Functions
/// of type int return 0, or -1 with a Python exception set.
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;
  int (*allocate)(Tensor* prototype, ManagedVersioned** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*from_object)(void* object, ManagedVersioned** out);
  int (*to_object)(ManagedVersioned* tensor, void** out);
  int (*borrow)(void* object, Tensor* out);  // null: not offered
  int (*stream)(std::int32_t device_type, std::int32_t id, void** out);
};

}  // namespace heed::python::dlpack

namespace heed::python {

enum class Element : std::uint8_t {
  kBool,
  kI8,
  kI32,
  kI64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kF8E4M3,
};

const char* name_of(Element element);
std::int64_t bytes_of(Element element);
bool is_floating(Element element);  // 16 bits or more
/// The heed_dtype; kBool and integers of more than 8 bits have none.
heed_dtype dtype_of(Element element);
nb::dlpack::dtype dlpack_type(Element element);

constexpr int kMaxAxes = 4;

/// The sizes of a tensor.
struct Shape {
  std::int64_t sizes[kMaxAxes] = {};
  int axes = 0;

  Shape() = default;
  /// Without the first `lacking` of them.
  Shape(std::initializer_list<std::int64_t> all, int lacking = 0) {
    for (const std::int64_t size : all)
      if (lacking-- <= 0) sizes[axes++] = size;
  }
  bool has_shape(const Shape& other) const;
};

/// A plan is made for this: everything about an array except where it lies.
struct Form : Shape {
  Element element = Element::kF32;
  std::int64_t strides[kMaxAxes] = {};  // in elements; 0 along axes of one element

  /// The size of the axis that is `back` axes from the end: 1 is the last. 1 where there is none.
  std::int64_t size(int back) const { return back <= axes ? sizes[axes - back] : 1; }
  /// The same of the stride; 0 where there is none, as for `back` 0.
  std::int64_t stride(int back) const {
    return 0 < back && back <= axes ? strides[axes - back] : 0;
  }
  std::int64_t elements() const;
};

bool is_contiguous(const Form& form);
Form contiguous_form(Element element, const Shape& shape);
bool operator==(const Form& a, const Form& b);
inline bool operator!=(const Form& a, const Form& b) { return !(a == b); }

/// The kind that results shall be of.
struct Kind {
  enum Family : std::uint8_t { kNumPy, kExchange, kOther } family = kNumPy;
  const dlpack::ExchangeApi* api = nullptr;  // of kExchange
};

/// An array of the caller's, or of a result. Whoever reads its memory holds it, for `keeper` may be
/// all that keeps that, and the caller's object.
struct Array {
  Form form;
  void* data = nullptr;
  bool writable = false;
  Kind kind;
  nb::object keeper;
};

/// Reads what the argument `name` says of itself: by DLPack's exchange functions (PyTorch), the
/// array interface (NumPy), DLPack, or the buffer protocol. Refuses what lies on another device,
/// is not aligned, or has strides that heed could not follow; and null as None.
Array read_array(const char* name, nb::handle from);

/// The same of an array that is written to.
Array read_output(const char* name, nb::handle from);

/// Refuses types that are not for computing, no features, and another number of axes; `axes` says
/// which.
void check_floating(const char* name, const Form& form);
void check_features(const char* name, const Form& form);
void check_axes(const char* name, const Form& form, int least, int most, const char* axes);

/// "[2, 3]" and "float32 [2, 3]", for messages.
std::string shape_text(const std::int64_t* shape, int axes);
inline std::string shape_text(const Shape& shape) { return shape_text(shape.sizes, shape.axes); }
inline std::string stride_text(const Form& form) { return shape_text(form.strides, form.axes); }
std::string text(const Form& form);

// ---- Numbers and short vectors of numbers from Python ----

/// The number that the argument `name` is; otherwise, and for null, TypeError.
double number(const char* name, nb::handle from);
/// The same as float or double; a finite number must fit.
template <class Real>
Real real(const char* name, nb::handle from);
std::int64_t integer(const char* name, nb::handle from);
/// One that is at least 1; `otherwise` ends the message.
std::int64_t count(const char* name, nb::handle from, const char* otherwise = "");
/// Refuses an attn_mask that is neither bool nor floating.
[[noreturn]] void refuse_mask(const std::string& type);

/// Whether it is a bool, of Python or of NumPy, and which.
std::optional<bool> truth(nb::handle from);
bool flag(const char* name, nb::handle from);
/// Whether what may be asked for is: not by null.
inline bool is_asked(const char* name, nb::handle given) {
  return given.is_valid() && flag(name, given);
}
/// The number of an open file, which the argument `descriptor` is.
int file_descriptor(nb::handle from);

/// Which of the words it is, in their order. `others` begins the list of what it may be.
std::uint32_t read_word(const char* name, nb::handle from, std::initializer_list<const char*> words,
                        const char* others = "");

/// Whether it is an int, or something that counts as one, but no bool.
bool is_integer(nb::handle from);

/// Numbers side by side, or in rows that are: in place where they lie so, else copied.
template <class T>
struct Vector {
  const T* data = nullptr;
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // from one row to the next
  Array array;
  std::vector<T> copy;
};

/// An array of one axis or two, or a sequence, of two of sequences; T is int32_t or int64_t.
template <class T>
Vector<T> read_vector(const char* name, nb::handle from, int axes = 1);

/// So many numbers, one for each of what `of` says; T is int32_t, int64_t, float or double.
template <class T>
Vector<T> read_each(const char* name, nb::handle from, std::int64_t count, const char* of);

/// Whether it is an array of two axes or a sequence of sequences.
bool is_table(const char* name, nb::handle from);

// ---- Rotary embedding, as heed.rotate and caches are told about it ----

struct Rotary {
  heed_rotary rotary = HEED_ROTARY_INIT;
  Array cosines;  // whoever keeps the Rotary keeps these objects
  Array sines;
};

/// Positions as C has them, [batch, rows]; given may be [rows] for all.
Vector<std::int64_t> read_positions(nb::handle from, std::int64_t batch, std::int64_t rows);

/// The arguments of these names; all but `pairs` may be None.
Rotary read_rotary(nb::handle pairs, nb::handle base, nb::handle features, nb::handle cosines,
                   nb::handle sines);

}  // namespace heed::python
