#include "perf/workload.hpp"

#include <algorithm>
#include <cmath>

#include "perf/parts.hpp"
#include "tests/support/random.hpp"

namespace heed::perf {

const char* const kWorkloadGrammar =
    "B<batch>_H<query heads>[_Hkv<key heads>](_L<length>|_Lq<queries>_Lkv<keys>)_D<features>\n"
    "  [_Dv<value features>][_layers<n>][_causal|_causalTL|_causalBR]\n"
    "  [_window<n>|[_left<n>][_right<n>]][_keys<n>|_ragged|_packed][_pages<n>[_nhd]]\n"
    "  [_mask|_headmask|_keymask][_bias|_headbias][_softcap<n>][_alibi][_score][_sink][_hard]\n"
    "  [_leaky|_tanh: additive scores] [_cosine]\n"
    "  [_dropout<percent>][_bf16|_f16|_f64|_i8|_f8][_lse][_weights|_weightrows<n>][_sums]\n"
    "  [_W<width>[_nobias][_raw]]";

namespace {

/// What a block's name has and that of its attention has not: between its matrices everything is
/// float32, unless it is float64.
const std::set<std::string> kBlockParts = {"W", "nobias", "raw", "bf16", "f16"};

const std::set<std::string> kPageParts = {"pages", "nhd"};
const std::set<std::string> kTypeParts = {"bf16", "f16", "f64", "i8", "f8"};

const Grammar kGrammar = {
    kWorkloadGrammar,
    {"B", "H", "Hkv", "L", "Lq", "Lkv", "D", "Dv", "layers", "W"},
    {"keys", "window", "left", "right", "softcap", "dropout", "weightrows", "pages"},
    {"leaky",   "tanh", "cosine",   "causal",  "causalTL", "causalBR", "ragged",
     "packed",  "mask", "headmask", "keymask", "bias",     "headbias", "alibi",
     "score",   "sink", "hard",     "bf16",    "f16",      "f64",      "lse",
     "weights", "sums", "nobias",   "raw",     "nhd",      "i8",       "f8"},
    {
        {"causal", "causalTL", "causalBR"},
        {"mask", "headmask", "keymask"},
        {"bias", "headbias"},
        {"bf16", "f16", "f64", "i8", "f8"},
        {"weights", "weightrows"},
        {"leaky", "tanh", "cosine"},
        {"window", "left"},
        {"window", "right"},
        {"keys", "ragged", "packed"},
        {"pages", "packed"},
        {"hard", "sink"},
        {"hard", "lse"},
        {"L", "Lq"},
        {"L", "Lkv"},
        {"W", "packed"},  // its results could not be checked, nor those of the next one
        {"W", "hard"},
        {"W", "layers"},
        {"W", "pages"},
        {"W", "i8", "f8"},
    },
};

void fill_in_sizes(const Parts& parts, heed_attention_desc& desc) {
  for (const char* letters : {"B", "H", "D"})
    if (!parts.has(letters)) parts.reject(std::string(letters) + " is missing");
  if (!parts.has("L") && !(parts.has("Lq") && parts.has("Lkv")))
    parts.reject("L, or Lq and Lkv, is missing");
  const std::int64_t length = parts.number("L", 0);
  desc.batch = parts.number("B", 0);
  desc.query_heads = parts.number("H", 0);
  desc.key_heads = parts.number("Hkv", desc.query_heads);
  desc.query_length = parts.number("Lq", length);
  desc.key_length = parts.number("Lkv", length);
  desc.features = parts.number("D", 0);
  desc.value_features = parts.number("Dv", desc.features);
  if (desc.query_heads % desc.key_heads != 0) parts.reject("H is not a multiple of Hkv");
}

/// Which keys a row attends, as far as offsets decide it.
void fill_in_offsets(const Parts& parts, heed_attention_desc& desc) {
  if (parts.has("causal") || parts.has("causalTL")) desc.causal = HEED_CAUSAL_TOP_LEFT;
  if (parts.has("causalBR")) desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  if (parts.has("window") || parts.has("left") || parts.has("right")) {
    const std::int64_t both = parts.number("window", -1);
    desc.window = 1;
    desc.window_left = parts.number("left", both);
    desc.window_right = parts.number("right", both);
  }
  const bool aligned = parts.has("causalTL") || parts.has("causalBR");
  const bool measured = parts.has("causal") || desc.window != 0 || parts.has("alibi");
  if (measured && !aligned && desc.query_length != desc.key_length)
    parts.reject("causal, windows and alibi with Lq other than Lkv need causalTL or causalBR");
}

void fill_in_masks(const Parts& parts, Workload& workload) {
  heed_attention_desc& desc = workload.desc;
  workload.mask = parts.has("mask") || parts.has("headmask") || parts.has("keymask");
  workload.padding = parts.has("keymask");
  workload.bias = parts.has("bias") || parts.has("headbias");
  if (workload.mask) {
    desc.mask.batch = workload.padding ? desc.batch : 1;
    desc.mask.heads = parts.has("headmask") ? desc.query_heads : 1;
    desc.mask.rows = workload.padding ? 1 : desc.query_length;
    desc.mask.keys = desc.key_length;
  }
  if (workload.bias) {
    desc.bias.batch = 1;
    desc.bias.heads = parts.has("headbias") ? desc.query_heads : 1;
    desc.bias.rows = desc.query_length;
    desc.bias.keys = desc.key_length;
  }
}

void fill_in_outputs(const Parts& parts, heed_attention_desc& desc) {
  if (parts.has("weights") || parts.has("weightrows"))
    desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
  desc.weight_rows = parts.number("weightrows", 0);
  if (desc.weight_rows > desc.query_length) parts.reject("weightrows exceeds the queries");
  desc.sum_columns = parts.has("sums") ? 1 : 0;
}

void fill_in_block(const Parts& parts, Workload& workload) {
  workload.width = parts.number("W", 0);
  workload.projection_biases = !parts.has("nobias");
  workload.raw = parts.has("raw");
  for (const char* word : {"nobias", "raw"})
    if (workload.width == 0 && parts.has(word)) parts.reject(std::string(word) + " needs W");
}

void check_memory(const Parts& parts, const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  const std::int64_t widest = std::max(d.features, d.value_features);
  const double square = product({d.query_length, d.key_length});
  const std::int64_t rows = d.weight_rows != 0 ? d.weight_rows : d.query_length;
  double largest = std::max(product({d.batch, d.query_heads, d.query_length, widest}),
                            product({workload.layers, d.batch, d.key_heads, d.key_length, widest}));
  if (workload.mask && !workload.padding)
    largest = std::max(largest, square * product({d.mask.heads}));
  if (workload.bias) largest = std::max(largest, square * product({d.bias.heads}));
  if (d.weights_point != HEED_WEIGHTS_NONE)
    largest = std::max(largest, product({d.batch, d.query_heads, rows, d.key_length}));
  largest =
      std::max({largest, product({d.batch, std::max(d.query_length, d.key_length), workload.width}),
                product({d.query_heads, widest, workload.width})});
  if (largest > kLargestTensor)
    parts.reject("a tensor of more than 2^30 elements is too large for this harness");
}

/// Where sequences begin, and the end: sequence b of n has (b + 1) / n of `longest`, at least 1.
std::vector<std::int32_t> packed(std::int64_t longest, std::int64_t batch) {
  std::vector<std::int32_t> begins = {0};
  for (std::int64_t b = 1; b <= batch; ++b)
    begins.push_back(begins.back() +
                     static_cast<std::int32_t>(std::max<std::int64_t>(longest * b / batch, 1)));
  return begins;
}

/// Random lengths from 1/8 of `longest` on, the same in every run.
std::vector<std::int32_t> ragged(std::int64_t longest, std::int64_t batch) {
  const std::int64_t shortest = (longest + 7) / 8;
  std::vector<std::int32_t> lengths;
  oracle::Random random(7);
  for (std::int64_t b = 0; b < batch; ++b)
    lengths.push_back(static_cast<std::int32_t>(random.integer(shortest, longest)));
  return lengths;
}

/// So many pages in any order.
std::vector<std::int32_t> shuffled(std::int64_t pages) {
  std::vector<std::int32_t> order;
  oracle::Random random(8);
  for (std::int64_t n = 0; n < pages; ++n) {
    order.push_back(static_cast<std::int32_t>(n));
    std::swap(order.back(), order[static_cast<std::size_t>(random.integer(0, n))]);
  }
  return order;
}

/// Of a key or value tensor in pages, whose rows have so many features.
heed_layout key_layout(const Workload& workload, std::uint32_t dtype, std::int64_t width) {
  const heed_attention_desc& d = workload.desc;
  heed_layout layout = HEED_LAYOUT_INIT;
  layout.dtype = dtype;
  if (!workload.nhd) return layout;
  layout.stride_row = d.key_heads * width;
  layout.stride_batch = d.page_rows * layout.stride_row;
  layout.stride_head = width;
  layout.stride_feature = 1;
  return layout;
}

/// No page more than sequences need.
void fill_in_pages(const Parts& parts, Workload& workload) {
  heed_attention_desc& desc = workload.desc;
  const std::int64_t rows = parts.number("pages", 0);
  workload.nhd = parts.has("nhd");
  if (rows == 0 && workload.nhd) parts.reject("nhd needs pages");
  if (rows == 0) return;
  if (rows % 16 != 0) parts.reject("pages have a multiple of 16 rows");
  desc.page_rows = rows;
  constexpr std::int32_t kNone = -1;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    const std::int64_t keys = workload.key_lengths.empty()
                                  ? desc.key_length
                                  : workload.key_lengths[static_cast<std::size_t>(b)];
    for (std::int64_t first = 0; first < desc.key_length; first += rows)
      workload.block_table.push_back(first < keys ? static_cast<std::int32_t>(desc.pages++)
                                                  : kNone);
  }
  const std::vector<std::int32_t> order = shuffled(desc.pages);
  for (std::int32_t& page : workload.block_table)
    if (page != kNone) page = order[static_cast<std::size_t>(page)];
  desc.key = key_layout(workload, desc.key.dtype, desc.features);
  desc.value = key_layout(workload, desc.value.dtype, desc.value_features);
  if (desc.key.dtype == HEED_DTYPE_I8)
    desc.key_scales = desc.value_scales = key_layout(workload, HEED_DTYPE_F32, 1);
}

/// nullptr without elements.
template <class T>
const T* pointer(const std::vector<T>& numbers) {
  return numbers.empty() ? nullptr : numbers.data();
}

}  // namespace

