#include "tests/bits/library.hpp"

#include <dlfcn.h>

#include <stdexcept>

#include "api/heed.h"

namespace {

void* library = nullptr;

/// Calls the loaded library's function of that name.
template <class Result, class... Parameters, class... Arguments>
Result call(const char* name, Result (*)(Parameters...), Arguments... arguments) {
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(std::string("the library has no ") + name);
  return reinterpret_cast<Result (*)(Parameters...)>(found)(arguments...);
}

}  // namespace

void heed_test::load_library(const std::string& path) {
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
}

// ---- What is called of the C API ----------------------------------------------------------------

const char* heed_status_name(heed_status status) {
  return call(__func__, heed_status_name, status);
}
const char* heed_last_error() { return call(__func__, heed_last_error); }

size_t heed_isa_count() { return call(__func__, heed_isa_count); }
heed_status heed_isa_get(size_t index, heed_isa_info* info) {
  return call(__func__, heed_isa_get, index, info);
}
size_t heed_executor_count() { return call(__func__, heed_executor_count); }
const char* heed_executor_name(size_t index) { return call(__func__, heed_executor_name, index); }
const char* heed_product_name(size_t index) { return call(__func__, heed_product_name, index); }

heed_status heed_context_create(const heed_context_options* options, heed_context** context) {
  return call(__func__, heed_context_create, options, context);
}
void heed_context_destroy(heed_context* context) { call(__func__, heed_context_destroy, context); }

heed_status heed_attention_plan_create(const heed_context* context, const heed_attention_desc* desc,
                                       heed_attention_plan** plan) {
  return call(__func__, heed_attention_plan_create, context, desc, plan);
}
void heed_attention_plan_destroy(heed_attention_plan* plan) {
  call(__func__, heed_attention_plan_destroy, plan);
}
heed_status heed_attention_plan_describe(const heed_attention_plan* plan,
                                         heed_attention_info* info) {
  return call(__func__, heed_attention_plan_describe, plan, info);
}
heed_status heed_attention_plan_run(const heed_attention_plan* plan,
                                    const heed_attention_args* args, void* workspace,
                                    size_t workspace_bytes) {
  return call(__func__, heed_attention_plan_run, plan, args, workspace, workspace_bytes);
}
heed_status heed_attention(const heed_context* context, const heed_attention_desc* desc,
                           const heed_attention_args* args) {
  return call(__func__, heed_attention, context, desc, args);
}

heed_status heed_merge(const heed_context* context, const heed_merge_desc* desc, size_t parts,
                       const void* const* part_outs, const void* const* part_lses, void* out,
                       void* lse) {
  return call(__func__, heed_merge, context, desc, parts, part_outs, part_lses, out, lse);
}

heed_status heed_cache_create(const heed_context* context, const heed_cache_desc* desc,
                              heed_cache** cache) {
  return call(__func__, heed_cache_create, context, desc, cache);
}
void heed_cache_destroy(heed_cache* cache) { call(__func__, heed_cache_destroy, cache); }
heed_status heed_cache_describe(const heed_cache* cache, heed_cache_info* info) {
  return call(__func__, heed_cache_describe, cache, info);
}

heed_status heed_weights_create(const heed_context* context, const heed_weights_desc* desc,
                                const void* matrix, const void* bias, heed_weights** weights) {
  return call(__func__, heed_weights_create, context, desc, matrix, bias, weights);
}
void heed_weights_destroy(heed_weights* weights) { call(__func__, heed_weights_destroy, weights); }

heed_status heed_multihead_plan_create(const heed_context* context, const heed_multihead_desc* desc,
                                       heed_multihead_plan** plan) {
  return call(__func__, heed_multihead_plan_create, context, desc, plan);
}
void heed_multihead_plan_destroy(heed_multihead_plan* plan) {
  call(__func__, heed_multihead_plan_destroy, plan);
}
heed_status heed_multihead_plan_describe(const heed_multihead_plan* plan,
                                         heed_multihead_info* info) {
  return call(__func__, heed_multihead_plan_describe, plan, info);
}
heed_status heed_multihead_plan_run(const heed_multihead_plan* plan,
                                    const heed_multihead_args* args, void* workspace,
                                    size_t workspace_bytes) {
  return call(__func__, heed_multihead_plan_run, plan, args, workspace, workspace_bytes);
}
heed_status heed_multihead(const heed_context* context, const heed_multihead_desc* desc,
                           const heed_multihead_args* args) {
  return call(__func__, heed_multihead, context, desc, args);
}

