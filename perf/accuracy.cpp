#include "perf/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <vector>

#include "perf/textbook.hpp"

// How far a row of heed may be from the textbook's. The bound is a simple one, some times what
// rounding does; the tests have one that is sharper. With u the unit roundoff of the arithmetic,
// n roundings in a row are off by a factor 1 + gamma(n) at most, gamma(n) = n u / (1 - n u).
//
// 1. Scores in log2 units. Let S be the largest |scale q| |k| of the row (no sum of products is
//    larger, by Cauchy and Schwarz) plus the largest terms that ALiBi, a bias, the score function
//    and a sink add. Each product sees D + 3 roundings, and each option adds no more than 8 of
//    something that is at most S: tanh, the worst, is within 4 ULP and shrinks what was wrong
//    before. All scores are off by gamma(D + 3 + 8 options) S at most.
//
// 2. Exponents. A weight is exp2(score - reference), and the reference a score of the row that is
//    at most 8 below another one. The difference is one more rounding, or a sum that started from
//    the reference: D roundings of S + 8. A reference that moves adds roundings of differences,
//    2 S + 16 in all. Together, with some to spare, x = gamma(2 D + 8 options + 8) (S + 16).
//
// 3. Weights. exp2 is within 2 u and so is each of the moves, which are 4 apart or more; sums of n
//    keys see n roundings. A weight is off by a factor 1 + a at most,
//    1 + a = 2^x (1 + gamma(n + 6 + 3 (S + 8) / 2)), and so is the denominator. What underflows is
//    less than 2^-100 of the largest.
//
// 4. Quotients. |p' - p| <= b p and |o' - o| <= b (sum p |v| + |o|) with b = a / (1 - a) + 3 u;
//    log-sum-exp is off by -log(1 - a). The result is rounded once more, to its type.
//
// float64 is checked by a textbook that rounds as often, so there the bound is taken twice.

namespace heed::perf {
namespace {

constexpr std::int64_t kRows = 64;
constexpr double kLog2E = 1.4426950408889634;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double norm(const double* row, std::int64_t width) {
  double sum = 0;
  for (std::int64_t x = 0; x < width; ++x) sum += row[x] * row[x];
  return std::sqrt(sum);
}

double largest_of(const Tensor& tensor) {
  double largest = 0;
  for (std::size_t i = 0; i < tensor.size(); ++i)
    largest = std::max(largest, std::fabs(tensor[static_cast<std::int64_t>(i)]));
  return largest;
}

class Checker {
 public:
  Checker(const Workload& workload, const Tensors& tensors)
      : workload_(workload),
        tensors_(tensors),
        textbook_(workload, tensors),
        unit_(rounding_of(arithmetic_of(workload)).unit),
        largest_bias_(largest_of(tensors.bias)) {}

  void check_row(std::int64_t batch, std::int64_t head, std::int64_t row) {
    const heed_attention_desc& d = workload_.desc;
    enter(batch, head);
    textbook_.compute(row);
    const double a = weight_error(row);
    const std::int64_t first = query_rows(workload_, batch, head, d.value_features)[row];
    const std::vector<double> sizes = value_sizes();
    for (std::size_t x = 0; x < sizes.size(); ++x) {
      const double wanted = textbook_.out()[x];
      compare(tensors_.out, first + static_cast<std::int64_t>(x), wanted,
              quotient_error(a) * (sizes[x] + std::fabs(wanted)));
    }
    if (workload_.lse)
      compare(tensors_.lse, lse_rows(workload_, batch, head)[row], textbook_.lse(),
              -std::log1p(-a));
  }

  /// `listed` counts the rows of weights.
  void check_weights(std::int64_t batch, std::int64_t head, std::int64_t listed) {
    const heed_attention_desc& d = workload_.desc;
    const bool all = d.weight_rows == 0;
    const std::int64_t row = all ? listed : tensors_.weight_rows[static_cast<std::size_t>(listed)];
    const std::int64_t rows = all ? d.query_length : d.weight_rows;
    enter(batch, head);
    if (row >= textbook_.sequence().queries) return;
    textbook_.compute(row);
    const double b = quotient_error(weight_error(row));
    const std::int64_t first = ((batch * d.query_heads + head) * rows + listed) * d.key_length;
    for (std::int64_t j = 0; j < d.key_length; ++j) {
      const double wanted = textbook_.probabilities()[static_cast<std::size_t>(j)];
      compare(tensors_.weights, first + j, wanted, b * wanted);
    }
  }

