// Checked mode over dense attention: what it refuses, and what it remarks on.
#include <cstring>

#include "tests/api/checked.hpp"
#include "tests/api/problems.hpp"
#include "tests/oracle/dtype.hpp"

using namespace api_test;

namespace {

/// A plain problem in roomy memory, for mistakes with few consequences: 2 items, 2 heads, 6 rows, 8
/// keys, 4 features.
struct Sample {
  Sample() {
    desc.batch = desc.query_heads = desc.key_heads = 2;
    args.query = query.data();
    args.key = key.data();
    args.value = value.data();
    args.out = out.data();
  }
  Sample(const Sample&) = delete;  // its arguments point into it
  Sample& operator=(const Sample&) = delete;

  /// Keys and values in pages of 16 rows, 128 numbers: sequence 0 in the last of three, 1 in the
  /// first.
  void page() {
    desc.pages = 3;
    desc.page_rows = 16;
    lengths[0] = 2, lengths[1] = 0;
    args.block_table = lengths;
  }

  /// Integers as keys, with a scale per row, and E4M3 as values.
  void store_8_bits();

  static std::vector<float> room(std::uint32_t seed) { return numbers(4096, seed); }

  heed_attention_desc desc = small_desc(6, 8, 4, 4);
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  std::vector<float> query = room(1), key = room(2), value = room(3), out = room(4),
                     scales = room(5);
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(4096, 1);
  std::int32_t lengths[3] = {};
};

heed_status one_call(const Context& context, Sample& s) {
  return heed_attention(context.get(), &s.desc, &s.args);
}

void fill(std::vector<float>& data, std::uint32_t dtype) {
  std::int64_t i = 0;
  for (const float x : numbers(data.size(), 7))
    heed_test::store_bits(dtype, data.data(), i++, heed_test::encode(dtype, x));
}

void Sample::store_8_bits() {
  desc.key.dtype = HEED_DTYPE_I8;
  desc.value.dtype = HEED_DTYPE_F8_E4M3;
  fill(value, HEED_DTYPE_F8_E4M3);
  args.key_scales = scales.data();
  args.value_scales = scales.data() + 32;
}

/// Rows of `slots` slots of 4 features each, as packed QKV has them; heads and batch outside.
heed_layout slot_of(std::int64_t rows, std::int64_t slots) {
  return {0, 0, 2 * rows * slots * 4, rows * slots * 4, slots * 4, 1};
}

}  // namespace

TEST_CASE("checked: an output over any other tensor is refused", "[check][files]") {
  const Captured quiet(STDERR_FILENO);
  const Context context = checked_context(HEED_CHECK_ON);
  for (const Kind& kind : kinds()) {
    if (kind.large) continue;
    const std::unique_ptr<Problem> problem = kind.problem(End::kFirst);  // far from each other
    REQUIRE(problem->prepare(context) == HEED_STATUS_OK);
    for (const Tensor& out : problem->tensors) {
      if (out.content != Tensor::kResult) continue;
      const void* const own = out.memory();
      for (const Tensor& other : problem->tensors) {
        const bool in_place = out.name == "args.out" && other.name == "args.data";
        if (other.field == out.field || in_place) continue;
        CAPTURE(kind.name, out.name, other.name);
        out.point_at(other.memory());
        CHECK(problem->call(context) == HEED_STATUS_INVALID_ARGUMENT);
        check_contains(heed_last_error(),
                       {out.name.c_str(), other.name.c_str(), " overlaps ", "must not overlap"});
      }
      out.point_at(own);
    }
  }
}

