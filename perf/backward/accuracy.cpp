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
  Checker(oracle::BackwardProblem& problem, bool pairs)
      : p_(problem),
        d_(problem.forward.desc),
        args_(problem.forward.args()),
        given_{d_, args_, problem.forward.function.model, nullptr, {}, pairs},
        out_(problem.forward.out.source()),
        grad_out_(problem.grad_out.source()) {}

  Accuracy check() {
    visit_rows(
        d_.batch, d_.query_heads, kRows,
        [&](std::int64_t b) { return oracle::sequence_of(d_, args_, b).queries; },
        [&](std::int64_t b, std::int64_t h, std::int64_t i) { check_query(b, h, i); });
    visit_rows(
        d_.batch, d_.key_heads, kRows,
        [&](std::int64_t b) { return oracle::sequence_of(d_, args_, b).keys; },
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
    compare(sums, oracle::factor_of_product(head), oracle::kGradQuery,
            d_.packed_queries != 0 ? 0 : b, h, head.sequence().first_query + i);
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
    compare(of_key, oracle::factor_of_product(head), oracle::kGradKey, batch, g, at);
    compare(of_value, {1, 0}, oracle::kGradValue, batch, g, at);
  }

  template <class Visit>
  void visit_row(const Head& head, std::int64_t h, std::int64_t i, Visit&& visit) const {
    const std::int64_t b = d_.packed_queries != 0 ? 0 : head.sequence().batch;
    const std::int64_t at = head.sequence().first_query + i;
    const auto row_of = [&](const oracle::Source& from) {
      return oracle::rows_of<Wide>(from, b, h, at, 1, d_.value_features);
    };
    const oracle::BoundedRows<Wide> grad_out = row_of(grad_out_), out = row_of(out_);
    const oracle::Bounded<Wide> lse = {static_cast<Wide>(p_.forward.lse->get({b, h, at, 0})), 0};
    visit(Row(head, i, d_.value_features, {grad_out.row(0), out.row(0), lse, 0},
              p_.forward.function.derivative));
  }

  void compare(const Sums& sums, const oracle::Bounded<Wide>& factor, oracle::GradientOf of,
               std::int64_t b, std::int64_t h, std::int64_t at) {
    const Tensor& got = *p_.gradients[of];
    for (std::size_t x = 0; x < sums.size(); ++x) {
      const oracle::Bounded<Wide> sum =
          oracle::scaled_gradient(sums[x], factor, oracle::kGradientRoundings<Real>);
      accuracy_.compare(got.get({b, h, at, static_cast<std::int64_t>(x)}),
                        oracle::stored(sum.value, sum.bound, got.dtype(), oracle::real_dtype(d_)));
    }
  }

  const oracle::BackwardProblem& p_;
  const heed_attention_desc& d_;
  const heed_attention_args args_;
  const oracle::Given given_;
  const oracle::Source out_, grad_out_;
  std::deque<Head> heads_;
  std::pair<std::int64_t, std::int64_t> entered_;  ///< their sequence and key head
  Accuracy accuracy_;
};

}  // namespace

Accuracy check_gradients(oracle::BackwardProblem& problem, bool pairs) {
  return oracle::is_float64(problem.forward.desc) ? Checker<double>(problem, pairs).check()
                                                  : Checker<float>(problem, pairs).check();
}

}  // namespace heed::perf
