// Gradients of blocks: every combiner, option, type and shape, against the oracle.
#include "tests/multihead/copies.hpp"
#include "tests/multihead/gradients.hpp"

using namespace heed_test;

namespace {

/// What a block's attention may have.
struct Option {
  const char* name;
  void (*set)(Problem&);
};
const Option kOptions[] = {
    {"plain", [](Problem&) {}},
    {"causal", [](Problem& p) { p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT; }},
    {"softcap", [](Problem& p) { p.desc.softcap = 5; }},
    {"scale and temperature",
     [](Problem& p) {
       p.desc.scale = 0.4;
       p.desc.temperature = 1.5;
     }},
    {"sinks",
     [](Problem& p) {
       for (Index h = 0; h < p.desc.query_heads; ++h)
         p.sinks.numbers.push_back(0.3 * static_cast<double>(h) - 0.5);
     }},
    {"slopes",
     [](Problem& p) {
       p.desc.alignment = HEED_ALIGNMENT_TOP_LEFT;
       for (Index h = 0; h < p.desc.query_heads; ++h)
         p.slopes.numbers.push_back(0.1 * static_cast<double>(h + 1));
     }},
    {"bias",
     [](Problem& p) {
       Random random(5);
       p.add_bias({1, p.desc.query_heads, p.desc.query_length, p.desc.key_length}).fill([&] {
         return random.normal();
       });
     }},
    {"mask",
     [](Problem& p) {
       p.add_mask({1, 1, p.desc.query_length, p.desc.key_length}).fill([](const Axes& at) {
         return at[2] % 4 == 0 || (at[2] + at[3]) % 3 == 0 ? 0 : 1;
       });
     }},
    {"lengths",
     [](Problem& p) { p.key_lengths.assign(static_cast<std::size_t>(p.desc.batch), 7); }},
    {"function", [](Problem& p) { p.function = score_function<Bend>(); }}};

Block block_of(std::uint32_t combine, std::uint32_t dtype, bool self = false, Index queries = 11,
               Index keys = 17) {
  BlockChoice choice = choice_of(dtype);
  choice.combine = combine;
  choice.self = self;
  choice.width_query = 13;
  choice.width_key = self ? 13 : 9;
  choice.width_out = 10;
  Block block = plain_block(queries, self ? queries : keys, 4, 6, choice, 2, 2, 5);
  block.fill(30 + combine);
  return block;
}

const std::uint32_t kTypes[] = {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16, HEED_DTYPE_F16};

}  // namespace

TEST_CASE("the gradients of every combiner, in every type", "[backward]") {
  Report report("gradients of combiners");
  std::size_t index = 0;
  for (const std::uint32_t combine : kCombiners)
    for (const std::uint32_t dtype : kTypes)
      for (const bool self : {false, true}) {
        if (!keep_of_few(index++)) continue;
        BlockBackward p = all_gradients_of(block_of(combine, dtype, self));
        check_backward(p, &report);
        p.accumulate(8);
        check_backward(p, &report);
      }
}

TEST_CASE("the gradients of every option of the attention in a block", "[backward]") {
  Report report("gradients of options in blocks");
  std::size_t index = 0;
  for (const Option& option : kOptions)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
      if (!keep_of_few(index++)) continue;
      Block block = block_of(HEED_COMBINE_CONCAT, dtype);
      option.set(block.attention);
      INFO(option.name);
      BlockBackward p = all_gradients_of(std::move(block));
      check_backward(p, &report);
    }
}

