// The C boundary of weight matrices and multi-head blocks.
#include "api/heed.h"
#include "api/shim.hpp"

using heed::fail;
using heed::guarded;

namespace {
heed_status unfinished() {
  return guarded([] { fail(HEED_STATUS_UNSUPPORTED, "not yet"); });
}
}  // namespace

heed_status heed_weights_create(const heed_context*, const heed_weights_desc*, const void*,
                                const void*, heed_weights**) {
  return unfinished();
}
void heed_weights_destroy(heed_weights*) {}
heed_status heed_weights_describe(const heed_weights*, heed_weights_info*) { return unfinished(); }
heed_status heed_multihead_plan_create(const heed_context*, const heed_multihead_desc*,
                                       heed_multihead_plan**) {
  return unfinished();
}
void heed_multihead_plan_destroy(heed_multihead_plan*) {}
heed_status heed_multihead_plan_describe(const heed_multihead_plan*, heed_multihead_info*) {
  return unfinished();
}
heed_status heed_multihead_plan_workspace(const heed_multihead_plan*, size_t*) {
  return unfinished();
}
heed_status heed_multihead_plan_run(const heed_multihead_plan*, const heed_multihead_args*, void*,
                                    size_t) {
  return unfinished();
}
heed_status heed_multihead(const heed_context*, const heed_multihead_desc*,
                           const heed_multihead_args*) {
  return unfinished();
}
