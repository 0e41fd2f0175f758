// Blocks next to what a caller without them would write: products in plain loops around the public
// dense call.
#include <functional>
#include <string>

#include "tests/multihead/checks.hpp"
#include "tests/multihead/plain.hpp"

using namespace heed_test;

namespace {

/// Projects into a tensor [batch, head, row, feature], in the tensor's type at the end.
void project(const Tensor& input, const WeightMatrix& w, Tensor& to) {
  to.each([&](const Axes& at) {
    to.set(at, projected(input, w, at[0], at[2], at[1] * to.shape()[3] + at[3]));
  });
}

/// The same attention over projections of its own.
Problem dense_of(const Block& block) {
  Problem problem = block.attention;
  project(block.input_query, block.w_query, problem.query);
  const Tensor& keys = block.input_key ? *block.input_key : block.input_query;
  project(keys, block.w_key, problem.key);
  project(keys, block.w_value, problem.value);
  return problem;
}

/// Both lie within the oracle's bounds of the exact result, so they are twice as far apart at most.
void check_by_hand(Block& block, const Context& context) {
  const std::vector<Element> bounds = block.expected().out;
  const Outputs got = block.run_all(context);
  Problem problem = dense_of(block);
  const Outputs dense = problem.run_all(context);
  std::size_t n = 0;
  std::size_t far = 0;
  block.out.each([&](const Axes& at) {
    const std::size_t i = n++;
    if (!bounds[i].written) return;
    const double want = combined(block, at[3], [&](Index h, Index x) {
      return problem.out.get({at[0], h, at[2], x});
    });
    far += distance(got.out[i], want, 2 * bounds[i].bound) <= 1 ? 0 : 1;
  });
  CHECK(far == 0);
  CHECK(got.lse.size() == dense.lse.size());
  CHECK(got.weights.size() == dense.weights.size());
}

struct Option {
  const char* name;
  std::function<void(Problem&)> set;
};

const std::vector<Option>& options() {
  static const std::vector<Option> all = {
      {"none", [](Problem&) {}},
      {"causal", [](Problem& p) { p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT; }},
      {"window",
       [](Problem& p) {
         p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
         p.desc.window = 1;
         p.desc.window_left = 3;
         p.desc.window_right = 2;
       }},
      {"mask",
       [](Problem& p) {
         Tensor& mask = p.add_mask({1, 1, p.desc.query_length, p.desc.key_length});
         mask.each([&](const Axes& at) { mask.set(at, (at[2] + 2 * at[3]) % 3 == 0 ? 0 : 1); });
       }},
      {"bias",
       [](Problem& p) {
         Tensor& bias = p.add_bias({1, p.desc.query_heads, 1, p.desc.key_length});
         bias.each(
             [&](const Axes& at) { bias.set(at, static_cast<double>((at[1] + at[3]) % 5) - 2); });
       }},
      {"lengths",
       [](Problem& p) {
         p.key_lengths = {5, static_cast<std::int32_t>(p.desc.key_length)};
       }},
      {"softcap", [](Problem& p) { p.desc.softcap = 2; }},
      {"slopes",
       [](Problem& p) {
         p.desc.alignment = HEED_ALIGNMENT_TOP_LEFT;
         p.slopes.numbers = {0.5, 0.25, 0.125, 0.0625};
       }},
      {"sinks",
       [](Problem& p) {
         p.sinks.numbers = {0.5, -1, 2, 0};
       }},
      {"temperature", [](Problem& p) { p.desc.temperature = 0.5; }},
      {"scale", [](Problem& p) { p.desc.scale = 0.7; }},
      {"outputs", [](Problem& p) {
         p.want_lse();
         p.want_weights(HEED_WEIGHTS_PROBABILITIES);
       }}};
  return all;
}

/// Inputs as wide as the heads together, every matrix the identity.
Block identity_block(const BlockChoice& from, Index heads, Index key_heads, Index features) {
  BlockChoice choice = from;
  choice.width_query = choice.width_out = heads * features;
  choice.width_key = key_heads * features;
  Block block = plain_block(31, 37, heads, features, choice, 2, key_heads);
  block.fill(11);
  for (WeightMatrix* const w : {&block.w_query, &block.w_key, &block.w_value}) w->fill_identity();
  if (block.w_out) block.w_out->fill_identity();
  return block;
}

/// The inputs read as heads: [batch, row, head, feature].
void cut_heads(const Tensor& input, Tensor& to) {
  const Index width = to.shape()[3];
  to.each([&](const Axes& at) { to.set(at, input.get({at[0], 0, at[2], at[1] * width + at[3]})); });
}

}  // namespace

TEST_CASE("a block is the dense call between products", "[composition]") {
  const IsaContexts contexts;
  std::size_t index = 0;
  for (const std::uint32_t combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_MEAN, HEED_COMBINE_MAX})
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
      for (const Option& option : options()) {
        if (!keep_of_few(index++)) continue;
        BlockChoice choice = choice_of(dtype);
        choice.combine = combine;
        choice.width_query = 20;
        choice.width_key = 18;
        choice.width_out = 10;
        Block block = plain_block(21, 26, 4, 7, choice, 2, 2, 9);
        option.set(block.attention);
        block.fill(combine + 5);
        for (std::size_t i = 0; i < contexts.size(); ++i) {
          INFO(IsaContexts::name(i) << ", " << name_of_combine(combine) << ", "
                                    << name_of_dtype(dtype) << ", " << option.name);
          check_by_hand(block, contexts[i]);
        }
      }
}

