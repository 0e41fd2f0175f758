// How a block is run changes no bit of any output.
#include "tests/multihead/copies.hpp"
#include "tests/support/executors.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

/// Enough work for several threads: every product is cut into tasks.
Block large_block(std::uint32_t combine, std::uint32_t dtype) {
  BlockChoice choice = choice_of(dtype);
  choice.combine = combine;
  choice.self = true;
  choice.width_query = choice.width_key = 150;
  choice.width_out = 140;
  Block block = plain_block(small() ? 60 : 170, small() ? 60 : 170, 6, 32, choice, 2, 3, 30);
  block.fill(51, 0.7);
  block.attention.want_lse();
  return block;
}

}  // namespace

TEST_CASE("threads and executors change the bits of no block", "[same][threads]") {
  for (const std::uint32_t combine : kCombiners)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16}) {
      if (small() && dtype != HEED_DTYPE_F32) continue;
      Block block = large_block(combine, dtype);
      for (const char* const isa : isa_names()) {
        INFO(isa << ", " << name_of_combine(combine) << ", " << name_of_dtype(dtype));
        const Outputs want = block.run_all(isa);
        each_executor(isa, [&](const std::string& name, const Context& context) {
          check_same(name, block.run_all(context), want);
        });
      }
    }
}

TEST_CASE("threads and executors change the bits of no small block", "[same][threads]") {
  std::vector<IsaContexts> others;
  for (std::size_t i = 0; i < heed_executor_count(); ++i)
    others.emplace_back(Choices{heed_executor_name(i), i == 0 ? 1U : 3U, 1, 1});
  const IsaContexts plain;
  check_drawn<RandomBlocks>(150, 150, [&](Block& block, std::uint64_t seed) {
    const IsaContexts& other = others[seed % others.size()];
    for (std::size_t n = 0; n < plain.size(); ++n)
      check_same(IsaContexts::name(n), block.run_all(plain[n]), block.run_all(other[n]));
    return true;
  });
}

TEST_CASE("an item of a batch is what it is alone", "[same]") {
  const IsaContexts contexts;
  std::size_t index = 0;
  for (const std::uint32_t combine :
       {HEED_COMBINE_CONCAT, HEED_COMBINE_WEIGHTED, HEED_COMBINE_MAX, HEED_COMBINE_TENSOR})
    for (const Index queries : {1, 11, 16, 24, 26, 48, 53}) {
      if (!keep(index++)) continue;
      BlockChoice choice;
      choice.combine = combine;
      choice.width_query = choice.width_key = 30;
      choice.width_out = 20;
      Block whole = plain_block(queries, 37, 4, 11, choice, 5, 2);
      whole.fill(57);
      for (std::size_t n = 0; n < contexts.size(); ++n) {
        whole.run_all(contexts[n]);
        for (const Index item : {0, 3, 4}) {
          INFO(IsaContexts::name(n) << ", item " << item << ", " << queries << " queries");
          Block alone = plain_block(queries, 37, 4, 11, choice, 1, 2);
          copy_numbers(whole.input_query, alone.input_query, item);
          copy_numbers(*whole.input_key, *alone.input_key, item);
          copy_matrices(whole, alone);
          alone.run_all(contexts[n]);
          bool same = true;
          alone.out.each([&](const Axes& at) {
            same = same && alone.out.get(at) == whole.out.get({item, 0, at[2], at[3]});
          });
          CHECK(same);
        }
      }
    }
}

TEST_CASE("the type of out does nothing but round it", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomBlocks>(150, 80, [&](Block& block, std::uint64_t) {
    if (is_float64(block.attention.desc)) return false;
    BlockChoice choice = block.choice;
    choice.dtype_out = HEED_DTYPE_F32;
    Block wide = remade(block, choice);
    const std::vector<Outputs> want = run_everywhere(wide, contexts);
    for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
      choice.dtype_out = dtype;
      Block narrow = remade(block, choice);
      for (std::size_t n = 0; n < contexts.size(); ++n) {
        const Numbers got = narrow.run_all(contexts[n]).out;
        bool same = got.size() == want[n].out.size();
        for (std::size_t i = 0; same && i < got.size(); ++i)
          same = got.written(i) == want[n].out.written(i) &&
                 (!got.written(i) || encode(dtype, want[n].out[i]) == got.bits[i] ||
                  (std::isnan(got[i]) && std::isnan(want[n].out[i])));
        CHECK(same);
      }
    }
    return true;
  });
}

TEST_CASE("outputs that are asked for change the bits of none", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomBlocks>(100, 80, [&](Block& block, std::uint64_t seed) {
    Problem& attention = block.attention;
    const bool soft = attention.desc.hard == 0;
    attention.want_nothing_else();
    const std::vector<Outputs> alone = run_everywhere(block, contexts);
    if (soft) attention.want_lse();
    attention.want_weights(static_cast<heed_weights_point>(1 + seed % 4));
    attention.want_column_sums();
    const std::vector<Outputs> all = run_everywhere(block, contexts);
    for (std::size_t n = 0; n < contexts.size(); ++n)
      check_same(IsaContexts::name(n), all[n].out, alone[n].out);
    return soft;
  });
}

TEST_CASE("weights that are asked for change no bit where heads share keys", "[same]") {
  const IsaContexts contexts;
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const std::uint32_t causal : {HEED_CAUSAL_NONE, HEED_CAUSAL_TOP_LEFT}) {
      // Rows of a head alone fill one panel less than those of all that share its keys.
      Block block = large_block(HEED_COMBINE_CONCAT, dtype);
      block.attention.desc.causal = causal;
      const std::vector<Outputs> alone = run_everywhere(block, contexts);
      block.attention.want_weights(HEED_WEIGHTS_PROBABILITIES);
      const std::vector<Outputs> all = run_everywhere(block, contexts);
      for (std::size_t n = 0; n < contexts.size(); ++n)
        check_same(IsaContexts::name(n), all[n].out, alone[n].out);
    }
}

TEST_CASE("sizes at their defaults are those sizes", "[same]") {
  const IsaContexts contexts;
  for (const std::uint32_t combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_MEAN}) {
    BlockChoice choice;
    choice.combine = combine;
    choice.width_query = choice.width_key = choice.width_out = 12;
    Block block = plain_block(9, 14, 3, 5, choice, 2);
    block.fill(58);
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      const Outputs want = block.run_all(contexts[n]);
      heed_multihead_desc desc = block.desc();
      heed_attention_desc attention = *desc.attention;
      attention.key_heads = attention.value_features = 0;
      desc.attention = &attention;
      desc.width_key = desc.width_out = 0;
      heed_multihead_args args = block.args();
      args.attention = nullptr;  // nothing of it is used
      block.out.clear();
      require_ok(heed_multihead(contexts[n].get(), &desc, &args));
      check_same(IsaContexts::name(n), block.out.numbers(), want.out);
    }
  }
}
