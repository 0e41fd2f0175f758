// heed._heed: heed.h for the package heed.
#include "api/python/module/bind.hpp"

NB_MODULE(_heed, module) {
  using namespace heed::python;
  module.doc() = "The compiled part of heed; see there.";
  nb::set_leak_warnings(false);  // the default context lives as long as the process
  bind_context(module);
  bind_attention(module);
  bind_backward(module);
  bind_plan(module);
  bind_merge(module);
  bind_weights(module);
  bind_kept(module);
  bind_multihead(module);
  bind_multihead_backward(module);
  bind_project(module);
  bind_graph(module);
  bind_graph_attention(module);
  bind_graph_backward(module);
  bind_cache(module);
  bind_mpi(module);
  bind_rotate(module);
  bind_information(module);
}
