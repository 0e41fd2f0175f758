// The C boundary of weight matrices and multi-head blocks.
#include "api/heed.h"
#include "api/shim.hpp"
#include "engine/projection/weights.hpp"
#include "engine/runtime/structs.hpp"

using heed::fail;
using heed::guarded;
using heed::required;

namespace {
heed_status unfinished() {
  return guarded([] { fail(HEED_STATUS_UNSUPPORTED, "not yet"); });
}
}  // namespace

heed_status heed_weights_create(const heed_context* context, const heed_weights_desc* desc,
                                const void* matrix, const void* bias, heed_weights** weights) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    heed_weights*& result = required(weights, "weights");
    result = heed::make_weights(c, heed::read_struct(desc, "desc"), matrix, bias);
  });
}

void heed_weights_destroy(heed_weights* weights) {
  if (weights != nullptr) heed::release(weights);
}

heed_status heed_weights_describe(const heed_weights* weights, heed_weights_info* info) {
  return guarded([&] {
    const heed_weights& w = required(weights, "weights");
    heed_weights_info known = HEED_WEIGHTS_INFO_INIT;
    known.arithmetic = w.float64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
    known.in = w.in;
    known.out = w.out;
    known.bytes = w.bytes;
    heed::write_struct(info, known, "info");
  });
}

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
