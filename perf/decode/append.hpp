// Rows appended to a cache, by name: append256_Hkv8_D128_layers4_bf16.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/heed.h"

namespace heed::perf {

struct AppendWorkload {
  std::string name;
  std::int64_t rows;     ///< of a call
  heed_cache_desc desc;  ///< with pages for one sequence, every size filled in
};

/// The grammar, for help texts and error messages.
extern const char* const kAppendGrammar;

/// Those that run with --decode.
extern const std::vector<std::string> kAppendWorkloads;

/// Whether a name is meant to be one of these.
bool names_append(const std::string& name);

/// Throws std::invalid_argument that says what is wrong with the name.
AppendWorkload parse_append_workload(const std::string& name);

}  // namespace heed::perf