  void check_column_sums(std::int64_t batch, std::int64_t head) {
    const heed_attention_desc& d = workload_.desc;
    std::vector<double> sums(static_cast<std::size_t>(d.key_length));
    std::vector<double> errors(sums.size());
    enter(batch, head);
    for (std::int64_t i = 0; i < textbook_.sequence().queries; ++i) {
      textbook_.compute(i);
      const double b = quotient_error(weight_error(i));
      for (std::size_t j = 0; j < sums.size(); ++j) {
        sums[j] += textbook_.probabilities()[j];
        errors[j] += b * textbook_.probabilities()[j];
      }
    }
    const std::int64_t first = (batch * d.query_heads + head) * d.key_length;
    const double adding = gamma(static_cast<double>(d.query_length));
    for (std::size_t j = 0; j < sums.size(); ++j)
      compare(tensors_.column_sums, first + static_cast<std::int64_t>(j), sums[j],
              errors[j] + adding * (sums[j] + errors[j]));
  }

  const Accuracy& accuracy() const { return accuracy_; }

 private:
  double gamma(double n) const { return n * unit_ < 1 ? n * unit_ / (1 - n * unit_) : kInfinity; }

  void enter(std::int64_t batch, std::int64_t head) {
    if (batch == batch_ && head == head_) return;
    batch_ = batch;
    head_ = head;
    textbook_.enter(batch, head);
    const std::int64_t features = workload_.desc.features;
    largest_key_ = 0;
    for (std::int64_t j = 0; j < textbook_.sequence().keys; ++j)
      largest_key_ = std::max(largest_key_, norm(textbook_.keys().data() + j * features, features));
  }

  /// S, see 1.
  double score_size(std::int64_t row) const {
    const heed_attention_desc& d = workload_.desc;
    const std::int64_t position = row + textbook_.sequence().offset;
    const auto farthest =
        static_cast<double>(std::max(std::abs(position), std::abs(position - d.key_length)));
    double size = norm(textbook_.query().data(), d.features) * largest_key_ /
                  std::sqrt(static_cast<double>(d.features));
    if (workload_.alibi) size += tensors_.slopes[head_] * farthest;
    if (workload_.score_function)
      size += kNearness * static_cast<double>(std::max(d.query_length, d.key_length));
    if (workload_.sinks) size += std::fabs(tensors_.sinks[head_]);
    return (size + largest_bias_) * kLog2E;
  }

  /// a, see 3, of the row that was computed last.
  double weight_error(std::int64_t row) const {
    const heed_attention_desc& d = workload_.desc;
    const int options = (d.softcap != 0 ? 1 : 0) + (workload_.alibi ? 1 : 0) +
                        (workload_.bias ? 1 : 0) + (workload_.score_function ? 1 : 0);
    const double size = score_size(row);
    const double exponent =
        gamma(2 * static_cast<double>(d.features) + 8 * options + 8) * (size + 16);
    if (d.hard != 0) return leads_by(2 * exponent / kLog2E) ? gamma(2) : 1;
    const auto keys = static_cast<double>(textbook_.sequence().keys);
    const double sums = std::log1p(gamma(keys + 6 + 1.5 * (size + 8)));
    return std::min(std::expm1(exponent / kLog2E + sums), 1.0);
  }

  /// b, see 4; infinite where nothing can be said.
  double quotient_error(double a) const { return a < 1 ? a / (1 - a) + 3 * unit_ : kInfinity; }

  /// Whether rounding cannot make another score the largest one.
  bool leads_by(double distance) const {
    double first = -kInfinity;
    double second = -kInfinity;
    for (const double score : textbook_.scores()) {
      second = std::max(second, std::min(first, score));
      first = std::max(first, score);
    }
    return first - second > distance;
  }

  /// The sums of p |v|, and what underflow can lose.
  std::vector<double> value_sizes() const {
    const auto width = static_cast<std::size_t>(workload_.desc.value_features);
    const double lost = arithmetic_of(workload_) == HEED_DTYPE_F64 ? 0x1p-1000 : 0x1p-100;
    std::vector<double> sizes(width);
    const double* value = textbook_.values().data();
    for (std::int64_t j = 0; j < textbook_.sequence().keys; ++j)
      for (double& size : sizes)
        size +=
            (textbook_.probabilities()[static_cast<std::size_t>(j)] + lost) * std::fabs(*value++);
    return sizes;
  }

