// heed.h must need nothing before it, in C++ as in C (test_c99.c).
#include "heed.h"

// Its _INIT macros must work where C++ is strict, too.
namespace {
[[maybe_unused]] const heed_isa_info isa_info = HEED_ISA_INFO_INIT;
[[maybe_unused]] const heed_executor executor = HEED_EXECUTOR_INIT;
[[maybe_unused]] const heed_allocator allocator = HEED_ALLOCATOR_INIT;
[[maybe_unused]] const heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
[[maybe_unused]] const heed_context_info context_info = HEED_CONTEXT_INFO_INIT;
[[maybe_unused]] const heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
[[maybe_unused]] const heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
[[maybe_unused]] const heed_attention_info info = HEED_ATTENTION_INFO_INIT;
}  // namespace
