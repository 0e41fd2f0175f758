#include "perf/block/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/number.hpp"
#include "perf/textbook.hpp"

// How far out may be from the textbook's. A bound that held for the worst case would say nothing:
// sums of a thousand products, four in a row, could be off by more than they are worth. So
// roundings are taken for what they are like, a random walk (Higham and Mary, 2019): a sum of n
// products, about `size` large, is off by walk(n) size at most, walk(n) = 8 sqrt(n) u. That is 8
// standard deviations and more, with u the unit roundoff of the arithmetic. Such errors meet as
// independent numbers do, too: an inner product with them is off by its other side's norm times
// their size.
//
// 1. Elements of Q, K and V, of size r_q, r_k and r_v (root mean squares), are off by e_q = walk(W)
//    r_q, e_k and e_v.
// 2. Scores are off by x = scale (|k| e_q + |q| e_k + walk(D) |q| |k|), with the largest |k|; no
//    option makes that more (softcap makes it less).
// 3. Weights are off by a factor e^2x, and sums over n keys by walk(n): every element of a head's
//    result by b = (expm1(2 x) + walk(n)) (sum of p |v|) + e_v.
// 4. An element of out, the product with a column w of W_out, is off by |w| b + walk(H Dv) r_out,
//    and once by rounding to its type.
//
// float64 is checked by a textbook that rounds as often, so there the bound is taken twice.

namespace heed::perf {
namespace {

constexpr std::int64_t kRows = 16;

using Numbers = std::vector<double>;

Numbers numbers(std::int64_t count) { return Numbers(static_cast<std::size_t>(count)); }

double norm(const double* row, std::int64_t width) {
  double sum = 0;
  for (std::int64_t x = 0; x < width; ++x) sum += row[x] * row[x];
  return std::sqrt(sum);
}

double root_mean_square(const Numbers& all) {
  const auto count = static_cast<double>(all.size());
  return norm(all.data(), static_cast<std::int64_t>(all.size())) / std::sqrt(count);
}

/// rows [count, in] times the matrix, plus the bias: [count, out]. A few rows of the matrix at a
/// time go through all results, which are too many for caches.
Numbers project(const Numbers& rows, const Projection& projection) {
  constexpr std::int64_t kStep = 8;
  const std::int64_t in = projection.in;
  const std::int64_t out = projection.out;
  const std::int64_t count = static_cast<std::int64_t>(rows.size()) / in;
  Numbers results = numbers(count * out);
  for (std::int64_t r = 0; r < count && projection.bias.size() != 0; ++r)
    projection.bias.read(0, out, results.data() + r * out);
  Numbers matrix = numbers(kStep * out);
  for (std::int64_t first = 0; first < in; first += kStep) {
    const std::int64_t step = std::min(kStep, in - first);
    projection.matrix.read(first * out, step * out, matrix.data());
    for (std::int64_t r = 0; r < count; ++r) {
      double* const result = results.data() + r * out;
      for (std::int64_t m = 0; m < step; ++m) {
        const double x = rows[static_cast<std::size_t>(r * in + first + m)];
        const double* const w = matrix.data() + m * out;
        for (std::int64_t o = 0; o < out; ++o) result[o] += x * w[o];
      }
    }
  }
  return results;
}

/// The attention inside, of one batch item, in float64; masks and the like are the same numbers.
Workload attention_of(const Workload& workload) {
  Workload inner = parse_workload(workload.attention);
  inner.desc.batch = 1;
  if (inner.padding) inner.desc.mask.batch = 1;
  for (heed_layout* const layout :
       {&inner.desc.query, &inner.desc.key, &inner.desc.value, &inner.desc.out})
    layout->dtype = HEED_DTYPE_F64;
  return inner;
}

void copy(const Tensor& from, Tensor& to) {
  for (std::size_t i = 0; i < from.size(); ++i)
    to.set(static_cast<std::int64_t>(i), from[static_cast<std::int64_t>(i)]);
}

/// rows [count, heads * width] to [heads, length, width], the r-th to row rows[r].
void spread(const Numbers& from, const std::vector<std::int64_t>& rows, std::int64_t heads,
            std::int64_t length, std::int64_t width, Tensor& to) {
  const double* x = from.data();
  for (const std::int64_t row : rows)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t f = 0; f < width; ++f) to.set((h * length + row) * width + f, *x++);
}

class BlockChecker {
 public:
  BlockChecker(const Workload& workload, BlockTensors& tensors)
      : workload_(workload),
        tensors_(tensors),
        inner_(attention_of(workload)),
        attention_(inner_),
        unit_(rounding_of(arithmetic_of(workload)).unit) {
    const heed_attention_desc& d = workload.desc;
    for (std::int64_t j = 0; j < d.key_length; ++j) all_keys_.push_back(j);
    const std::int64_t count = std::min(kRows, d.query_length);
    for (std::int64_t i = 0; i < count; ++i)
      rows_.push_back(count > 1 ? i * (d.query_length - 1) / (count - 1) : 0);
    const Tensors& given = *tensors.attention;
    copy(given.slopes, attention_.slopes);
    copy(given.sinks, attention_.sinks);
    project_inputs();
  }

