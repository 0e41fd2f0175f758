// Checked mode: what it refuses, and what it remarks on.
#include <algorithm>

#include "tests/api/files.hpp"
#include "tests/api/problems.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

struct Attempt {
  heed_status status;
  std::string message;  ///< where it was refused
  std::string printed;
};

Attempt attempt(std::uint32_t check, const char* of, const std::string& changes,
                const Changes& more) {
  const Context context = checked_context(check);
  Form form(of);
  change(form, changes, more);
  Captured err(STDERR_FILENO);
  Captured out(STDOUT_FILENO);
  const heed_status status = form.call(context);
  std::string printed = err.text();
  if (!out.text().empty()) printed += "(on stdout)";
  return {status, status == HEED_STATUS_OK ? "" : heed_last_error(), printed};
}

void check_row(const char* of, const std::string& base, const Refusal& row, const Changes& more) {
  CAPTURE(of, base, row.change);
  const std::string changes = base.empty() ? row.change : base + ", " + row.change;
  const Attempt checked = attempt(HEED_CHECK_ON, of, changes, more);
  CAPTURE(checked.message, checked.printed);
  const std::string kind = row.message.substr(0, row.message.find(' '));
  const bool refused = kind == "refused";
  CHECK(checked.status == (refused ? HEED_STATUS_INVALID_ARGUMENT : HEED_STATUS_OK));
  const std::string& text = refused ? checked.message : checked.printed;
  check_contains(text, split(row.message.substr(kind.size() + (kind != row.message)), " | "));
  if (kind == "fine") CHECK(checked.printed.empty());
  if (!checked.printed.empty()) CHECK(checked.printed.rfind("heed: check: ", 0) == 0);

  const Attempt unchecked = attempt(HEED_CHECK_OFF, of, changes, more);
  CAPTURE(unchecked.message);
  CHECK(unchecked.status == HEED_STATUS_OK);
  CHECK(unchecked.printed.empty());
}

/// A table of calls that pass without checks. With them they are "refused", "told" or "fine"; words
/// follow that the message, or what is printed, has in it, with " | " between.
void check_traps(const char* of, const std::string& table, const Changes& more = {}) {
  each_row(operation(of), table,
           [&](const std::string& base, const Refusal& row) { check_row(of, base, row, more); });
}

/// Attention without options: 2 items, 2 heads, 6 rows, 8 keys, 4 features.
const char* const kPlain =
    "desc.batch desc.query_heads desc.key_heads = 2, desc.query_length = 6, desc.key_length = 8, "
    "desc.features desc.value_features = 4, desc.alignment desc.weights_point desc.weight_rows = "
    "0, "
    "desc.sum_columns = 0, args.mask args.bias args.key_lengths args.alibi_slopes args.sinks = "
    "NULL, "
    "args.weight_rows args.lse args.weights args.column_sums = NULL";

/// Numbers of a type, in the memory of a tensor of maybe another.
void fill_as(Form& form, const std::string& name, std::uint32_t dtype) {
  std::int64_t i = 0;
  for (const float x : numbers(1024, 7))
    heed_test::store_bits(dtype, form.own(name), i++, heed_test::encode(dtype, x));
}

/// A mask in which somebody has put other numbers than bytes.
template <class Number>
void fill_mask(Form& form, Number one) {
  form.apply("args.mask = own");
  for (std::size_t i = 0; i < 8192; i += sizeof one)
    std::memcpy(form.own("args.mask") + i, &one, sizeof one);
}

const Changes kDense = {
    {"plain",
     [](Form& form) {
       form.apply(kPlain);
       for (const char* const name : {"query", "key", "value", "out", "key_scales", "value_scales"})
         fill_as(form, std::string("args.") + name, HEED_DTYPE_F32);
     }},
    {"8-bit numbers",
     [](Form& form) {
       form.apply("8 bits");
       fill_as(form, "args.value", HEED_DTYPE_F8_E4M3);
     }},
    {"key of f16", [](Form& form) { fill_as(form, "args.key", HEED_DTYPE_F16); }},
    {"key of bf16", [](Form& form) { fill_as(form, "args.key", HEED_DTYPE_BF16); }},
    {"large values",
     [](Form& form) {
       for (int i = 0; i < 128; ++i) form.tensor("args.value").set(i, "3e38");
     }},
    {"NaN in 8 bits",
     [](Form& form) {
       const unsigned char nan = 0xff;
       std::memcpy(form.own("args.value") + 70, &nan, 1);
     }},
    {"ones and zeros",
     [](Form& form) {
       for (int i = 0; i < 8; ++i) form.tensor("args.bias").set(i, i < 5 ? "1" : "0");
     }},
    {"mask of float32", [](Form& form) { fill_mask(form, 1.0F); }},
    {"mask of int32", [](Form& form) { fill_mask(form, std::int32_t{1}); }},
    {"row without keys", [](Form& form) {
       form.apply("args.mask = own");
       std::memset(form.own("args.mask") + 48 + 5 * 8, 0, 8);
     }}};

}  // namespace

