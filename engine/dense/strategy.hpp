// The ways in which attention is computed. A plan chooses one; each is one file.
#pragma once

#include <cstddef>

#include "engine/dense/plan.hpp"

namespace heed {

/// Computes what the validated arguments ask for.
struct Strategy {
  const char* name;
  void (*run)(const heed_attention_plan& plan, const heed_attention_args& args,
              std::byte* workspace);
};

/// Many query rows share the keys: online softmax, in prefill.cpp.
extern const Strategy kPrefill;

/// Few query rows share the keys, which are split between threads: in decode.cpp.
extern const Strategy kDecode;

/// Packed sequences of either kind: each is computed as it would be alone.
extern const Strategy kMixed;

/// Runs after a strategy where somebody asks for weights or their sums: computes scores again, for
/// rows whose softmax is known. In recompute.cpp.
void recompute(const heed_attention_plan& plan, const heed_attention_args& args,
               std::byte* workspace);

/// Checks the arguments and runs the strategy of the plan. Throws an Error before the first output
/// is written, or not at all.
void run_plan(const heed_attention_plan& plan, const heed_attention_args& args, void* workspace,
              std::size_t bytes);

}  // namespace heed