  Accuracy check() {
    const heed_attention_desc& d = workload_.desc;
    Numbers heads;  // [rows, query heads * value features]
    const Numbers errors = attend(heads);
    const Numbers out = project(heads, tensors_.out_of_heads);
    const Numbers columns = column_norms(tensors_.out_of_heads);
    const double last = walk(tensors_.out_of_heads.in) * root_mean_square(out);
    const Rounding rounding = rounding_of(tensors_.out.type());
    const double twice = arithmetic_of(workload_) == HEED_DTYPE_F64 ? 2 : 1;
    Accuracy accuracy;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const std::int64_t row = (d.batch - 1) * d.query_length + rows_[r];
      for (std::size_t o = 0; o < columns.size(); ++o) {
        const double wanted = out[r * columns.size() + o];
        const double bound = twice * (columns[o] * errors[r] + last);
        accuracy.compare(tensors_.out[row * workload_.width + static_cast<std::int64_t>(o)], wanted,
                         bound + rounding.unit * (std::fabs(wanted) + bound) + rounding.underflow);
      }
    }
    return accuracy;
  }

 private:
  double walk(std::int64_t n) const { return 8 * std::sqrt(static_cast<double>(n)) * unit_; }

  /// Rows of the last batch item.
  Numbers inputs(const Tensor& input, const std::vector<std::int64_t>& rows, std::int64_t length) {
    const auto count = static_cast<std::int64_t>(rows.size());
    Numbers all = numbers(count * workload_.width);
    const std::int64_t first = (workload_.desc.batch - 1) * length;
    for (std::int64_t r = 0; r < count; ++r)
      input.read((first + rows[static_cast<std::size_t>(r)]) * workload_.width, workload_.width,
                 all.data() + r * workload_.width);
    return all;
  }

  /// See 1.
  void project_inputs() {
    const heed_attention_desc& d = workload_.desc;
    const Numbers queries =
        project(inputs(tensors_.input_query, rows_, d.query_length), tensors_.query);
    const Numbers tokens = inputs(tensors_.key_input(), all_keys_, d.key_length);
    const Numbers keys = project(tokens, tensors_.key);
    const Numbers values = project(tokens, tensors_.value);
    const double walked = walk(workload_.width);
    query_error_ = walked * root_mean_square(queries);
    key_error_ = walked * root_mean_square(keys);
    value_error_ = walked * root_mean_square(values);
    spread(queries, rows_, d.query_heads, d.query_length, d.features, attention_.query);
    spread(keys, all_keys_, d.key_heads, d.key_length, d.features, attention_.key);
    spread(values, all_keys_, d.key_heads, d.key_length, d.value_features, attention_.value);
    for (std::size_t j = 0; j < keys.size(); j += static_cast<std::size_t>(d.features))
      largest_key_ = std::max(largest_key_, norm(keys.data() + j, d.features));
  }

  /// Fills in the heads' results; returns b for each row, see 2 and 3.
  Numbers attend(Numbers& heads) {
    const heed_attention_desc& d = workload_.desc;
    heads = numbers(static_cast<std::int64_t>(rows_.size()) * d.query_heads * d.value_features);
    Numbers errors(rows_.size());
    Textbook<double> textbook(inner_, attention_);
    for (std::int64_t h = 0; h < d.query_heads; ++h) {
      textbook.enter(0, h);
      for (std::size_t r = 0; r < rows_.size(); ++r) {
        textbook.compute(rows_[r]);
        const std::int64_t first =
            (static_cast<std::int64_t>(r) * d.query_heads + h) * d.value_features;
        std::copy(textbook.out().begin(), textbook.out().end(), heads.begin() + first);
        errors[r] = std::max(errors[r], error_of(textbook));
      }
    }
    return errors;
  }

  /// b of the row that was computed last.
  double error_of(const Textbook<double>& textbook) const {
    const heed_attention_desc& d = workload_.desc;
    const double query = norm(textbook.query().data(), d.features);
    const double scores = (largest_key_ * query_error_ + query * key_error_ +
                           walk(d.features) * query * largest_key_) /
                          std::sqrt(static_cast<double>(d.features));
    Numbers sizes = numbers(d.value_features);
    const double* value = textbook.values().data();
    for (std::int64_t j = 0; j < textbook.sequence().keys; ++j)
      for (double& size : sizes)
        size += textbook.probabilities()[static_cast<std::size_t>(j)] * std::fabs(*value++);
    const double largest = *std::max_element(sizes.begin(), sizes.end());
    return (std::expm1(2 * scores) + walk(d.key_length)) * largest + value_error_;
  }

  static Numbers column_norms(const Projection& projection) {
    Numbers norms = numbers(projection.out);
    Numbers row = numbers(projection.out);
    for (std::int64_t m = 0; m < projection.in; ++m) {
      projection.matrix.read(m * projection.out, projection.out, row.data());
      for (std::size_t o = 0; o < row.size(); ++o) norms[o] += row[o] * row[o];
    }
    for (double& x : norms) x = std::sqrt(x);
    return norms;
  }

  const Workload& workload_;
  BlockTensors& tensors_;
  Workload inner_;
  Tensors attention_;
  double unit_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> all_keys_;
  double query_error_ = 0;
  double key_error_ = 0;
  double value_error_ = 0;
  double largest_key_ = 0;
};

}  // namespace

Accuracy check_block_accuracy(const Workload& workload, BlockTensors& tensors) {
  return BlockChecker(workload, tensors).check();
}

}  // namespace heed::perf