TEST_CASE("checked: an output over any other tensor is refused", "[check][files]") {
  const Captured quiet(STDERR_FILENO);
  const Context context = checked_context(HEED_CHECK_ON);
  for (const Kind& kind : kinds()) {
    if (kind.large) continue;
    const FencedTensors far_from_each_other(End::kFirst);
    const std::unique_ptr<Form> problem = kind.problem();
    REQUIRE(problem->prepare(context) == HEED_STATUS_OK);
    const std::vector<Tensor> tensors = problem->given_tensors();
    for (const Tensor& out : tensors) {
      if (out.content != Tensor::kResult) continue;
      const void* const own = out.memory();
      for (const Tensor& other : tensors) {
        const bool in_place = out.name == "args.out" && other.name == "args.data";
        if (other.field == out.field || in_place) continue;
        CAPTURE(kind.name, out.name, other.name);
        out.point_at(other.memory());
        CHECK(problem->call(context) == HEED_STATUS_INVALID_ARGUMENT);
        check_contains(heed_last_error(), {out.name, other.name, " overlaps ", "must not overlap"});
      }
      out.point_at(own);
    }
  }
}

TEST_CASE("checked: outputs within what others span are refused where they overlap",
          "[check][files]") {
  check_traps("dense", R"(
    with plain:
    page, args.out = args.key+1520 => refused args.out | overlaps args.key
    8-bit numbers, args.out = args.key_scales+124 => refused args.out | overlaps args.key_scales
    8-bit numbers, args.out = args.value_scales+4 => fine
    desc.query desc.out = [96 48 8 1], args.out = args.query+16 => fine
    desc.query desc.out = [96 48 8 1], args.out = args.query+24
      => refused args.out | overlaps args.query
    desc.key = [64 32 -4 1], args.key = args.key+112, args.out = args.key+496
      => refused args.out | overlaps args.key
    desc.packed_queries = 12, args.cu_seqlens_q = {6 6 12}, args.out = args.query,
      args.query = args.query+192
      => told args.cu_seqlens_q goes from 6 to 12 | desc.packed_queries is 12
  )",
              kDense);
}