TEST_CASE("a block of identities is plain attention", "[composition]") {
  // Of blocks of bfloat16 others round in between (test_precision.cpp).
  Choices exact;
  exact.precision = HEED_PRECISION_EXACT;
  const IsaContexts contexts(exact);
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const Index key_heads : {1, 3}) {
      if (std::string(kind.name) == "mixed") continue;
      for (const Option& option : options()) {
        if (!keep_of_few(index++)) continue;
        if (option.name == std::string("sinks") || option.name == std::string("slopes")) continue;
        BlockChoice choice = choice_of(kind.types.query);
        choice.dtype_out = kind.types.query == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
        Block block = identity_block(choice, 3, key_heads, 12);
        option.set(block.attention);
        Sizes sizes = {31, 37, 12, 12, 2, 3, key_heads};
        sizes.types =
            block.attention.desc.query.dtype == HEED_DTYPE_F64 ? all_of(HEED_DTYPE_F64) : Types{};
        Problem dense(sizes);
        option.set(dense);
        cut_heads(block.input_query, dense.query);
        cut_heads(*block.input_key, dense.key);
        cut_heads(*block.input_key, dense.value);
        const Expected bounds = dense.expected_all();
        for (std::size_t i = 0; i < contexts.size(); ++i) {
          INFO(IsaContexts::name(i)
               << ", " << kind.name << ", " << key_heads << " key heads, " << option.name);
          const Outputs got = block.run_all(contexts[i]);
          const Outputs want = dense.run_all(contexts[i]);
          std::size_t n = 0;
          std::size_t far = 0;
          block.out.each([&](const Axes& at) {
            const Axes head = {at[0], at[3] / 12, at[2], at[3] % 12};
            const std::size_t k =
                static_cast<std::size_t>(((head[0] * 3 + head[1]) * 31 + head[2]) * 12 + head[3]);
            far += distance(got.out[n++], want.out[k], 2 * bounds.out[k].bound) <= 1 ? 0 : 1;
          });
          CHECK(far == 0);
          if (!dense.lse) continue;
          check_close("lse", got.lse, bounds.lse, want.lse, bounds.lse);
          check_close("weights", got.weights, bounds.weights, want.weights, bounds.weights);
        }
      }
    }
}

TEST_CASE("combiners of a single head leave it alone", "[composition]") {
  const IsaContexts contexts;
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16}) {
    BlockChoice choice = choice_of(dtype);
    choice.combine = HEED_COMBINE_MEAN;
    choice.width_out = 9;
    Block mean = plain_block(19, 23, 1, 5, choice, 2, 1, 9);
    mean.fill(21);
    for (const std::uint32_t combine :
         {HEED_COMBINE_WEIGHTED, HEED_COMBINE_MAX, HEED_COMBINE_CONCAT, HEED_COMBINE_TENSOR,
          HEED_COMBINE_HEADS}) {
      choice.combine = combine;
      Block other = plain_block(19, 23, 1, 5, choice, 2, 1, 9);
      other.fill(21);
      other.head_weights.numbers.assign(combine == HEED_COMBINE_WEIGHTED ? 1 : 0, 1);
      if (other.w_out) other.w_out->fill_identity();
      for (std::size_t i = 0; i < contexts.size(); ++i)
        check_same(std::string(IsaContexts::name(i)) + ", " + name_of_combine(combine),
                   other.run_all(contexts[i]).out, mean.run_all(contexts[i]).out);
    }
  }
}

TEST_CASE("a matrix per head is one matrix for all heads side by side", "[composition]") {
  const IsaContexts contexts;
  for (const bool prepared : {false, true}) {
    BlockChoice choice;
    choice.width_out = 21;
    choice.w_out.prepared = prepared;
    Block concat = plain_block(19, 23, 3, 5, choice, 2, 3, 9);
    concat.fill(22);
    for (const Arrangement arrangement : {Arrangement::kDefault, Arrangement::kTransposed,
                                          Arrangement::kBatchInside, Arrangement::kPadded}) {
      choice.combine = HEED_COMBINE_TENSOR;
      choice.w_out.arrangement = arrangement;
      Block tensor = plain_block(19, 23, 3, 5, choice, 2, 3, 9);
      tensor.fill(22);
      tensor.w_out->each([&](Index m, Index i, Index o) {
        tensor.w_out->set(m, i, o, concat.w_out->get(0, m * 9 + i, o));
      });
      tensor.w_out->bias.emplace(*concat.w_out->bias);
      for (std::size_t i = 0; i < contexts.size(); ++i)
        check_same(std::string(IsaContexts::name(i)) + ", " + name_of(arrangement),
                   tensor.run_all(contexts[i]).out, concat.run_all(contexts[i]).out);
    }
  }
}
