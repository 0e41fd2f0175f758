#include <algorithm>

#include "perf/decode/append.hpp"
#include "perf/parts.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

const char* const kAppendGrammar =
    "append<rows>_Hkv<key heads>_D<features>[_Dv<value features>][_layers<n>][_pages<n>]\n"
    "  [_bf16|_f16|_i8|_f8][_rotary]";

namespace {

const Grammar kGrammar = {kAppendGrammar,
                          {"append", "Hkv", "D", "Dv", "layers"},
                          {"pages"},
                          {"bf16", "f16", "i8", "f8", "rotary"},
                          {{"bf16", "f16", "i8", "f8"}}};

/// So many rows a sequence has before it begins anew: more than caches of processors hold.
constexpr std::int64_t kLength = 8192;

}  // namespace

bool names_append(const std::string& name) { return name.rfind("append", 0) == 0; }

AppendWorkload parse_append_workload(const std::string& name) {
  const Parts parts(kGrammar, name);
  for (const char* letters : {"append", "Hkv", "D"})
    if (!parts.has(letters)) parts.reject(std::string(letters) + " is missing");
  AppendWorkload workload{name, parts.number("append", 0), HEED_CACHE_DESC_INIT};
  heed_cache_desc& d = workload.desc;
  d.dtype = parts.key_type();
  d.layers = parts.number("layers", 1);
  d.key_heads = parts.number("Hkv", 0);
  d.features = parts.number("D", 0);
  d.value_features = parts.number("Dv", d.features);
  d.page_rows = parts.number("pages", 64);
  if (d.page_rows % 16 != 0) parts.reject("pages have a multiple of 16 rows");
  d.pages = (std::max(kLength, workload.rows) + d.page_rows - 1) / d.page_rows;
  if (parts.has("rotary")) d.rotary.pairs = HEED_ROTARY_HALVES;
  if (parts.has("rotary") && d.features % 2 != 0) parts.reject("rotary needs an even D");
  if (product({d.pages, d.page_rows, d.layers, d.key_heads, d.features + d.value_features}) >
      kLargestTensor)
    parts.reject("a cache of more than 2^30 elements is too large for this harness");
  return workload;
}

}  // namespace heed::perf
