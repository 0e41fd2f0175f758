// Attention as the textbook has it, for comparison.
#pragma once

#include "perf/workload.hpp"

namespace heed::perf {

/// Reads query, key and value, writes out; one thread.
void textbook_attention(const heed_attention_desc& desc, Tensors& tensors);

}  // namespace heed::perf