TEST_CASE("checked: what looks odd is told", "[check][files]") {
  check_traps("dense", R"(
    with plain:
    desc.softcap = 0 => fine
    desc.batch = 0, desc.packed_queries = 12, args.cu_seqlens_q = {0}, args.key args.value = NULL
      => told desc.batch is 0 | no row
    page, desc.key_length = 0 => told desc.key_length is 0 | becomes 0
    desc.batch = 0, args.query args.key args.value args.out = NULL => fine
    args.key[54] = nan, args.key[67] = -inf => told args.key holds 1 NaN and 1 inf among 128 numbers,
      the first at batch 0, head 1, row 5, feature 2
    args.key_lengths = {8 7}, args.key[92] = nan => fine
    page, args.value[342] = nan
      => told args.value holds 1 NaN | the first at page 2, head 1, row 5, feature 2
    page, args.key[128] = nan, args.key[288] = nan => fine
    desc.bias.batch desc.bias.heads desc.bias.rows = 1, args.bias = own, args.bias[7] = -inf => fine
    desc.bias.batch desc.bias.heads desc.bias.rows = 1, args.bias = own, args.bias[7] = inf
      => told args.bias holds 0 NaN and 1 inf among 8 numbers, the first at | key 7
    desc.bias.batch desc.bias.heads desc.bias.rows = 1, args.bias = own, ones and zeros
      => told args.bias holds nothing but ones and zeros, as a mask does
    desc.bias.batch desc.bias.heads desc.bias.rows = 1, args.bias = own, ones and zeros,
      args.bias[7] = -inf => fine
    desc.bias.batch desc.bias.heads desc.bias.rows = 1, args.bias = own, ones and zeros,
      args.bias[4] = 0.5 => fine
    large values => told args.out holds | 96 inf among 96 numbers
    desc.key.dtype = bf16, key of f16 => told args.key, read as bf16 | is its dtype right?
    desc.key.dtype = f16, key of bf16 => told args.key, read as f16 | is its dtype right?
    desc.key.dtype = bf16 => told args.key, read as bf16 | is its dtype right?
    desc.key.dtype = f16, key of f16 => fine
    desc.key.dtype = bf16, key of bf16 => fine
    8-bit numbers => fine
    8-bit numbers, args.key_scales[29] = nan => told args.key_scales holds 1 NaN and 0 inf among 32
      numbers, the first at batch 1, head 1, row 5
    8-bit numbers, page, args.key_scales[40] = nan => fine
    8-bit numbers, NaN in 8 bits, args.value_scales[0] = -inf
      => told args.value holds 1 NaN | args.value_scales holds 0 NaN and 1 inf among 1 numbers
    desc.query = [192 96 16 4] => told the strides of args.query | 4 bytes
    mask of float32 => told args.mask holds | neither 0 nor 1 nor 255, the first 128
    mask of int32 => told every fourth byte of args.mask
    row without keys
      => told 1 of 24 rows may attend no key | a mask is not 0 | batch 0, head 1, row 5
    desc.causal = 3, desc.causal_offset = -2
      => told 8 of 24 rows may attend no key | batch 0, head 0, row 0
    desc.causal = 1 => told the keys 6 to 7 | HEED_CAUSAL_BOTTOM_RIGHT
    desc.causal = 2 => fine
    args.key_lengths = {5 0} => told every second number of args.key_lengths is 0 | int64
    desc.packed_queries = 6, args.cu_seqlens_q = {0 0 6}
      => told every second number of args.cu_seqlens_q is 0 | int64
    desc.packed_keys = 12, args.cu_seqlens_k = {0 5 11}
      => told args.cu_seqlens_k goes from 0 to 11 | desc.packed_keys is 12
    desc.scale = 2 => told desc.scale is 2 | 0.5
  )",
              kDense);
}

TEST_CASE("checked: blocks", "[check][multihead][files]") {
  check_traps("block", R"(
    args.w_value[38] = nan, args.input_key[19] = nan
      => told args.w_value holds 1 NaN and 0 inf among 108 numbers, the first at matrix 0, in 3, out
      2 | args.input_key holds 1 NaN | batch 0, head 0, row 2, feature 1 | args.out holds
    args.attention->key_lengths = {4 4}, args.input_key[37] = nan => fine
    args.attention->key_lengths = {4 0}
      => told every second number of args.attention->key_lengths is 0
  )");
}

namespace {

/// A ring of so many nodes, each with an edge to the next, given as int64.
std::function<void(Form&)> ring(std::int64_t nodes) {
  std::vector<std::int64_t> sources, destinations;
  for (std::int64_t n = 0; n < nodes; ++n) {
    sources.push_back(n + 1 < nodes ? n + 1 : 1);
    destinations.push_back(n);
  }
  return [=](Form& form) {
    auto& desc = form.at<heed_graph_desc>("desc");
    desc.nodes = desc.edges = nodes;
    desc.sources = sources.data();
    desc.destinations = destinations.data();
  };
}

}  // namespace

TEST_CASE("checked: edges that look like int64", "[check][graph][files]") {
  const Changes more = {{"ring of 32", ring(32)}, {"ring of 30", ring(30)}};
  check_traps("graph", R"(
    ring of 32 => refused desc.index_type is 0 | 16 of 32, is 0 | HEED_INDEX_I64 (2)
      | HEED_INDEX_I32 (1)
    ring of 32, desc.index_type = 1
      => told every second of desc.sources and desc.destinations is 0 | HEED_INDEX_I64 (2)
    ring of 30 => told every second of desc.sources and desc.destinations is 0
    ring of 32, desc.index_type = 2 => fine
    desc.index_type = 0 => fine
    desc.nodes = 2, desc.sources = {1 1 1 0 1 0}, desc.destinations = NULL, desc.offsets = {0 0 6}
      => told every second number of desc.offsets is 0
  )",
              more);
}

