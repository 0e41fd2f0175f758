// Results, in arrays of the caller's library or where the caller wants them.
#pragma once

#include <initializer_list>
#include <vector>

#include "api/python/module/call.hpp"

namespace heed::python {

/// A new contiguous array, and where its elements lie.
struct Made {
  nb::object object;
  void* data = nullptr;
};

/// Of NumPy for what has no better. With `zeroed` its elements are 0.
Made make_array(const Kind& kind, Element element, const std::int64_t* shape, int axes,
                bool zeroed = false);

/// The result as the library of `like` has it, if make_array could not make that.
nb::object as_kind_of(const Kind& kind, nb::handle like, nb::object made);

/// The sizes of a result, without the axes that the inputs lack.
struct Shape {
  std::vector<std::int64_t> sizes;

  Shape(std::initializer_list<std::int64_t> all, int lacking)
      : sizes(all.begin() + lacking, all.end()) {}
  int axes() const { return static_cast<int>(sizes.size()); }
};

/// Whether packed rows of the result belong to no sequence: nothing writes them.
bool leaves_rows(const Call& call);

Shape out_shape(const Call& call);
Shape lse_shape(const Call& call);

/// The caller's out, which must have the result's shape and be float64 where `like` is.
Array take_out(nb::handle given, const std::int64_t* shape, int axes, const char* like,
               Element element);

/// What a call gives back: out, or heed.Result if more is asked for.
struct Outputs {
  nb::object out;
  nb::object lse;
  nb::object weights;
  nb::object column_sums;

  /// `like` is what results are of the kind of.
  nb::object result(const Kind& kind, bool out_given, nb::handle like) const;
};

/// Lays out in call.desc and call.args what is asked for. `out` is the caller's, or null.
Outputs make_outputs(Call& call, const Options& options, nb::handle out);

/// The same of everything but out.
void add_outputs_beside_out(Call& call, const Options& options, Outputs& outputs);

}  // namespace heed::python