TEST_CASE("a gradient of a block has the same bits alone as beside others", "[backward][same]") {
  for (const std::uint32_t combine : kCombiners) {
    Block block = block_of(combine, HEED_DTYPE_F32, combine == HEED_COMBINE_MEAN);
    for (const Option& option : kOptions)
      if (std::string(option.name) == "sinks" || std::string(option.name) == "bias")
        option.set(block.attention);
    BlockBackward p = all_gradients_of(std::move(block));
    const Context& context = plain_contexts()[plain_contexts().size() - 1];
    const BlockGradients all = p.run(context);
    for (const BlockGradientOf gradient : all_block_gradients()) {
      if (!p.can_want(gradient)) continue;
      p.want_nothing();
      p.want(gradient);
      check_same(std::string(name_of_combine(combine)) + ", " + name_of(gradient),
                 p.run(context)[gradient], all[gradient]);
    }
  }
}

TEST_CASE("gradients of blocks of every shape", "[backward][shapes]") {
  Report report("gradients of blocks' shapes");
  std::size_t index = 0;
  for (const Index queries : {1, 7, 23, 77})
    for (const Index keys : {1, 7, 77, 197})
      for (const Index width : {1, 16, 33}) {
        if (!keep(index++) || (queries + keys > 100 && index % 3 != 0)) continue;
        BlockChoice choice;
        choice.combine = kCombiners[index % std::size(kCombiners)];
        choice.width_query = width;
        choice.width_key = width + 3;
        choice.width_out = width + 1;
        Block block = plain_block(queries, keys, 3, width, choice, 1, 1, 7);
        block.fill(index);
        BlockBackward p = all_gradients_of(std::move(block));
        check_backward(p, &report);
      }
}

TEST_CASE("the gradient of a matrix over more rows than a product takes", "[backward][large]") {
  if (small()) return;
  BlockChoice choice;
  choice.width_query = choice.width_key = choice.width_out = 5;
  choice.self = true;
  Block block = plain_block(9, 9, 1, 4, choice, 500);
  block.fill(3);
  BlockBackward p = all_gradients_of(std::move(block));
  check_backward(p);
}

TEST_CASE("16-bit gradients of blocks are float32 ones, rounded once", "[backward][same]") {
  for (const std::uint32_t combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_TENSOR, HEED_COMBINE_MAX})
    for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
      BlockBackward p = all_gradients_of(block_of(combine, HEED_DTYPE_F32));
      const std::vector<BlockGradientOf> some = {kBlockInputQuery, kBlockInputKey, kBlockWQuery,
                                                 kBlockWKey,       kBlockWValue,   kBlockBQuery,
                                                 kBlockBKey,       kBlockBValue};
      const BlockGradients wide = p.run(plain_contexts()[0]);
      for (const BlockGradientOf gradient : some) p.want(gradient, {dtype});
      const BlockGradients narrow = p.run(plain_contexts()[0]);
      for (const BlockGradientOf gradient : some) {
        INFO(name_of_combine(combine) << ", " << name_of(gradient));
        bool same = wide[gradient].size() == narrow[gradient].size();
        for (std::size_t i = 0; same && i < wide[gradient].size(); ++i)
          same = encode(dtype, wide[gradient][i]) == narrow[gradient].bits[i];
        CHECK(same);
      }
    }
}

TEST_CASE("one input as both gets the sum of both gradients", "[backward]") {
  Block self = block_of(HEED_COMBINE_CONCAT, HEED_DTYPE_F64, true);
  BlockChoice choice = self.choice;
  choice.self = false;
  Block apart(self.attention, choice);
  apart.fill(1);
  copy_numbers(self.input_query, apart.input_query);
  copy_numbers(self.input_query, *apart.input_key);
  copy_matrices(self, apart);
  BlockBackward one = all_gradients_of(std::move(self));
  BlockBackward two = all_gradients_of(std::move(apart));
  const BlockGradients sum = one.run(plain_contexts()[0]);
  const BlockGradients parts = two.run(plain_contexts()[0]);
  for (std::size_t i = 0; i < sum[kBlockInputQuery].size(); ++i)
    CHECK(std::fabs(sum[kBlockInputQuery][i] - parts[kBlockInputQuery][i] -
                    parts[kBlockInputKey][i]) < 1e-13);
  check_same("grad_w_key", sum[kBlockWKey], parts[kBlockWKey]);
}