TEST_CASE("checked: outputs within what others span are refused where they overlap",
          "[check][files]") {
  check_traps({
      refused("out in the last page",
              [](Sample& s) {
                s.page();
                s.args.out = s.key.data() + 380;
              },
              {"args.out", "overlaps args.key"}),
      refused("out in the scales of keys",
              [](Sample& s) {
                s.store_8_bits();
                s.args.out = s.scales.data() + 31;
              },
              {"args.out", "overlaps args.key_scales"}),
      fine("out after the scale of all values",
           [](Sample& s) {
             s.store_8_bits();
             s.args.out = s.scales.data() + 33;
           }),
      fine("out in the slot next to those of a packed query",
           [](Sample& s) {
             s.desc.query = s.desc.out = slot_of(6, 2);
             s.args.out = s.query.data() + 4;
           }),
      refused("out half a slot further",
              [](Sample& s) {
                s.desc.query = s.desc.out = slot_of(6, 2);
                s.args.out = s.query.data() + 6;
              },
              {"args.out", "overlaps args.query"}),
      refused("the last row of out is the first of a reversed key",
              [](Sample& s) {
                s.desc.key = {0, 0, 64, 32, -4, 1};
                s.args.key = s.key.data() + 28;
                s.args.out = s.key.data() + 124;
              },
              {"args.out", "overlaps args.key"}),
      told("packed rows of nobody may lie in out",
           [](Sample& s) {
             s.desc.packed_queries = 12;
             s.lengths[0] = s.lengths[1] = 6;
             s.lengths[2] = 12;
             s.args.cu_seqlens_q = s.lengths;
             s.args.query = s.query.data() + 2 * 4 * 6;  // 6 rows of 2 heads after out
             s.args.out = s.query.data();
           },
           {"args.cu_seqlens_q goes from 6 to 12", "desc.packed_queries is 12"}),
  });
}

