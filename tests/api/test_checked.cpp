// Checked mode over dense attention: what it refuses, and what it remarks on.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/api/checked.hpp"
#include "tests/api/forms.hpp"
#include "tests/api/sample.hpp"

using namespace api_test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Call sample(const std::function<void(Sample&)>& change) {
  return [change](const Context& context) {
    Sample s;
    change(s);
    return heed_attention(context.get(), &s.desc, &s.args);
  };
}

Call form(const Change& change) {
  return [change](const Context& context) {
    Form f;
    change(f);
    return heed_attention(context.get(), &f.desc, &f.args);
  };
}

/// The 16-bit pattern of a number, the upper half of float32 or IEEE's, for numbers that both have.
std::uint16_t bf16_of(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}
std::uint16_t f16_of(float x) {
  if (std::fabs(x) < 0x1p-14F) return 0;
  const int exponent = std::ilogb(x);
  const float fraction = std::fabs(std::scalbn(x, -exponent)) - 1;
  return static_cast<std::uint16_t>((x < 0 ? 0x8000 : 0) + ((exponent + 15) << 10) +
                                    static_cast<int>(fraction * 1024));
}

void fill(std::vector<float>& data, std::uint16_t (*encode)(float)) {
  const std::vector<float> from = numbers(data.size(), 7);
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::uint16_t bits = encode(from[i]);
    std::memcpy(reinterpret_cast<char*>(data.data()) + 2 * i, &bits, sizeof bits);
  }
}

/// Rows of `slots` slots of 4 features each, as packed QKV has them; heads and batch outside.
heed_layout slot_of(std::int64_t rows, std::int64_t slots) {
  return {0, 0, 2 * rows * slots * 4, rows * slots * 4, slots * 4, 1};
}

constexpr heed_status kWrong = HEED_STATUS_INVALID_ARGUMENT;
constexpr heed_status kFine = HEED_STATUS_OK;

}  // namespace

TEST_CASE("checked: outputs that overlap are refused", "[check][files]") {
  check_traps({
      {"out is query",
       sample([](Sample& s) { s.args.out = s.query.data(); }),
       kWrong,
       {"args.out, 0x", "overlaps args.query, 0x", "must not overlap"}},
      {"out begins within value",
       sample([](Sample& s) { s.args.out = s.value.data() + 127; }),
       kWrong,
       {"args.out", "overlaps args.value"}},
      {"out begins past value",
       sample([](Sample& s) { s.args.out = s.value.data() + 128; }),
       kFine,
       {}},
      {"lse in out",
       form([](Form& f) { f.args.lse = f.out.at(32); }),
       kWrong,
       {"args.out", "overlaps args.lse"}},
      {"weights over the mask",
       form([](Form& f) { f.args.weights = f.mask.at(); }),
       kWrong,
       {"args.weights", "overlaps args.mask"}},
      {"column sums over the bias",
       form([](Form& f) { f.args.column_sums = f.bias.at(); }),
       kWrong,
       {"args.column_sums", "overlaps args.bias"}},
      {"out in the slot next to those of a packed query",
       sample([](Sample& s) {
         s.desc.query = s.desc.out = slot_of(6, 2);
         s.args.out = s.query.data() + 4;
       }),
       kFine,
       {}},
      {"out half a slot further",
       sample([](Sample& s) {
         s.desc.query = s.desc.out = slot_of(6, 2);
         s.args.out = s.query.data() + 6;
       }),
       kWrong,
       {"args.out", "overlaps args.query"}},
      {"the last row of out is the first of a reversed key",
       sample([](Sample& s) {
         s.desc.key = {0, 0, 64, 32, -4, 1};
         s.args.key = s.key.data() + 28;
         s.args.out = s.key.data() + 124;
       }),
       kWrong,
       {"args.out", "overlaps args.key"}},
      {"packed rows of nobody may lie in out",
       sample([](Sample& s) {
         s.desc.packed_queries = 12;
         s.lengths[0] = s.lengths[1] = 6;
         s.lengths[2] = 12;
         s.args.cu_seqlens_q = s.lengths;
         s.args.query = s.query.data() + 2 * 4 * 6;  // 6 rows of 2 heads after out
         s.args.out = s.query.data();
       }),
       kFine,
       {"args.cu_seqlens_q goes from 6 to 12", "desc.packed_queries is 12"}},
  });
}