// Of 9 rows, 2 to 5 belong to queries and keys, 0, 1, 6 and 7 to keys alone, and 8 to nobody.
TEST_CASE("one packed input has gradients of rows that are keys alone", "[backward]") {
  Sizes sizes = {3, 5, 6, 5};
  sizes.batch = 2;
  sizes.query_heads = 4;
  sizes.key_heads = 2;
  sizes.queries = {{2, 5, 6}, 9};
  sizes.keys = {{0, 4, 8}, 9};
  BlockChoice choice = choice_of(HEED_DTYPE_F32);
  choice.self = true;
  choice.width_query = choice.width_key = 7;
  choice.width_out = 8;
  Block block(Problem(sizes), choice);
  block.fill(3);
  BlockBackward p = all_gradients_of(std::move(block));
  check_backward(p);
  p.accumulate(4);
  check_backward(p);
}

TEST_CASE("a run that keeps has the same out and lse", "[backward][same]") {
  for (const std::uint32_t combine : kCombiners)
    for (const Index queries : {3, 16, 48}) {
      Block block = block_of(combine, HEED_DTYPE_F32, false, queries);
      for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
        block.attention.want_lse(dtype);
        for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
          const Context& context = plain_contexts()[n];
          const Outputs want = block.run_all(context);
          heed_multihead_desc desc = block.desc();
          desc.keep = 1;
          const MultiheadPlan plan = make_plan(context, desc);
          Workspace kept(describe(plan).kept_bytes);
          CHECK(kept.bytes() > 0);
          heed_multihead_args args = block.args();
          args.kept = kept.get();
          args.kept_bytes = kept.bytes();
          block.out.clear();
          block.attention.lse->clear();
          require_ok(heed_multihead(context.get(), &desc, &args));
          CHECK(kept.intact());
          check_same("out", block.out.numbers(), want.out);
          check_same("lse", block.attention.lse->numbers(), want.lse);
        }
      }
    }
}

TEST_CASE("blocks without rows, keys or batches have gradients of 0, or none", "[backward][zero]") {
  struct Case {
    Index batch, queries, keys;
  };
  for (const Case& c : {Case{2, 0, 5}, Case{2, 5, 0}, Case{0, 5, 5}, Case{2, 0, 0}})
    for (const std::uint32_t combine : kCombiners) {
      BlockChoice choice;
      choice.combine = combine;
      Block block = plain_block(c.queries, c.keys, 2, 3, choice, c.batch);
      block.fill(2);
      BlockBackward p = all_gradients_of(std::move(block));
      check_backward(p);
      const BlockGradients got = p.run(plain_contexts()[0]);
      for (const BlockGradientOf gradient : {kBlockWQuery, kBlockWKey, kBlockBKey, kBlockScale}) {
        CHECK(got[gradient].size() > 0);
        for (std::size_t i = 0; i < got[gradient].size(); ++i) CHECK(got[gradient][i] == 0);
      }
    }
}

TEST_CASE("of equal heads the first has the gradient of the largest", "[backward]") {
  Block block = block_of(HEED_COMBINE_MAX, HEED_DTYPE_F32);
  // All heads share one matrix, so that they are the same.
  block.w_value.each([&](Index m, Index i, Index o) { block.w_value.set(m, i, o, 1); });
  block.w_value.bias->fill([] { return 0; });
  block.w_query.fill_identity();
  block.w_query.each([&](Index m, Index i, Index o) { block.w_query.set(m, i, o, 0); });
  BlockBackward p = all_gradients_of(std::move(block));
  const BlockGradients got = p.run(plain_contexts()[0]);
  for (std::size_t i = 0; i < got[kBlockBValue].size(); ++i)
    CHECK((got[kBlockBValue][i] == 0) == (i >= 5));  // the other key head's features
}
