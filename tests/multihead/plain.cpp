#include "tests/multihead/plain.hpp"

#include <algorithm>
#include <cmath>

namespace heed_test {
namespace {

using Row = std::vector<double>;

std::size_t size(Index n) { return static_cast<std::size_t>(n); }

/// All rows of an item of the batch.
std::vector<Row> project(const Tensor& input, Index b, const WeightMatrix& w) {
  std::vector<Row> rows(size(input.shape()[2]));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (Index o = 0; o < w.out(); ++o)
      rows[i].push_back(projected(input, w, b, static_cast<Index>(i), o));
  return rows;
}

/// Of a query with every key, which begin there in their rows.
Row score(const double* query, const std::vector<Row>& keys, std::size_t begin, Index features,
          double scale, double& largest) {
  Row scores;
  for (const Row& key : keys) {
    double sum = 0, terms = 0;
    for (std::size_t x = 0; x < size(features); ++x) {
      sum += query[x] * key[begin + x];
      terms += std::fabs(query[x] * key[begin + x]);
    }
    largest = std::max(largest, terms);
    scores.push_back(sum * scale);
  }
  return scores;
}

/// softmax, or 1 at the first of the largest.
Row weigh(const Row& scores, bool hard) {
  Row weights(scores.size(), 0);
  if (hard) {
    weights[size(std::max_element(scores.begin(), scores.end()) - scores.begin())] = 1;
    return weights;
  }
  double total = 0;
  for (const double s : scores) total += std::exp(s);
  for (std::size_t j = 0; j < scores.size(); ++j) weights[j] = std::exp(scores[j]) / total;
  return weights;
}

}  // namespace

double projected(const Tensor& input, const WeightMatrix& w, Index b, Index i, Index o) {
  double sum = w.bias ? w.bias->get({0, 0, 0, o}) : 0;
  for (Index f = 0; f < w.in(); ++f) sum += input.get({b, 0, i, f}) * w.get(0, f, o);
  return sum;
}

double combined(const Block& block, Index o, const std::function<double(Index h, Index x)>& head) {
  const Index heads = block.attention.desc.query_heads;
  const Index width = block.head_width();
  double sum = block.w_out && block.w_out->bias ? block.w_out->bias->get({0, 0, 0, o}) : 0;
  double largest = -kInfinity;
  for (Index h = 0; h < heads; ++h) switch (block.choice.combine) {
      case HEED_COMBINE_WEIGHTED:
        sum += static_cast<double>(static_cast<float>(block.head_weights.numbers[size(h)])) *
               head(h, o);
        break;
      case HEED_COMBINE_MEAN:
        sum += head(h, o) / static_cast<double>(heads);
        break;
      case HEED_COMBINE_MAX:
        largest = sum = std::max(largest, head(h, o));
        break;
      case HEED_COMBINE_HEADS:
        if (h == o / width) sum = head(h, o % width);
        break;
      case HEED_COMBINE_TENSOR:
        for (Index x = 0; x < width; ++x) sum += head(h, x) * block.w_out->get(h, x, o);
        break;
      default:
        for (Index x = 0; x < width; ++x) sum += head(h, x) * block.w_out->get(0, h * width + x, o);
    }
  return sum;
}

Plain plainly(const Block& block) {
  Plain plain;
  const heed_attention_desc& d = block.attention.desc;
  const Tensor& keys = block.input_key ? *block.input_key : block.input_query;
  const double scale = d.scale != 0 ? d.scale : 1 / std::sqrt(static_cast<double>(d.features));
  for (Index b = 0; b < d.batch; ++b) {
    const std::vector<Row> q = project(block.input_query, b, block.w_query);
    const std::vector<Row> k = project(keys, b, block.w_key);
    const std::vector<Row> v = project(keys, b, block.w_value);
    std::vector<std::vector<Row>> heads(size(d.query_heads));
    const std::size_t first_row = plain.tied.size();
    plain.tied.resize(first_row + q.size());
    for (Index h = 0; h < d.query_heads; ++h)
      for (std::size_t i = 0; i < q.size(); ++i) {
        const Index g = h / (d.query_heads / block.key_heads());
        const Row scores = score(&q[i][size(h * d.features)], k, size(g * d.features), d.features,
                                 scale, plain.largest);
        plain.scores.insert(plain.scores.end(), scores.begin(), scores.end());
        const double most = *std::max_element(scores.begin(), scores.end());
        if (std::count(scores.begin(), scores.end(), most) > 1) plain.tied[first_row + i] = true;
        const Row weights = weigh(scores, d.hard != 0);
        Row& out = heads[size(h)].emplace_back(size(block.head_width()));
        for (std::size_t j = 0; j < k.size(); ++j)
          for (std::size_t x = 0; x < out.size(); ++x)
            out[x] += weights[j] * v[j][size(g * block.head_width()) + x];
      }
    for (std::size_t i = 0; i < q.size(); ++i)
      for (Index o = 0; o < block.out_width(); ++o)
        plain.out.push_back(
            combined(block, o, [&](Index h, Index x) { return heads[size(h)][i][size(x)]; }));
  }
  return plain;
}

}  // namespace heed_test
