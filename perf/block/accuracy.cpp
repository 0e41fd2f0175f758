#include <algorithm>
#include <cmath>
#include <cstdint>

#include "perf/block/problem.hpp"

// How far out may be off. The oracle's bound, which holds in the worst case, would say nothing:
// sums of a thousand products, four in a row, could be off by more than they are worth. So
// roundings are taken for what they are like, a random walk (Higham and Mary, 2019): a sum of n
// products, about `size` large, is off by walk(n) size at most, walk(n) = 8 sqrt(n) u. That is 8
// standard deviations, with u the unit roundoff of the arithmetic. Such errors meet as independent
// numbers do, too: an inner product with them is off by its other side's norm times their size.
//
// All tensors are normal with variance 1, matrices with variance 1 / rows. So elements of Q, K and
// V have the variance s^2 = 1, or 2 with biases.
//
// 1. Elements of Q, K and V are off by walk(W) s.
// 2. Scores are off by x = scale (|k| e_q + |q| e_k + walk(D) |q| |k|), where norms are s sqrt(D):
//    x = s^2 (2 walk(W) + sqrt(D) walk(D)). No option makes that more (softcap makes it less).
// 3. Weights are off by a factor e^2x, and sums over n keys by walk(n): every element of a head's
//    result by b = (expm1(2 x) + walk(n)) s + walk(W) s.
// 4. A column of W_out has the norm 1, and out is at most s + 1 large: it is off by
//    b + walk(H Dv) (s + 1), and once by rounding to its type.
//
// Where input_query is bfloat16, Q, K, V and heads may be rounded to it, and weights: each number
// by 2^-8 of itself at most, which is r = 5 * 2^-8 of s, 8 standard deviations of an even
// distribution. To elements of Q, K and V in 1 to 3 that adds r s, to a head's weights r, and to
// the heads in 4.

namespace heed::perf {
namespace {

constexpr std::int64_t kRows = 16;

double tolerance(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  const double unit = oracle::format_of(oracle::real_dtype(d)).unit;
  const auto walk = [&](std::int64_t n) { return 8 * std::sqrt(static_cast<double>(n)) * unit; };
  const bool rounds = d.query.dtype == HEED_DTYPE_BF16;
  const double kept = rounds ? 5 * 0x1p-8 : 0;
  const double variance = workload.projection_biases ? 2 : 1;
  const double size = std::sqrt(variance);
  const double root = std::sqrt(static_cast<double>(d.features));
  const double scores = variance * (2 * (walk(workload.width) + kept) + root * walk(d.features));
  const double head =
      (std::expm1(2 * scores) + walk(d.key_length) + walk(workload.width) + 3 * kept) * size;
  return head + walk(d.query_heads * d.value_features) * (size + 1);
}

}  // namespace

Accuracy check_accuracy(const Workload& workload, oracle::Block& tested) {
  const heed_attention_desc& d = workload.desc;
  const std::int64_t last = d.batch - 1;
  oracle::GivenBlock block = tested.given();
  block.attention.batch = 1;
  if (workload.padding) block.attention.mask.batch = 1;
  block.attention.weights_point = HEED_WEIGHTS_NONE;
  block.attention.sum_columns = 0;
  block.tells_parts = false;
  if (block.arguments.key_lengths != nullptr) block.arguments.key_lengths += last;
  for (oracle::Source* const input : {&block.input_query, &block.input_key})
    input->data = static_cast<const char*>(input->data) +
                  last * input->strides.batch * oracle::format_of(input->dtype).bytes;
  block.exact_projections = true;
  const std::int64_t count = std::min(kRows, d.query_length);
  for (std::int64_t n = 0; n < count; ++n)
    block.rows.push_back(count > 1 ? n * (d.query_length - 1) / (count - 1) : 0);
  const oracle::Expected want = oracle::expect(block);
  const double bound = tolerance(workload);
  Accuracy accuracy;
  for (const std::int64_t i : block.rows)
    for (std::int64_t o = 0; o < workload.width; ++o) {
      const double value = want.out[static_cast<std::size_t>(i * workload.width + o)].value;
      accuracy.compare(tested.out.get({last, 0, i, o}),
                       oracle::stored(value, bound, tested.out.dtype(), oracle::real_dtype(d)));
    }
  return accuracy;
}

}  // namespace heed::perf
