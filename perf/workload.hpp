// Workloads by name, e.g. B1_H8_L4096_D128_causal: a shape and what is asked of attention on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/heed.h"
#include "perf/buffer.hpp"

namespace heed::perf {

struct Workload {
  std::string name;
  std::string plain;         ///< the same sizes in float32, with no option
  std::string attention;     ///< of a block: the attention inside it; otherwise the name
  heed_attention_desc desc;  ///< contiguous, every size filled in

  // What the arguments of a run bring; the descriptor says nothing of their presence.
  std::int64_t keys = 0;  ///< the key length of every sequence; 0: no lengths are given
  bool mask = false;
  bool padding = false;  ///< the mask excludes the last keys; otherwise it is random
  bool bias = false;
  bool alibi = false;
  bool sinks = false;
  bool lse = false;
  bool score_function = false;

  // Of a multi-head block; the attention of `desc` is inside it.
  std::int64_t width = 0;  ///< of inputs and out; 0: no block
  bool projection_biases = true;
  bool raw = false;  ///< matrices are given as they are, not prepared
};

/// The grammar, for help texts and error messages.
extern const char* const kWorkloadGrammar;

/// The workloads that run by default, and with --blocks.
extern const std::vector<std::string> kStandardWorkloads;
extern const std::vector<std::string> kBlockWorkloads;

/// Throws std::invalid_argument that says what is wrong with the name.
Workload parse_workload(const std::string& name);

/// A padding mask leaves this many keys.
std::int64_t unpadded_keys(const Workload& workload);

}  // namespace heed::perf
