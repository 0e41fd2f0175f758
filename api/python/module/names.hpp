// Python's names and functions that are needed again and again, looked up once.
#pragma once

#include "api/python/module/errors.hpp"
#include "api/python/module/once.hpp"

namespace heed::python {

struct Names {
  nb::str exchange_api = nb::str("__dlpack_c_exchange_api__");
  nb::str array_struct = nb::str("__array_struct__");
  nb::str dlpack = nb::str("__dlpack__");
  nb::str dlpack_device = nb::str("__dlpack_device__");
  nb::str dtype = nb::str("dtype");
  nb::str array_namespace = nb::str("__array_namespace__");
  nb::str requires_grad = nb::str("requires_grad");
  nb::str is_neg = nb::str("is_neg");
  nb::object numpy = nb::module_::import_("numpy");
  nb::object asarray = numpy.attr("asarray");
  nb::object empty = numpy.attr("empty");
  nb::object ndarray = numpy.attr("ndarray");
  nb::object float32 = numpy.attr("dtype")("float32");
  nb::object result = nb::module_::import_("heed.results").attr("Result");
  nb::object gradients = nb::module_::import_("heed.results").attr("Gradients");
  nb::object block_gradients = nb::module_::import_("heed.results").attr("MultiheadGradients");
  nb::object graph_gradients = nb::module_::import_("heed.results").attr("GraphGradients");
};

inline const Names& names() { return once<Names>(); }

}  // namespace heed::python