  void compare(const Tensor& results, std::int64_t index, double wanted, double bound) {
    const double got = results[index];
    if (bound == kInfinity) return;
    if (got == wanted) {  // the infinities of log-sum-exp too
      ++accuracy_.elements;
      return;
    }
    const Rounding rounding = rounding_of(results.type());
    if (arithmetic_of(workload_) == HEED_DTYPE_F64) bound *= 2;
    bound += rounding.unit * (std::fabs(wanted) + bound) + rounding.underflow;
    accuracy_.compare(got, wanted, bound);
  }

  const Workload& workload_;
  const Tensors& tensors_;
  Textbook<double> textbook_;
  double unit_;
  double largest_bias_;
  double largest_key_ = 0;
  std::int64_t batch_ = -1;
  std::int64_t head_ = -1;
  Accuracy accuracy_;
};

/// Visits about kRows of the rows of all heads, where batch b has rows_of(b) for each, from the
/// first row to the last, so that both ends of a causal mask are among them.
template <class RowsOf, class Visit>
void visit_some(const heed_attention_desc& d, RowsOf&& rows_of, Visit&& visit) {
  std::int64_t rows = 0;
  for (std::int64_t b = 0; b < d.batch; ++b) rows += d.query_heads * rows_of(b);
  const std::int64_t visited = std::min(rows, kRows);
  std::int64_t batch = 0;
  std::int64_t before = 0;  // rows of earlier batches
  for (std::int64_t i = 0; i < visited; ++i) {
    const std::int64_t index = visited > 1 ? i * (rows - 1) / (visited - 1) : 0;
    while (index >= before + d.query_heads * rows_of(batch))
      before += d.query_heads * rows_of(batch++);
    visit(batch, (index - before) / rows_of(batch), (index - before) % rows_of(batch));
  }
}

}  // namespace

void count(const Accuracy& accuracy, benchmark::UserCounters& counters) {
  counters["max_error"] = accuracy.max_error;
  counters["rms_error"] = accuracy.rms_error();
}

void demand(const Accuracy& accuracy, const std::string& workload) {
  if (accuracy.within) return;
  char text[96];
  std::snprintf(text, sizeof text, ": max_error %.3g exceeds the derived bound %.3g",
                accuracy.max_error, accuracy.bound);
  throw std::runtime_error(workload + text);
}

void Accuracy::compare(double got, double wanted, double bound_of_it) {
  Accuracy element;
  element.max_error = std::fabs(got - wanted);
  element.squares = element.max_error * element.max_error;
  element.elements = 1;
  element.bound = bound_of_it;
  element.used = element.max_error / bound_of_it;
  element.within = element.used <= 1;
  include(element);
}

double Accuracy::rms_error() const { return elements > 0 ? std::sqrt(squares / elements) : 0; }

void Accuracy::include(const Accuracy& other) {
  squares += other.squares;
  elements += other.elements;
  within = within && other.within;
  if (!(other.max_error <= max_error)) max_error = other.max_error;  // also takes a NaN
  if (other.used <= used) return;
  used = other.used;
  bound = other.bound;
}

Accuracy check_accuracy(const Workload& workload, const Tensors& tensors) {
  const heed_attention_desc& d = workload.desc;
  const auto queries = [&](std::int64_t batch) { return sequence_of(workload, batch).queries; };
  Checker checker(workload, tensors);
  visit_some(d, queries, [&](std::int64_t batch, std::int64_t head, std::int64_t row) {
    checker.check_row(batch, head, row);
  });
  if (d.weights_point != HEED_WEIGHTS_NONE)
    visit_some(
        d, [&](std::int64_t batch) { return d.weight_rows != 0 ? d.weight_rows : queries(batch); },
        [&](std::int64_t batch, std::int64_t head, std::int64_t listed) {
          checker.check_weights(batch, head, listed);
        });
  if (d.sum_columns != 0) checker.check_column_sums(d.batch - 1, d.query_heads - 1);
  return checker.accuracy();
}

}  // namespace heed::perf
