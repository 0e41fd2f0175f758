// Workloads by name, e.g. B1_H8_L4096_D128_causal: a shape and what is asked of attention on it,
// which keys a row then attends before any mask, and what follows from that.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/given.hpp"

namespace heed::perf {

namespace oracle = heed_test;

struct Workload {
  std::string name;
  std::string plain;         ///< the same sizes in float32, with no option
  std::string attention;     ///< of a block: the attention inside it; otherwise the name
  std::string contiguous;    ///< the same, but for keys that do not lie in pages
  std::string float32;       ///< the same in float32
  heed_attention_desc desc;  ///< contiguous but for pages, every size filled in

  /// Calls one after the other, each with keys and values of its own: the workload is all of them.
  std::int64_t layers = 1;

  // What the arguments of a run bring; the descriptor says nothing of their presence.
  // Vectors are empty where an argument is not given.
  std::vector<std::int32_t> key_lengths = {};
  std::vector<std::int32_t> query_begins = {};  ///< of sequences in a packed batch, and the end
  std::vector<std::int32_t> key_begins = {};
  std::vector<std::int32_t> block_table = {};
  bool nhd = false;  ///< pages are [row, head, feature], not [head, row, feature]
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

/// The workloads that run by default, with --forms, with --backward, with --blocks, with --decode
/// and with --ranks.
extern const std::vector<std::string> kStandardWorkloads;
extern const std::vector<std::string> kFormWorkloads;
extern const std::vector<std::string> kBackwardWorkloads;
extern const std::vector<std::string> kBlockWorkloads;
extern const std::vector<std::string> kDecodeWorkloads;
extern const std::vector<std::string> kStrongWorkloads;
extern const std::vector<std::string> kWeakWorkloads;

/// Throws std::invalid_argument that says what is wrong with the name.
Workload parse_workload(const std::string& name);

/// The name of the same with so many times the length L. Throws as parse_workload() does, also
/// where there are Lq and Lkv instead.
std::string times_as_long(const std::string& name, int times);

/// Arguments without tensors: how long sequences are, and which pages they have.
heed_attention_args lengths_of(const Workload& workload);

/// The score function of all workloads: a relative position, kNearness * (j - i) on every score. A
/// power of two, so that only the sum is rounded.
constexpr double kNearness = 0x1p-9;

/// A padding mask leaves this many keys.
std::int64_t unpadded_keys(const Workload& workload);

oracle::Sequence sequence_of(const Workload& workload, std::int64_t batch);

struct KeyRange {
  std::int64_t begin;
  std::int64_t end;  ///< not below begin
};
KeyRange key_range(const Workload& workload, const oracle::Sequence& sequence, std::int64_t row);

/// The keys of a sequence that any of its rows attends.
KeyRange attended_keys(const Workload& workload, const oracle::Sequence& sequence);

/// 2 (D + Dv) per pair of a query row and a key that it attends. A mask that is random excludes
/// none: whatever computes by tiles has to compute them all. A padding mask leaves its keys.
double useful_flops(const Workload& workload);

/// Of sizes, whose product may not be an integer.
inline double product(std::initializer_list<std::int64_t> sizes) {
  double all = 1;
  for (const std::int64_t size : sizes) all *= static_cast<double>(size);
  return all;
}

/// Bytes of a key and a value of one head, of so many features together, and of their scales.
inline std::int64_t pair_bytes(std::uint32_t dtype, std::int64_t features) {
  const std::int64_t scales = dtype == HEED_DTYPE_I8 ? 2 * std::int64_t{sizeof(float)} : 0;
  return features * oracle::format_of(dtype).bytes + scales;
}

/// Bytes of the keys and values that are attended at all, and of the scales of their rows, each
/// counted once.
double key_value_bytes(const Workload& workload);

/// Rows appended to a cache, by name: append256_Hkv8_D128_layers4_bf16.
struct AppendWorkload {
  std::string name;
  std::int64_t rows;     ///< of a call
  heed_cache_desc desc;  ///< with pages for one sequence, every size filled in
};

/// The grammar, for help texts and error messages.
extern const char* const kAppendGrammar;

extern const std::vector<std::string> kAppendWorkloads;

/// Whether a name is meant to be one of these.
bool names_append(const std::string& name);

/// Throws std::invalid_argument that says what is wrong with the name.
AppendWorkload parse_append_workload(const std::string& name);

}  // namespace heed::perf