TEST_CASE("checked: tensors of graphs that overlap or look odd", "[check][graph][files]") {
  check_traps("graph attention", R"(
    desc.softcap = 0 => fine
    args.out = args.data => fine
    args.out = args.data+40 => refused args.out | overlaps args.data
    args.edge_data[9] = nan => told args.edge_data holds 1 NaN | edge 4, feature 1
    args.data[13] = nan, args.out = args.data
      => told args.data holds 1 NaN | node 1, feature 3 | args.out holds
    args.edge_bias[0] = -inf, args.edge_bias[5] = inf
      => told args.edge_bias holds 0 NaN and 1 inf | head 1, edge 2
    args.edge_bias[0] args.edge_bias[3] = 1,
      args.edge_bias[1] args.edge_bias[2] args.edge_bias[4] args.edge_bias[5] = 0
      => told args.edge_bias holds nothing but ones and zeros
    share, args.w_key[17] = nan, args.b_value[3] = nan
      => told args.w_key holds 1 NaN | in 2, out 5 | args.b_value holds 1 NaN | element 3
  )");
}

TEST_CASE("checked: merges, rotations, projections and matrices", "[check][files]") {
  check_traps("merge", R"(
    parts = 3 => fine
    out = part_outs[1], lse = part_lses[1] => fine
    out = part_outs[1]+20 => refused out, 0x | overlaps part_outs[1], 0x
    out = part_outs[0], desc.out = [60 5 15 1] => refused out | overlaps part_outs[0]
    lse = part_outs[0] => refused lse, 0x | overlaps part_outs[0]
    lse = out+8 => refused out, 0x | overlaps lse
    part_outs[1][21] = nan => told part_outs[1] holds 1 NaN | head 1, row 0, feature 1
    part_outs[1][21] = nan, part_lses[1][4] = -inf => fine
    part_lses[0][5] = nan => told part_lses[0] holds 1 NaN | head 1, row 1
  )");
  check_traps("rotate", R"(
    desc.position = 0 => fine
    to = from => fine
    to = from+24 => refused to, 0x | overlaps from, 0x
    to = from, desc.to = [72 6 18 1] => refused to | overlaps from
    desc.to.dtype = bf16, to = from => refused to | overlaps from
    positions, desc.batch desc.heads = 1, desc.rows = 2, to = positions
      => refused to, 0x | overlaps positions
    tables, desc.batch desc.heads desc.rows = 1, to = desc.rotary.sines+12
      => refused to, 0x | overlaps desc.rotary.sines
    from[31] = nan => told from holds 1 NaN | head 1, row 1, feature 1
  )");
  check_traps("project", R"(
    desc.batch = 2 => fine
    y = x => refused y, 0x | overlaps x, 0x
    y = x+156 => refused y, 0x | overlaps x
    y = x+160 => fine
    x[23] = nan => told x holds 1 NaN | batch 1, head 0, row 0, feature 3
    desc.x = [80 0 20 4] => told the strides of x are multiples of the 4 bytes
  )");
  check_traps("matrix", R"(
    desc.in = 5 => fine
    matrix[8] = nan => told matrix holds 1 NaN | in 1, out 2
    bias[2] = nan => told bias holds 1 NaN | element 2
  )");
}

TEST_CASE("checked: caches", "[check][cache][files]") {
  check_traps("append", R"(
    desc.rows = 3 => fine
    key[13] = nan => told key holds 1 NaN | at head 1, row 1, feature 1
    value[35] = nan => told value holds 1 NaN | at head 1, row 2, feature 5
    desc.key = [0 16 32 4] => told the strides of key are multiples of the 4 bytes
  )");
  check_traps("cache attention", R"(
    desc.layer = 0 => fine
    desc.attention->causal = 0
      => told the 3 query rows of desc.sequences[0] attend all of its keys, later ones too
    desc.attention->causal = 0, args.mask = own => fine
    desc.attention->causal = 0, desc.attention->query_length = 1 => fine
    args.query[3] = nan => told args.query holds 1 NaN
    args.out = args.query => refused args.out | overlaps args.query
  )");
}
