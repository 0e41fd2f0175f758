// What each file adds to the module heed._heed.
#pragma once

#include "api/python/module/errors.hpp"

namespace heed::python {

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
