// What each file adds to the module heed._heed.
#pragma once

#include <cstring>
#include <string>

#include "api/python/module/errors.hpp"

namespace heed::python {

template <class>
auto any_or_none() {
  return nb::arg().none();
}

/// A function that the package alone calls, with arguments by position. `text` is its line in the
/// stub.
template <class Result, class... Arguments>
void internal(nb::module_& module, const char* text, Result (*called)(Arguments...)) {
  const char* const name = text + std::strlen("def ");
  module.def(std::string(name, std::strchr(name, '(')).c_str(), called, any_or_none<Arguments>()...,
             nb::sig(text));
}

void bind_attention(nb::module_& module);
void bind_backward(nb::module_& module);
void bind_context(nb::module_& module);
void bind_information(nb::module_& module);
void bind_cache(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_graph_attention(nb::module_& module);
void bind_graph_backward(nb::module_& module);
void bind_mpi(nb::module_& module);
void bind_kept(nb::module_& module);
void bind_mpi_backward(nb::module_& module);
void bind_mpi_graph(nb::module_& module);
void bind_multihead(nb::module_& module);
void bind_multihead_backward(nb::module_& module);
void bind_weights(nb::module_& module);
void bind_merge(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_project(nb::module_& module);
void bind_rotate(nb::module_& module);

}  // namespace heed::python
