// The oracle of blocks' gradients against differences of the oracle of blocks; heed itself has no
// part in it.
#include <cmath>

#include "tests/multihead/gradients.hpp"
#include "tests/problem/random_blocks.hpp"
#include "tests/support/differences.hpp"

using namespace heed_test;

namespace {

Loss loss_of(BlockBackward& p) {
  GivenBlock given = p.block.given();
  given.attention.lse = HEED_LAYOUT_INIT;
  given.attention.lse.dtype = HEED_DTYPE_F64;
  const Expected expected = expect(given);
  Loss loss;
  loss.add(p.grad_out, expected.out);
  if (p.grad_lse) loss.add(*p.grad_lse, expected.lse);
  return loss;
}

Direction of_matrix(WeightMatrix& w, Random& random) {
  std::vector<double> at_first;
  w.each([&](Index m, Index i, Index o) { at_first.push_back(w.get(m, i, o)); });
  const std::vector<double> along = drawn(at_first.size(), random);
  return {[=, &w](double step) {
            std::size_t n = 0;
            w.each([&](Index m, Index i, Index o) {
              w.set(m, i, o, at_first[n] + step * along[n]);
              ++n;
            });
          },
          along};
}

Direction direction_of(BlockGradientOf gradient, Block& b, Random& random) {
  heed_attention_desc& d = b.attention.desc;
  WeightMatrix* const matrices[] = {&b.w_query, &b.w_key, &b.w_value,
                                    b.w_out ? &*b.w_out : nullptr};
  if (gradient >= kBlockWQuery && gradient <= kBlockWOut)
    return of_matrix(*matrices[gradient - kBlockWQuery], random);
  if (gradient >= kBlockBQuery && gradient <= kBlockBOut)
    return of_tensor(*matrices[gradient - kBlockBQuery]->bias, random);
  switch (gradient) {
    case kBlockInputQuery:
      return of_tensor(b.input_query, random);
    case kBlockInputKey:
      return of_tensor(*b.input_key, random);
    case kBlockHeadWeights:
      return of_numbers(b.head_weights.numbers, random);
    case kBlockBias:
      return of_tensor(*b.attention.bias, random);
    case kBlockSinks:
      return of_numbers(b.attention.sinks.numbers, random);
    case kBlockSlopes:
      return of_numbers(b.attention.slopes.numbers, random);
    case kBlockScale:
      return of_number(d.scale,
                       d.scale != 0 ? d.scale : 1 / std::sqrt(static_cast<double>(d.features)));
    default:
      return of_number(d.temperature, d.temperature != 0 ? d.temperature : 1);
  }
}

bool can_move(BlockGradientOf gradient, const BlockBackward& p) {
  const Block& b = p.block;
  if (gradient >= kBlockBQuery && gradient <= kBlockBOut) {
    const WeightMatrix* const matrices[] = {&b.w_query, &b.w_key, &b.w_value,
                                            b.w_out ? &*b.w_out : nullptr};
    const WeightMatrix* const w = matrices[gradient - kBlockBQuery];
    return w != nullptr && w->bias;
  }
  if (gradient == kBlockTemperature && !std::isfinite(b.attention.desc.temperature)) return false;
  return p.can_want(gradient);
}

/// A block of float64 whose numbers are finite; no score function has a corner.
bool has_differences(const Block& b) {
  const Problem& a = b.attention;
  const auto modest = [](const Tensor& tensor) {
    bool all = true;
    tensor.each([&](const Axes& at) { all = all && std::fabs(tensor.get(at)) <= 100; });
    return all;
  };
  const auto modest_matrix = [](const WeightMatrix& w) {
    bool all = true;
    w.each([&](Index m, Index i, Index o) { all = all && std::fabs(w.get(m, i, o)) <= 100; });
    return all;
  };
  bool fine = b.real == HEED_DTYPE_F64 && modest(b.input_query) && modest_matrix(b.w_query) &&
              modest_matrix(b.w_key) && modest_matrix(b.w_value);
  if (b.input_key) fine = fine && modest(*b.input_key);
  if (b.w_out) fine = fine && modest_matrix(*b.w_out);
  if (a.bias) {
    bool moves = a.bias->dtype() == HEED_DTYPE_F64;
    a.bias->each([&](const Axes& at) {
      const double x = a.bias->get(at);
      moves = moves && (std::fabs(x) <= 100 || x == -kInfinity);
    });
    fine = fine && moves;
  }
  for (const auto* const numbers : {&a.sinks.numbers, &a.slopes.numbers})
    for (const double x : *numbers) fine = fine && std::fabs(x) <= 300;
  return fine && a.function.name != score_function<Ceiling>().name;
}

}  // namespace

TEST_CASE("gradients of blocks are what differences say", "[backward][oracle]") {
  std::array<Seen, kBlockGradients> seen;
  std::size_t blocks = 0;
  for (std::uint64_t seed = 1; blocks < count(60); ++seed) {
    Block block = RandomBlocks(seed, true).draw();
    if (!has_differences(block)) continue;
    ++blocks;
    BlockBackward p(std::move(block), seed);
    if (seed % 3 != 0) p.give_grad_lse(seed + 1);
    p.want_all();
    INFO("seed " << seed << ": " << line_of(p));
    const ExpectedBlockGradients want = p.expected();
    Random random(seed ^ 0xd1ff);
    for (const BlockGradientOf gradient : all_block_gradients())
      if (can_move(gradient, p))
        check_slope(
            name_of(gradient), want[gradient], direction_of(gradient, p.block, random),
            [&] { return loss_of(p); }, seen[gradient]);
  }
  for (const BlockGradientOf gradient : all_block_gradients()) {
    INFO(name_of(gradient) << ": " << seen[gradient].tight << " tight ones of "
                           << seen[gradient].compared);
    CHECK((small() || seen[gradient].compared >= blocks / 20));
    CHECK((small() || seen[gradient].tight * 2 >= seen[gradient].compared));
  }
}