heed_attention_args lengths_of(const Workload& workload) {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.key_lengths = pointer(workload.key_lengths);
  args.cu_seqlens_q = pointer(workload.query_begins);
  args.cu_seqlens_k = pointer(workload.key_begins);
  args.block_table = pointer(workload.block_table);
  return args;
}

std::string times_as_long(const std::string& name, int times) {
  const Parts parts(kGrammar, name);
  if (!parts.has("L")) parts.reject("L is missing");
  return parts.without({"L"}) + "_L" + std::to_string(times * parts.number("L", 0));
}

Workload parse_workload(const std::string& name) {
  const Parts parts(kGrammar, name);
  Workload workload{name,
                    parts.sizes(),
                    parts.has("W") ? parts.without(kBlockParts) : name,
                    parts.without(kPageParts),
                    parts.without(kTypeParts),
                    HEED_ATTENTION_DESC_INIT};
  heed_attention_desc& desc = workload.desc;
  workload.layers = parts.number("layers", 1);
  fill_in_sizes(parts, desc);
  fill_in_offsets(parts, desc);
  desc.query.dtype = desc.out.dtype = parts.type();
  desc.key.dtype = desc.value.dtype = parts.key_type();
  fill_in_masks(parts, workload);
  fill_in_outputs(parts, desc);
  fill_in_block(parts, workload);
  check_memory(parts, workload);
  desc.softcap = static_cast<double>(parts.number("softcap", 0));
  desc.hard = parts.has("hard") ? 1 : 0;
  if (parts.has("leaky") || parts.has("tanh")) {
    desc.score = HEED_SCORE_ADDITIVE;
    desc.activation = parts.has("tanh") ? HEED_ACTIVATION_TANH : HEED_ACTIVATION_LEAKY_RELU;
    desc.slope = parts.has("leaky") ? 0.2 : 0;
  }
  if (parts.has("cosine")) desc.score = HEED_SCORE_COSINE;
  desc.dropout = static_cast<double>(parts.number("dropout", 0)) / 100;
  if (desc.dropout >= 1) parts.reject("a dropout of n percent is below 100");
  const std::int64_t keys = parts.number("keys", 0);
  if (keys > desc.key_length) parts.reject("keys exceeds the key length");
  if (keys != 0)
    workload.key_lengths.assign(static_cast<std::size_t>(desc.batch),
                                static_cast<std::int32_t>(keys));
  if (parts.has("ragged")) workload.key_lengths = ragged(desc.key_length, desc.batch);
  fill_in_pages(parts, workload);
  workload.alibi = parts.has("alibi");
  workload.sinks = parts.has("sink");
  workload.lse = parts.has("lse");
  workload.score_function = parts.has("score");
  if (parts.has("packed")) {
    workload.query_begins = packed(desc.query_length, desc.batch);
    workload.key_begins = packed(desc.key_length, desc.batch);
    desc.packed_queries = workload.query_begins.back();
    desc.packed_keys = workload.key_begins.back();
  }
  if (useful_flops(workload) > kMostFlops)
    parts.reject("a run of more than 2^44 flops takes too long for this harness");
  return workload;
}

