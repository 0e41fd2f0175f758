// The C boundary of graphs and attention over them.
#include "api/heed.h"
#include "api/shim.hpp"

using heed::fail;
using heed::guarded;

namespace {
heed_status unfinished() {
  return guarded([] { fail(HEED_STATUS_UNSUPPORTED, "not yet"); });
}
}  // namespace

heed_status heed_graph_create(const heed_context*, const heed_graph_desc*, heed_graph**) {
  return unfinished();
}
void heed_graph_destroy(heed_graph*) {}
heed_status heed_graph_describe(const heed_graph*, heed_graph_info*) { return unfinished(); }
heed_status heed_graph_attention_plan_create(const heed_context*, const heed_graph*,
                                             const heed_graph_attention_desc*,
                                             heed_graph_attention_plan**) {
  return unfinished();
}
void heed_graph_attention_plan_destroy(heed_graph_attention_plan*) {}
heed_status heed_graph_attention_plan_describe(const heed_graph_attention_plan*,
                                               heed_graph_attention_info*) {
  return unfinished();
}
heed_status heed_graph_attention_plan_workspace(const heed_graph_attention_plan*, size_t*) {
  return unfinished();
}
heed_status heed_graph_attention_plan_run(const heed_graph_attention_plan*,
                                          const heed_graph_attention_args*, void*, size_t) {
  return unfinished();
}
heed_status heed_graph_attention(const heed_context*, const heed_graph*,
                                 const heed_graph_attention_desc*,
                                 const heed_graph_attention_args*) {
  return unfinished();
}
