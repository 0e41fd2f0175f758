// What precision asks of products and blocks: `exact` has the bits of float32 kernels whatever
// units there are; by `default` bfloat16 multiplies in pairs, and lies between the products of a
// block, and other types are multiplied in parts where there are any, two of float32 with `high`;
// `medium` rounds float32 and float16 to it.
#include <cstring>

#include "tests/multihead/copies.hpp"
#include "tests/support/precision.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

/// A random block whose inputs and matrices are bfloat16, biases and out of any type.
Block in_bfloat16(const Block& block) {
  BlockChoice choice = block.choice;
  choice.dtype_query = choice.dtype_key = HEED_DTYPE_BF16;
  for (MatrixChoice* const w : matrices_of(choice)) w->dtype = HEED_DTYPE_BF16;
  return remade(block, choice);
}

/// Calls check(block) for random blocks that are not float64.
template <class Check>
void for_each_block(std::size_t blocks, Check&& check) {
  check_drawn<RandomBlocks>(blocks, blocks / 2, [&](Block& block, std::uint64_t) {
    if (is_float64(block.attention.desc)) return false;
    check(block);
    return true;
  });
}

void check_medium(Block& block) {
  const Expected want = block.expected_medium();
  for_each_with_pairs([&](const char* isa, const char*) {
    const Outputs got = block.run_all(context_of(isa, HEED_PRECISION_MEDIUM));
    CHECK(check_outputs(block, isa, got, want, Unspecified::kAllowed).worst() <= 1);
  });
}

void check_high(Block& block) {
  for_each_with_parts([&](const char* isa) {
    const Expected want = block.expected_high();
    const Outputs got = block.run_all(context_of(isa, HEED_PRECISION_HIGH));
    CHECK(check_outputs(block, isa, got, want, Unspecified::kAllowed).worst() <= 1);
  });
}

std::array<Weights, 4> prepared_of(const Block& block, const Context& context) {
  BlockChoice choice = block.choice;
  for (MatrixChoice* const w : matrices_of(choice)) w->prepared = true;
  const Block from = remade(block, choice);
  return {from.w_query.prepare(context), from.w_key.prepare(context), from.w_value.prepare(context),
          from.w_out->prepare(context)};
}

/// The status of a run with these matrices.
heed_status run_with(Block& block, const std::array<Weights, 4>& prepared, const Context& context) {
  const heed_multihead_desc desc = block.desc();
  heed_multihead_args args = block.args(prepared);
  args.w_query = args.w_key = args.w_value = args.w_out = nullptr;
  args.b_query = args.b_key = args.b_value = args.b_out = nullptr;
  block.out.clear();
  return heed_multihead(context.get(), &desc, &args);
}

Block self_attention(std::uint32_t dtype, Index rows = 29) {
  BlockChoice choice = choice_of(dtype);
  choice.self = true;
  choice.width_query = choice.width_key = 150;
  choice.width_out = 70;
  Block block = plain_block(rows, rows, 4, 20, choice, 2, 2, 18);
  block.fill(77, 0.7);
  return block;
}

std::size_t bytes_of(const Weights& weights) {
  heed_weights_info info = HEED_WEIGHTS_INFO_INIT;
  require_ok(heed_weights_describe(weights.get(), &info));
  return info.bytes;
}

/// A block is its products around attention, bit for bit.
void check_composed(const char* isa, std::uint32_t dtype) {
  const Context context = make_context(isa);
  Block block = self_attention(dtype, 53);
  const Numbers want = block.run_all(context).out;
  const std::array<Weights, 4> w = prepared_of(block, context);
  Problem& a = block.attention;
  const Index rows = 53, batch = 2;
  const auto project = [&](const heed_weights* weights, const Tensor& x, Tensor& y) {
    heed_project_desc desc = HEED_PROJECT_DESC_INIT;
    desc.batch = batch;
    desc.rows = rows;
    desc.x.dtype = desc.y.dtype = dtype;
    require_ok(heed_project(context.get(), &desc, weights, x.data(), y.data()));
  };
  const auto tensor = [&](Index width) {
    return Tensor({batch, 1, rows, width},
                  strides_of(Arrangement::kContiguous, {batch, 1, rows, width}), 0, dtype);
  };
  Tensor q = tensor(4 * 20), k = tensor(2 * 20), v = tensor(2 * 18), heads = tensor(4 * 18);
  project(w[0].get(), block.input_query, q);
  project(w[1].get(), block.input_query, k);
  project(w[2].get(), block.input_query, v);
  heed_attention_desc desc = a.desc;
  const auto lies = [&](Index features, Index count) {
    return heed_layout{dtype, 0, rows * count * features, features, count * features, 1};
  };
  desc.query = lies(20, 4);
  desc.key = lies(20, 2);
  desc.value = lies(18, 2);
  desc.out = lies(18, 4);
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = q.data();
  args.key = k.data();
  args.value = v.data();
  args.out = heads.data();
  require_ok(heed_attention(context.get(), &desc, &args));
  block.out.clear();
  project(w[3].get(), heads, block.out);
  check_same(isa, block.out.numbers(), want);
  BlockChoice choice = block.choice;
  choice.combine = HEED_COMBINE_HEADS;
  choice.dtype_out = dtype;
  check_same(isa, remade(block, choice).run_all(context).out, heads.numbers());
}

}  // namespace