heed_status heed_multihead_backward_plan_create(const heed_context* context,
                                                const heed_multihead_backward_desc* desc,
                                                heed_multihead_backward_plan** plan) {
  return call(__func__, heed_multihead_backward_plan_create, context, desc, plan);
}
void heed_multihead_backward_plan_destroy(heed_multihead_backward_plan* plan) {
  call(__func__, heed_multihead_backward_plan_destroy, plan);
}
heed_status heed_multihead_backward_plan_describe(const heed_multihead_backward_plan* plan,
                                                  heed_multihead_info* info) {
  return call(__func__, heed_multihead_backward_plan_describe, plan, info);
}

heed_status heed_multihead_backward_plan_run(const heed_multihead_backward_plan* plan,
                                             const heed_multihead_backward_args* args,
                                             void* workspace, size_t workspace_bytes) {
  return call(__func__, heed_multihead_backward_plan_run, plan, args, workspace, workspace_bytes);
}

heed_status heed_attention_backward_plan_create(const heed_context* context,
                                                const heed_attention_backward_desc* desc,
                                                heed_attention_backward_plan** plan) {
  return call(__func__, heed_attention_backward_plan_create, context, desc, plan);
}
void heed_attention_backward_plan_destroy(heed_attention_backward_plan* plan) {
  call(__func__, heed_attention_backward_plan_destroy, plan);
}
heed_status heed_attention_backward_plan_describe(const heed_attention_backward_plan* plan,
                                                  heed_attention_info* info) {
  return call(__func__, heed_attention_backward_plan_describe, plan, info);
}
heed_status heed_attention_backward_plan_run(const heed_attention_backward_plan* plan,
                                             const heed_attention_backward_args* args,
                                             void* workspace, size_t workspace_bytes) {
  return call(__func__, heed_attention_backward_plan_run, plan, args, workspace, workspace_bytes);
}

heed_status heed_graph_create(const heed_context* context, const heed_graph_desc* desc,
                              heed_graph** graph) {
  return call(__func__, heed_graph_create, context, desc, graph);
}
void heed_graph_destroy(heed_graph* graph) { call(__func__, heed_graph_destroy, graph); }
heed_status heed_graph_describe(const heed_graph* graph, heed_graph_info* info) {
  return call(__func__, heed_graph_describe, graph, info);
}
heed_status heed_graph_attention_plan_create(const heed_context* context, const heed_graph* graph,
                                             const heed_graph_attention_desc* desc,
                                             heed_graph_attention_plan** plan) {
  return call(__func__, heed_graph_attention_plan_create, context, graph, desc, plan);
}
void heed_graph_attention_plan_destroy(heed_graph_attention_plan* plan) {
  call(__func__, heed_graph_attention_plan_destroy, plan);
}
heed_status heed_graph_attention_plan_describe(const heed_graph_attention_plan* plan,
                                               heed_graph_attention_info* info) {
  return call(__func__, heed_graph_attention_plan_describe, plan, info);
}
heed_status heed_graph_attention_plan_run(const heed_graph_attention_plan* plan,
                                          const heed_graph_attention_args* args, void* workspace,
                                          size_t workspace_bytes) {
  return call(__func__, heed_graph_attention_plan_run, plan, args, workspace, workspace_bytes);
}
heed_status heed_graph_attention_plan_project(const heed_graph_attention_plan* plan,
                                              const heed_graph_attention_args* args,
                                              void* workspace, size_t workspace_bytes,
                                              heed_graph_projections* projections) {
  return call(__func__, heed_graph_attention_plan_project, plan, args, workspace, workspace_bytes,
              projections);
}
heed_status heed_graph_attention(const heed_context* context, const heed_graph* graph,
                                 const heed_graph_attention_desc* desc,
                                 const heed_graph_attention_args* args) {
  return call(__func__, heed_graph_attention, context, graph, desc, args);
}
heed_status heed_graph_attention_backward_plan_create(
    const heed_context* context, const heed_graph* graph,
    const heed_graph_attention_backward_desc* desc, heed_graph_attention_backward_plan** plan) {
  return call(__func__, heed_graph_attention_backward_plan_create, context, graph, desc, plan);
}
void heed_graph_attention_backward_plan_destroy(heed_graph_attention_backward_plan* plan) {
  call(__func__, heed_graph_attention_backward_plan_destroy, plan);
}
heed_status heed_graph_attention_backward_plan_describe(
    const heed_graph_attention_backward_plan* plan, heed_graph_attention_info* info) {
  return call(__func__, heed_graph_attention_backward_plan_describe, plan, info);
}
heed_status heed_graph_attention_backward_plan_run(const heed_graph_attention_backward_plan* plan,
                                                   const heed_graph_attention_backward_args* args,
                                                   void* workspace, size_t workspace_bytes) {
  return call(__func__, heed_graph_attention_backward_plan_run, plan, args, workspace,
              workspace_bytes);
}