TEST_CASE("checked: what looks odd is told", "[check][files]") {
  check_traps({
      {"nothing odd", sample([](Sample&) {}), kFine, {}},
      {"batch forgotten",
       sample([](Sample& s) { s.desc.batch = 0; }),
       kFine,
       {"desc.batch is 0", "no row"}},
      {"heads forgotten",
       sample([](Sample& s) { s.desc.query_heads = 0; }),
       kFine,
       {"desc.query_heads is 0", "no row"}},
      {"rows forgotten",
       sample([](Sample& s) { s.desc.query_length = 0; }),
       kFine,
       {"desc.query_length is 0", "no row"}},
      {"keys forgotten",
       sample([](Sample& s) { s.desc.key_length = 0; }),
       kFine,
       {"desc.key_length is 0", "becomes 0"}},
      {"nothing to compute, and nothing given",
       sample([](Sample& s) {
         s.desc.batch = 0;
         s.args = HEED_ATTENTION_ARGS_INIT;
       }),
       kFine,
       {}},
      {"NaN and infinity",
       sample([](Sample& s) {
         s.key[1 * 32 + 5 * 4 + 2] = kNan;
         s.key[64 + 3] = -kInf;
       }),
       kFine,
       {"args.key holds 1 NaN and 1 inf among 128 numbers, the first at batch 0, head 1, row 5, "
        "feature 2"}},
      {"NaN past the end of a sequence",
       sample([](Sample& s) {
         s.lengths[0] = 8, s.lengths[1] = 7;
         s.args.key_lengths = s.lengths;
         s.key[64 + 7 * 4] = kNan;
       }),
       kFine,
       {}},
      {"-inf in a bias",
       sample([](Sample& s) {
         static const std::vector<float> bias = {0, 0, 0, 0, 0, 0, 0, -kInf};
         s.desc.bias = {0, 0, 1, 1, 1, 8, 0, 0, 0, 0};
         s.args.bias = bias.data();
       }),
       kFine,
       {}},
      {"+inf in a bias",
       sample([](Sample& s) {
         static const std::vector<float> bias = {0, 0, 0, 0, 0, 0, 0, kInf};
         s.desc.bias = {0, 0, 1, 1, 1, 8, 0, 0, 0, 0};
         s.args.bias = bias.data();
       }),
       kFine,
       {"args.bias holds 0 NaN and 1 inf among 8 numbers, the first at", "key 7"}},
      {"values that overflow",
       sample([](Sample& s) { std::fill(s.value.begin(), s.value.end(), 3e38F); }),
       kFine,
       {"args.out holds", "96 inf among 96 numbers"}},
      {"float16 read as bfloat16",
       sample([](Sample& s) {
         s.desc.key.dtype = HEED_DTYPE_BF16;
         fill(s.key, f16_of);
       }),
       kFine,
       {"args.key, read as bf16", "is its dtype right?"}},
      {"bfloat16 read as float16",
       sample([](Sample& s) {
         s.desc.key.dtype = HEED_DTYPE_F16;
         fill(s.key, bf16_of);
       }),
       kFine,
       {"args.key, read as f16", "is its dtype right?"}},
      {"float32 read as bfloat16",
       sample([](Sample& s) { s.desc.key.dtype = HEED_DTYPE_BF16; }),
       kFine,
       {"args.key, read as bf16", "is its dtype right?"}},
      {"float16",
       sample([](Sample& s) {
         s.desc.key.dtype = HEED_DTYPE_F16;
         fill(s.key, f16_of);
       }),
       kFine,
       {}},
      {"bfloat16",
       sample([](Sample& s) {
         s.desc.key.dtype = HEED_DTYPE_BF16;
         fill(s.key, bf16_of);
       }),
       kFine,
       {}},
      {"strides that count bytes",
       sample([](Sample& s) { s.desc.query = {0, 0, 192, 96, 16, 4}; }),
       kFine,
       {"the strides of args.query", "4 bytes"}},
      {"a mask of float32",
       sample([](Sample& s) {
         const float one = 1;
         for (std::size_t i = 0; i < s.mask.size(); i += 4) std::memcpy(&s.mask[i], &one, 4);
         s.args.mask = s.mask.data();
       }),
       kFine,
       {"args.mask holds", "neither 0 nor 1 nor 255, the first 128"}},
      {"a mask of int32",
       sample([](Sample& s) {
         for (std::size_t i = 0; i < s.mask.size(); ++i) s.mask[i] = i % 4 == 0 ? 1 : 0;
         s.args.mask = s.mask.data();
       }),
       kFine,
       {"every fourth byte of args.mask"}},
      {"a mask that leaves a row nothing",
       sample([](Sample& s) {
         std::fill_n(s.mask.begin() + 48 + 5 * 8, 8, std::uint8_t{0});
         s.args.mask = s.mask.data();
       }),
       kFine,
       {"1 of 24 rows may attend no key", "a mask is not 0", "batch 0, head 1, row 5"}},
      {"a causal offset before all keys",
       sample([](Sample& s) {
         s.desc.causal = HEED_CAUSAL_OFFSET;
         s.desc.causal_offset = -2;
       }),
       kFine,
       {"8 of 24 rows may attend no key", "batch 0, head 0, row 0"}},
      {"decoding from the top left",
       sample([](Sample& s) { s.desc.causal = HEED_CAUSAL_TOP_LEFT; }),
       kFine,
       {"the keys 6 to 7", "HEED_CAUSAL_BOTTOM_RIGHT"}},
      {"decoding from the bottom right",
       sample([](Sample& s) { s.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT; }),
       kFine,
       {}},
      {"int64 lengths",
       sample([](Sample& s) {
         s.lengths[0] = 5;
         s.args.key_lengths = s.lengths;
       }),
       kFine,
       {"every second number of args.key_lengths is 0", "int64"}},
      {"int64 offsets",
       sample([](Sample& s) {
         s.desc.packed_queries = 6;
         s.lengths[2] = 6;
         s.args.cu_seqlens_q = s.lengths;
       }),
       kFine,
       {"every second number of args.cu_seqlens_q is 0", "int64"}},
      {"offsets that end before the tensor does",
       sample([](Sample& s) {
         s.desc.packed_keys = 12;
         s.lengths[1] = 5, s.lengths[2] = 11;
         s.args.cu_seqlens_k = s.lengths;
       }),
       kFine,
       {"args.cu_seqlens_k goes from 0 to 11", "desc.packed_keys is 12"}},
      {"the root as the scale",
       sample([](Sample& s) { s.desc.scale = 2; }),
       kFine,
       {"desc.scale is 2", "0.5"}},
  });
}