TEST_CASE("exact: blocks of bfloat16 have the bits of the kernels without pairs", "[precision]") {
  for_each_with_pairs([](const char* isa, const char* plain) {
    if (plain == nullptr) return;  // it is the only one that is tested
    const Context exact = context_of(isa, HEED_PRECISION_EXACT);
    std::size_t rounded = 0;
    for_each_block(150, [&](const Block& drawn) {
      Block block = in_bfloat16(drawn);
      const Outputs want = block.run_all(plain);
      check_same(isa, block.run_all(exact), want);
      rounded += same_bits(block.run_all(isa).out, want.out) ? 0 : 1;
    });
    CHECK((small() || rounded > 0));  // the unit was used
  });
}

TEST_CASE("default: random blocks of bfloat16 with any options", "[precision]") {
  for_each_block(400, [](const Block& drawn) {
    Block block = in_bfloat16(drawn);
    const Expected want = block.expected();
    for_each_with_pairs([&](const char* isa, const char*) {
      CHECK(check_outputs(block, isa, block.run_all(isa), want, Unspecified::kAllowed).worst() <=
            1);
    });
  });
}

TEST_CASE("medium: random blocks with any options", "[precision]") {
  for_each_block(300, check_medium);
}

TEST_CASE("default, high: random blocks by parts, with any options", "[precision]") {
  for_each_with_parts([](const char* isa) {
    for_each_block(300, [&](Block& block) {
      const Outputs got = block.run_all(isa);
      CHECK(check_outputs(block, isa, got, block.expected(), Unspecified::kAllowed).worst() <= 1);
      check_high(block);
    });
  });
}

TEST_CASE("products wider and longer than what is multiplied at a time", "[precision]") {
  const IsaContexts contexts;
  std::size_t index = 0;
  const Index rows = small() ? 21 : 53;
  for (const Index width : {31, 127, 300, 257})
    for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F32, HEED_DTYPE_F16}) {
      const bool prepared = index % 2 != 0;
      if (!keep_of_few(index++)) continue;
      BlockChoice choice = choice_of(dtype);
      choice.dtype_out = HEED_DTYPE_F32;
      choice.width_query = width;
      choice.width_key = width + 1;
      choice.width_out = 2 * width + 3;
      for (MatrixChoice* const w : matrices_of(choice)) {
        w->prepared = prepared;
        w->arrangement = prepared ? Arrangement::kTransposed : Arrangement::kDefault;
      }
      Block block = plain_block(rows, rows + 24, 3, 23, choice, 2, 1);
      block.fill(static_cast<std::uint64_t>(width), 0.3);
      block.attention.want_lse();
      check_block(block, contexts);
      check_medium(block);
      check_high(block);
    }
}

TEST_CASE(
    "pairs: a matrix prepared for any precision and instruction set has the bits of a raw one",
    "[precision]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F32}) {
    Block block = self_attention(dtype);
    std::vector<Context> contexts;
    for (const char* const isa : isa_names())
      for (const heed_precision precision : {HEED_PRECISION_EXACT, HEED_PRECISION_DEFAULT})
        contexts.push_back(context_of(isa, precision));
    for (const Context& from : contexts) {
      const std::array<Weights, 4> prepared = prepared_of(block, from);
      for (const Context& context : contexts) {
        const Numbers want = block.run_all(context).out;
        require_ok(run_with(block, prepared, context));
        check_same("prepared elsewhere", block.out.numbers(), want);
      }
    }
  }
}

