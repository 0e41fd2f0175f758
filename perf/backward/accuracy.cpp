#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "perf/backward/problem.hpp"
#include "tests/oracle/backward_row.hpp"

namespace heed::perf {
namespace {

constexpr std::int64_t kRows = 16;  // of queries, and as many keys

/// A gradient needs all pairs of its row or key, and each pair's log-sum-exp is given: so those of
/// a few rows and keys cost a few rows and columns of scores.
template <class Real>
class Checker {
  using Wide = typename oracle::Arithmetic<Real>::Wide;
  using Head = oracle::Head<Real>;
  using Row = oracle::BackwardRow<Real>;
  using Sums = std::vector<oracle::BoundedSum<Real>>;

 public:
  Checker(const Workload& workload, Tensors& tensors, const GradientTensors& gradients, bool pairs)
      : workload_(workload),
        d_(workload.desc),
        args_(tensors.args()),
        model_(score_model(workload)),
        derivative_(score_derivative(workload)),
        given_{d_, args_, model_, nullptr, {}, pairs},
        out_(queries_of(workload, tensors.out)),
        grad_out_(queries_of(workload, gradients.grad_out)),
        query_(queries_of(workload, gradients.query)),
        key_(keys_of(workload, gradients.key)),
        value_(keys_of(workload, gradients.value)) {
    const std::int64_t rows = d_.packed_queries != 0 ? d_.packed_queries : d_.query_length;
    lse_ = {tensors.lse.data(), tensors.lse.type(), {d_.query_heads * rows, rows, 1, 1}};
  }

  Accuracy check() {
    visit_rows(
        d_.batch, d_.query_heads, kRows,
        [&](std::int64_t b) { return sequence_of(workload_, b).queries; },
        [&](std::int64_t b, std::int64_t h, std::int64_t i) { check_query(b, h, i); });
    visit_rows(
        d_.batch, d_.key_heads, kRows,
        [&](std::int64_t b) { return sequence_of(workload_, b).keys; },
        [&](std::int64_t b, std::int64_t g, std::int64_t j) { check_key(b, g, j); });
    return accuracy_;
  }

 private:
  std::int64_t group() const { return d_.query_heads / d_.key_heads; }

  /// The query heads that share a key head.
  void enter(std::int64_t batch, std::int64_t key_head) {
    const std::pair<std::int64_t, std::int64_t> wanted(batch, key_head);
    if (!heads_.empty() && wanted == entered_) return;
    heads_.clear();
    for (std::int64_t n = 0; n < group(); ++n)
      heads_.emplace_back(given_, batch, key_head * group() + n);
    entered_ = wanted;
  }

  void check_query(std::int64_t b, std::int64_t h, std::int64_t i) {
    enter(b, h / group());
    const Head& head = heads_[static_cast<std::size_t>(h % group())];
    Sums sums(static_cast<std::size_t>(d_.features));
    visit_row(head, h, i, [&](const Row& row) {
      for (std::int64_t j = 0; j < head.sequence().keys; ++j)
        if (head.attends(i, j))
          row.add_to(sums.data(), d_.features, row.rounded(row.pair(j).product),
                     [&](std::int64_t x) { return head.key(j, x); });
    });
    compare(sums, head, query_, d_.packed_queries != 0 ? 0 : b, h, head.sequence().first_query + i);
  }

  void check_key(std::int64_t b, std::int64_t g, std::int64_t j) {
    enter(b, g);
    Sums of_key(static_cast<std::size_t>(d_.features));
    Sums of_value(static_cast<std::size_t>(d_.value_features));
    for (std::int64_t n = 0; n < group(); ++n) {
      const Head& head = heads_[static_cast<std::size_t>(n)];
      for (std::int64_t i = 0; i < head.sequence().queries; ++i) {
        if (!head.attends(i, j)) continue;
        visit_row(head, g * group() + n, i, [&](const Row& row) {
          const oracle::PairGradient<Wide> pair = row.pair(j);
          row.add_to(of_key.data(), d_.features, row.rounded(pair.product),
                     [&](std::int64_t x) { return head.query(i, x); });
          row.add_to(of_value.data(), d_.value_features, row.rounded(pair.weight),
                     [&](std::int64_t x) { return row.grad_out(x); });
        });
      }
    }
    const Head& head = heads_[0];
    const std::int64_t batch = d_.packed_keys != 0 ? 0 : b;
    const std::int64_t at = head.sequence().first_key + j;
    compare(of_key, head, key_, batch, g, at);
    compare(of_value, {1, 0}, value_, batch, g, at);
  }

  template <class Visit>
  void visit_row(const Head& head, std::int64_t h, std::int64_t i, Visit&& visit) const {
    const std::int64_t b = d_.packed_queries != 0 ? 0 : head.sequence().batch;
    const std::int64_t at = head.sequence().first_query + i;
    const auto numbers = [&](const oracle::Source& from) {
      std::vector<oracle::Bounded<Wide>> row;
      for (const Wide x : oracle::rows_of<Wide>(from, b, h, at, 1, d_.value_features).numbers)
        row.push_back({x, 0});
      return row;
    };
    const std::vector<oracle::Bounded<Wide>> grad_out = numbers(grad_out_);
    const std::vector<oracle::Bounded<Wide>> out = numbers(out_);
    const oracle::Bounded<Wide> lse = {static_cast<Wide>(lse_.at(b, h, at, 0)), 0};
    visit(Row(head, i, d_.value_features, {grad_out.data(), out.data(), lse, 0}, derivative_));
  }

  void compare(const Sums& sums, const Head& head, const oracle::Source& got, std::int64_t b,
               std::int64_t h, std::int64_t at) {
    compare(sums, oracle::factor_of_product(head), got, b, h, at);
  }
  void compare(const Sums& sums, const oracle::Bounded<Wide>& factor, const oracle::Source& got,
               std::int64_t b, std::int64_t h, std::int64_t at) {
    for (std::size_t x = 0; x < sums.size(); ++x) {
      const oracle::Bounded<Wide> sum =
          oracle::scaled_gradient(sums[x], factor, oracle::kGradientRoundings<Real>);
      accuracy_.compare(got.at(b, h, at, static_cast<std::int64_t>(x)),
                        oracle::stored(sum.value, sum.bound, got.dtype, oracle::real_dtype(d_)));
    }
  }

  const Workload& workload_;
  const heed_attention_desc& d_;
  const heed_attention_args args_;
  const oracle::ScoreModel model_, derivative_;
  const oracle::Given given_;
  const oracle::Source out_, grad_out_, query_, key_, value_;
  oracle::Source lse_{};
  std::deque<Head> heads_;
  std::pair<std::int64_t, std::int64_t> entered_;  ///< their sequence and key head
  Accuracy accuracy_;
};

}  // namespace

Accuracy check_gradients(const Workload& workload, Tensors& tensors, GradientTensors& gradients,
                         bool pairs) {
  return oracle::is_float64(workload.desc)
             ? Checker<double>(workload, tensors, gradients, pairs).check()
             : Checker<float>(workload, tensors, gradients, pairs).check();
}

}  // namespace heed::perf
