// Arrays of the caller's library, taken where they lie.
#pragma once

#include <cstdint>
#include <string>

#include "api/python/module/dlpack.hpp"
#include "api/python/module/errors.hpp"

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

constexpr int kMaxAxes = 4;

/// What a plan is made for: everything about an array but where it lies.
struct Form {
  Element element = Element::kF32;
  int axes = 0;
  std::int64_t shape[kMaxAxes] = {};
  std::int64_t strides[kMaxAxes] = {};  // in elements; 0 along axes of one element

  /// The size of the axis that is `back` axes from the end: 1 is the last. 1 where there is none.
  std::int64_t size(int back) const { return back <= axes ? shape[axes - back] : 1; }
  std::int64_t stride(int back) const { return back <= axes ? strides[axes - back] : 0; }
  std::int64_t elements() const;
};

bool is_contiguous(const Form& form);
Form contiguous_form(Element element, const std::int64_t* shape, int axes);
bool operator==(const Form& a, const Form& b);
inline bool operator!=(const Form& a, const Form& b) { return !(a == b); }

/// Of which kind results shall be.
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
/// is not aligned, or has strides that heed could not follow.
Array read_array(const char* name, nb::handle from);

/// The same of an array that is written to.
Array read_output(const char* name, nb::handle from);

/// "[2, 3]" and "float32 [2, 3]", for messages.
std::string shape_text(const std::int64_t* shape, int axes);
std::string text(const Form& form);

}  // namespace heed::python
