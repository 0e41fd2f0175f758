// Results, in arrays of the caller's library or where the caller wants them.
#pragma once

#include <utility>
#include <vector>

#include "api/python/module/array.hpp"

namespace heed::python {

/// Names of arrays, and what plans are made for of each.
using NamedForms = std::vector<std::pair<const char*, Form>>;

/// The address of an array, null if it has no elements, so never of one that is given: heed takes
/// null for "not given".
inline void* address_of(const Array& array) {
  return array.form.elements() == 0 ? nullptr : array.data;
}

/// A new contiguous array, or the caller's, and the object that is given back.
struct Output {
  nb::object object;  // invalid where it is not asked for
  Array array;
  bool given = false;

  void* data() const { return address_of(array); }
  /// As the library of `like` has it, if make_array could not make that; None where there is none.
  nb::object handed(const Kind& kind, nb::handle like) const;
};

/// New, of NumPy for what has no better. With `zeroed` its elements are 0.
Output make_array(const Kind& kind, Element element, const Shape& shape, bool zeroed = false);

/// The caller's out, which must have the result's shape and be float64 where `like` is; or a new
/// one, where `given` is null.
Output make_out(nb::handle given, const char* like, const Kind& kind, Element element,
                const Shape& shape, bool zeroed = false);

/// What a call gives back: out, or heed.Result if more is asked for.
struct Outputs {
  Output out;
  Output lse;
  Output weights;
  Output column_sums;

  /// `like` is what results are of the kind of.
  nb::object result(const Kind& kind, nb::handle like) const;
};

/// Whether what may be asked for is.
bool is_asked(const char* name, nb::handle given);

}  // namespace heed::python