TEST_CASE("checked: what looks odd is told", "[check][files]") {
  check_traps({
      fine("nothing odd", [](Sample&) {}),
      told("packed rows without a batch",
           [](Sample& s) {
             s.desc.batch = 0, s.desc.packed_queries = 12;
             s.args.cu_seqlens_q = s.lengths;
             s.args.key = s.args.value = nullptr;
           },
           {"desc.batch is 0", "no row"}),
      told("pages without keys",
           [](Sample& s) {
             s.page();
             s.desc.key_length = 0;
           },
           {"desc.key_length is 0", "becomes 0"}),
      fine("nothing to compute, and nothing given",
           [](Sample& s) {
             s.desc.batch = 0;
             s.args = HEED_ATTENTION_ARGS_INIT;
           }),
      told(
          "NaN and infinity",
          [](Sample& s) {
            s.key[1 * 32 + 5 * 4 + 2] = kNan;
            s.key[64 + 3] = -kInf;
          },
          {"args.key holds 1 NaN and 1 inf among 128 numbers, the first at batch 0, head 1, row 5, "
           "feature 2"}),
      fine("NaN past the end of a sequence",
           [](Sample& s) {
             s.lengths[0] = 8, s.lengths[1] = 7;
             s.args.key_lengths = s.lengths;
             s.key[64 + 7 * 4] = kNan;
           }),
      told("NaN in a page",
           [](Sample& s) {
             s.page();
             s.value[2 * 128 + 64 + 5 * 4 + 2] = kNan;
           },
           {"args.value holds 1 NaN", "the first at page 2, head 1, row 5, feature 2"}),
      fine("NaN in a page of nobody, and past the end of a sequence",
           [](Sample& s) {
             s.page();
             s.key[128] = s.key[2 * 128 + 8 * 4] = kNan;
           }),
      fine("-inf in a bias",
           [](Sample& s) {
             static const std::vector<float> bias = {0, 0, 0, 0, 0, 0, 0, -kInf};
             s.desc.bias = {0, 0, 1, 1, 1, 8, 0, 0, 0, 0};
             s.args.bias = bias.data();
           }),
      told("+inf in a bias",
           [](Sample& s) {
             static const std::vector<float> bias = {0, 0, 0, 0, 0, 0, 0, kInf};
             s.desc.bias = {0, 0, 1, 1, 1, 8, 0, 0, 0, 0};
             s.args.bias = bias.data();
           },
           {"args.bias holds 0 NaN and 1 inf among 8 numbers, the first at", "key 7"}),
      told("values that overflow",
           [](Sample& s) { std::fill(s.value.begin(), s.value.end(), 3e38F); },
           {"args.out holds", "96 inf among 96 numbers"}),
      told("float16 read as bfloat16",
           [](Sample& s) {
             s.desc.key.dtype = HEED_DTYPE_BF16;
             fill(s.key, HEED_DTYPE_F16);
           },
           {"args.key, read as bf16", "is its dtype right?"}),
      told("bfloat16 read as float16",
           [](Sample& s) {
             s.desc.key.dtype = HEED_DTYPE_F16;
             fill(s.key, HEED_DTYPE_BF16);
           },
           {"args.key, read as f16", "is its dtype right?"}),
      told("float32 read as bfloat16", [](Sample& s) { s.desc.key.dtype = HEED_DTYPE_BF16; },
           {"args.key, read as bf16", "is its dtype right?"}),
      fine("float16",
           [](Sample& s) {
             s.desc.key.dtype = HEED_DTYPE_F16;
             fill(s.key, HEED_DTYPE_F16);
           }),
      fine("bfloat16",
           [](Sample& s) {
             s.desc.key.dtype = HEED_DTYPE_BF16;
             fill(s.key, HEED_DTYPE_BF16);
           }),
      fine("8 bits", [](Sample& s) { s.store_8_bits(); }),
      told("a row of 8 bits that was not finite",
           [](Sample& s) {
             s.store_8_bits();
             s.scales[1 * 16 + 1 * 8 + 5] = kNan;
           },
           {"args.key_scales holds 1 NaN and 0 inf among 32 numbers, the first at batch 1, head 1, "
            "row 5"}),
      fine("NaN in the scale of nobody's page",
           [](Sample& s) {
             s.store_8_bits();
             s.page();
             s.args.value_scales = s.scales.data() + 200;
             s.scales[40] = kNan;
           }),
      told("NaN in 8 bits, and in their scale",
           [](Sample& s) {
             s.store_8_bits();
             reinterpret_cast<unsigned char*>(s.value.data())[70] = 0xff;
             s.scales[32] = -kInf;
           },
           {"args.value holds 1 NaN", "args.value_scales holds 0 NaN and 1 inf among 1 numbers"}),
      told("strides that count bytes", [](Sample& s) { s.desc.query = {0, 0, 192, 96, 16, 4}; },
           {"the strides of args.query", "4 bytes"}),
      told("a mask of float32",
           [](Sample& s) {
             const float one = 1;
             for (std::size_t i = 0; i < s.mask.size(); i += 4) std::memcpy(&s.mask[i], &one, 4);
             s.args.mask = s.mask.data();
           },
           {"args.mask holds", "neither 0 nor 1 nor 255, the first 128"}),
      told("a mask of int32",
           [](Sample& s) {
             for (std::size_t i = 0; i < s.mask.size(); ++i) s.mask[i] = i % 4 == 0 ? 1 : 0;
             s.args.mask = s.mask.data();
           },
           {"every fourth byte of args.mask"}),
      told("a mask that leaves a row nothing",
           [](Sample& s) {
             std::fill_n(s.mask.begin() + 48 + 5 * 8, 8, std::uint8_t{0});
             s.args.mask = s.mask.data();
           },
           {"1 of 24 rows may attend no key", "a mask is not 0", "batch 0, head 1, row 5"}),
      told("a causal offset before all keys",
           [](Sample& s) {
             s.desc.causal = HEED_CAUSAL_OFFSET;
             s.desc.causal_offset = -2;
           },
           {"8 of 24 rows may attend no key", "batch 0, head 0, row 0"}),
      told("decoding from the top left", [](Sample& s) { s.desc.causal = HEED_CAUSAL_TOP_LEFT; },
           {"the keys 6 to 7", "HEED_CAUSAL_BOTTOM_RIGHT"}),
      fine("decoding from the bottom right",
           [](Sample& s) { s.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT; }),
      told("int64 lengths",
           [](Sample& s) {
             s.lengths[0] = 5;
             s.args.key_lengths = s.lengths;
           },
           {"every second number of args.key_lengths is 0", "int64"}),
      told("int64 offsets",
           [](Sample& s) {
             s.desc.packed_queries = 6;
             s.lengths[2] = 6;
             s.args.cu_seqlens_q = s.lengths;
           },
           {"every second number of args.cu_seqlens_q is 0", "int64"}),
      told("offsets that end before the tensor does",
           [](Sample& s) {
             s.desc.packed_keys = 12;
             s.lengths[1] = 5, s.lengths[2] = 11;
             s.args.cu_seqlens_k = s.lengths;
           },
           {"args.cu_seqlens_k goes from 0 to 11", "desc.packed_keys is 12"}),
      told("the root as the scale", [](Sample& s) { s.desc.scale = 2; },
           {"desc.scale is 2", "0.5"}),
  });
}