// ---- Which keys rows attend, and how much there is to compute and to read ----

std::int64_t unpadded_keys(const Workload& workload) {
  return std::max<std::int64_t>(workload.desc.key_length * 3 / 4, 1);
}

oracle::Sequence sequence_of(const Workload& workload, std::int64_t batch) {
  return oracle::sequence_of(workload.desc, lengths_of(workload), batch);
}

KeyRange key_range(const Workload& workload, const oracle::Sequence& sequence, std::int64_t row) {
  const heed_attention_desc& d = workload.desc;
  const std::int64_t position = row + sequence.offset;
  std::int64_t begin = 0;
  std::int64_t end = sequence.keys;
  if (d.causal != HEED_CAUSAL_NONE) end = std::min(end, position + 1);
  if (d.window != 0 && d.window_left >= 0) begin = std::max(begin, position - d.window_left);
  if (d.window != 0 && d.window_right >= 0) end = std::min(end, position + d.window_right + 1);
  return {begin, std::max(begin, end)};
}

KeyRange attended_keys(const Workload& workload, const oracle::Sequence& sequence) {
  return {key_range(workload, sequence, 0).begin,
          std::min(key_range(workload, sequence, sequence.queries - 1).end, sequence.keys)};
}

double useful_flops(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  double pairs = 0;
  for (std::int64_t b = 0; b < d.batch; ++b) {
    const oracle::Sequence sequence = sequence_of(workload, b);
    for (std::int64_t i = 0; i < sequence.queries; ++i) {
      KeyRange keys = key_range(workload, sequence, i);
      if (workload.padding) keys.end = std::min(keys.end, unpadded_keys(workload));
      pairs += static_cast<double>(std::max<std::int64_t>(keys.end - keys.begin, 0));
    }
  }
  return 2 * product({workload.layers, d.features + d.value_features, d.query_heads}) * pairs;
}

double key_value_bytes(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  double keys = 0;
  for (std::int64_t b = 0; b < d.batch; ++b) {
    const KeyRange attended = attended_keys(workload, sequence_of(workload, b));
    keys += static_cast<double>(attended.end - attended.begin);
  }
  return keys * product({workload.layers, d.key_heads,
                         pair_bytes(d.key.dtype, d.features + d.value_features)});
}

// ---- Rows that caches store ----

const char* const kAppendGrammar =
    "append<rows>_Hkv<key heads>_D<features>[_Dv<value features>][_layers<n>][_pages<n>]\n"
    "  [_bf16|_f16|_i8|_f8][_rotary]";

namespace {

const Grammar kAppendParts = {kAppendGrammar,
                              {"append", "Hkv", "D", "Dv", "layers"},
                              {"pages"},
                              {"bf16", "f16", "i8", "f8", "rotary"},
                              {{"bf16", "f16", "i8", "f8"}}};

/// So many rows a sequence has before it begins anew: more than caches of processors hold.
constexpr std::int64_t kLength = 8192;

}  // namespace

bool names_append(const std::string& name) { return name.rfind("append", 0) == 0; }

AppendWorkload parse_append_workload(const std::string& name) {
  const Parts parts(kAppendParts, name);
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