TEST_CASE("pairs: a prepared matrix of bfloat16 is half as large", "[precision]") {
  for_each_with_pairs([](const char* isa, const char*) {
    BlockChoice choice = choice_of(HEED_DTYPE_BF16);
    choice.width_query = choice.width_key = 320;
    const Block block = plain_block(5, 5, 4, 32, choice);
    const auto bytes = [&](heed_precision precision) {
      return bytes_of(prepared_of(block, context_of(isa, precision))[0]);
    };
    CHECK(bytes(HEED_PRECISION_EXACT) == (320 + 1) * 128 * 4);  // numbers, and a bias
    CHECK(bytes(HEED_PRECISION_DEFAULT) == (320 / 2 + 1) * 128 * 4);
  });
}

TEST_CASE("medium: a matrix that was rounded is refused where it must not be", "[precision]") {
  for_each_with_pairs([](const char* isa, const char*) {
    const Context medium = context_of(isa, HEED_PRECISION_MEDIUM);
    Block block = self_attention(HEED_DTYPE_F32);
    const std::array<Weights, 4> rounded = prepared_of(block, medium);
    const Numbers want = block.run_all(medium).out;
    require_ok(run_with(block, rounded, medium));
    check_same("medium", block.out.numbers(), want);
    for (const heed_precision precision : {HEED_PRECISION_EXACT, HEED_PRECISION_DEFAULT}) {
      CHECK(run_with(block, rounded, context_of(isa, precision)) == HEED_STATUS_INVALID_ARGUMENT);
      CHECK(std::strcmp(heed_last_error(),
                        "args.p_query is prepared with a context whose precision is \"medium\", "
                        "which rounded it to bfloat16; this plan does not round matrices") == 0);
    }
    // Nothing of bfloat16 is lost.
    Block given = self_attention(HEED_DTYPE_BF16);
    const std::array<Weights, 4> as_it_is = prepared_of(given, medium);
    CHECK(run_with(given, as_it_is, context_of(isa, HEED_PRECISION_DEFAULT)) == HEED_STATUS_OK);
  });
}

TEST_CASE("what is not finite, subnormal or too large follows the rules", "[precision]") {
  const IsaContexts contexts;
  const double tokens[] = {kInfinity, -kInfinity, kNaN, 0x1p-129, 3e38, -3.4e38};
  std::size_t index = 0;
  for (const double special : tokens)
    for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F32})
      for (const int place : {0, 1, 2, 3}) {
        if (!keep_of_few(index++)) continue;
        INFO(special << ", place " << place << ", " << name_of_dtype(dtype));
        Block block = self_attention(dtype, small() ? 9 : 29);
        block.attention.want_lse();
        if (place == 0) {
          block.input_query.set_where(
              [](const Axes& at) { return at[2] % 13 == 5 && at[3] % 4 == 1; }, special);
        } else {
          WeightMatrix* const matrices[] = {&block.w_query, &block.w_value, &*block.w_out};
          matrices[place - 1]->set(0, 3, 7, special);
        }
        check_block(block, contexts, nullptr, Unspecified::kAllowed);
        if (dtype == HEED_DTYPE_F32) check_medium(block);
      }
}

TEST_CASE("pairs, parts: a block is its products around attention, bit for bit", "[precision]") {
  for_each_with_pairs([](const char* isa, const char*) { check_composed(isa, HEED_DTYPE_BF16); });
  for (const char* const isa : isa_names()) check_composed(isa, HEED_DTYPE_F32);
}

TEST_CASE("blocks say what precision is in effect", "[precision]") {
  for (const char* const isa : isa_names())
    for (const heed_precision asked :
         {HEED_PRECISION_EXACT, HEED_PRECISION_DEFAULT, HEED_PRECISION_HIGH, HEED_PRECISION_MEDIUM})
      for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_F32}) {
        INFO(isa << ", precision " << asked << ", " << name_of_dtype(dtype));
        const bool pairs =
            multiplies_pairs(isa) && (dtype == HEED_DTYPE_BF16 || asked == HEED_PRECISION_MEDIUM);
        const bool multiplies = (pairs || multiplies_parts(isa)) && asked != HEED_PRECISION_EXACT;
        heed_precision want = multiplies ? asked : HEED_PRECISION_EXACT;
        if (pairs && want == HEED_PRECISION_HIGH) want = HEED_PRECISION_DEFAULT;
        const Context context = context_of(isa, asked);
        CHECK(describe(make_plan(context, self_attention(dtype).desc())).precision == want);
      }
}
