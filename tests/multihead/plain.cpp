#include "tests/multihead/plain.hpp"

#include <algorithm>
#include <cmath>

namespace heed_test {
namespace {

/// Rows of item b, times a matrix, plus its bias.
Rows project(const Tensor& input, Index b, const WeightMatrix& w) {
  Rows rows(static_cast<std::size_t>(input.shape()[2]));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (Index o = 0; o < w.out(); ++o) {
      double sum = w.bias ? w.bias->get({0, 0, 0, o}) : 0;
      for (Index f = 0; f < w.in(); ++f)
        sum += input.get({b, 0, static_cast<Index>(i), f}) * w.get(0, f, o);
      rows[i].push_back(sum);
    }
  return rows;
}

/// softmax(q k^T / sqrt(D)) v of columns of whole projections.
Rows attend(const Rows& q, const Rows& k, const Rows& v, std::size_t h, std::size_t g,
            std::size_t features, std::size_t width) {
  Rows out(q.size(), std::vector<double>(width, 0));
  for (std::size_t i = 0; i < q.size(); ++i) {
    double total = 0;
    for (std::size_t j = 0; j < k.size(); ++j) {
      double score = 0;
      for (std::size_t x = 0; x < features; ++x)
        score += q[i][h * features + x] * k[j][g * features + x];
      const double weight = std::exp(score / std::sqrt(static_cast<double>(features)));
      total += weight;
      for (std::size_t x = 0; x < width; ++x) out[i][x] += weight * v[j][g * width + x];
    }
    for (double& x : out[i]) x /= total;
  }
  return out;
}

/// Element o of row i of a combiner.
double combine(const Block& block, const std::vector<Rows>& heads, std::size_t i, Index o) {
  const auto at = [&](std::size_t h) { return heads[h][i][static_cast<std::size_t>(o)]; };
  double sum = block.w_out && block.w_out->bias ? block.w_out->bias->get({0, 0, 0, o}) : 0;
  double largest = -kInfinity;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const auto width = static_cast<Index>(heads[h][i].size());
    const auto n = static_cast<Index>(h);
    switch (block.choice.combine) {
      case HEED_COMBINE_WEIGHTED:
        sum += static_cast<double>(static_cast<float>(block.head_weights.numbers[h])) * at(h);
        break;
      case HEED_COMBINE_MEAN:
        sum += at(h) / static_cast<double>(heads.size());
        break;
      case HEED_COMBINE_MAX:
        largest = sum = std::max(largest, at(h));
        break;
      default:
        for (Index x = 0; x < width; ++x)
          sum +=
              heads[h][i][static_cast<std::size_t>(x)] *
              (block.choice.combine == HEED_COMBINE_TENSOR ? block.w_out->get(n, x, o)
                                                           : block.w_out->get(0, n * width + x, o));
    }
  }
  return sum;
}

}  // namespace

std::vector<double> plainly(const Block& block) {
  std::vector<double> out;
  const heed_attention_desc& d = block.attention.desc;
  const Tensor& keys = block.input_key ? *block.input_key : block.input_query;
  for (Index b = 0; b < d.batch; ++b) {
    const Rows q = project(block.input_query, b, block.w_query);
    const Rows k = project(keys, b, block.w_key);
    const Rows v = project(keys, b, block.w_value);
    std::vector<Rows> heads;
    const Index group = d.query_heads / block.key_heads();
    for (Index h = 0; h < d.query_heads; ++h)
      heads.push_back(attend(
          q, k, v, static_cast<std::size_t>(h), static_cast<std::size_t>(h / group),
          static_cast<std::size_t>(d.features), static_cast<std::size_t>(block.head_width())));
    for (std::size_t i = 0; i < q.size(); ++i)
      for (Index o = 0; o < block.out_width(); ++o) out.push_back(combine(block, heads, i, o));
  }
  return out;
}

}  // namespace heed_test
