#include "perf/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "tests/oracle/row.hpp"

namespace heed::perf {
namespace {

constexpr std::int64_t kRows = 64;

oracle::Given given_of(const heed_attention_desc& desc, const heed_attention_args& args,
                       const oracle::ScoreModel& model, std::uint32_t precision) {
  const auto all_are = [&](std::uint32_t dtype) {
    return desc.query.dtype == dtype && desc.key.dtype == dtype && desc.value.dtype == dtype;
  };
  oracle::Given given{desc, args, model};
  if (precision == HEED_PRECISION_EXACT) return given;
  given.rounds = precision == HEED_PRECISION_MEDIUM;
  given.pairs = given.rounds || all_are(HEED_DTYPE_BF16) || desc.key.dtype == HEED_DTYPE_I8;
  if (!given.pairs)
    given.parts.count = precision == HEED_PRECISION_HIGH || all_are(HEED_DTYPE_F16) ? 2 : 3;
  return given;
}

template <class Real>
class Checker {
 public:
  Checker(oracle::Problem& problem, std::uint32_t precision, double slack)
      : p_(problem),
        d_(problem.desc),
        args_(problem.args()),
        given_(given_of(d_, args_, problem.function.model, precision)) {
    accuracy_.slack = slack;
  }

  Accuracy check() {
    visit_rows(
        d_.batch, d_.query_heads, kRows, [&](std::int64_t b) { return rows_of(b); },
        [&](std::int64_t b, std::int64_t h, std::int64_t i) {
          enter(b, h);
          check_row(i);
        });
    if (d_.sum_columns != 0) check_column_sums();
    return accuracy_;
  }

 private:
  /// Of a head that are looked at: those whose weights are returned, or all.
  std::int64_t rows_of(std::int64_t batch) const {
    return d_.weight_rows != 0 ? d_.weight_rows : oracle::sequence_of(d_, args_, batch).queries;
  }

  void enter(std::int64_t batch, std::int64_t head) {
    if (head_ && batch == batch_ && head == number_) return;
    head_.emplace(given_, batch_ = batch, number_ = head);
  }

  void check_row(std::int64_t n) {
    const std::int64_t i = d_.weight_rows != 0 ? p_.weight_rows[static_cast<std::size_t>(n)] : n;
    if (i >= head_->sequence().queries) return;
    const oracle::Row<Real> row(*head_, i);
    if (row.choices().size() > 1) return;  // rounding decides which key hard attention takes
    const std::int64_t batch = d_.packed_queries != 0 ? 0 : batch_;
    const std::int64_t at = head_->sequence().first_query + i;
    for (std::int64_t x = 0; x < d_.value_features; ++x)
      accuracy_.compare(p_.out.get({batch, number_, at, x}), row.out(x, row.first_choice()));
    if (p_.lse) accuracy_.compare(p_.lse->get({batch, number_, at, 0}), row.lse());
    for (std::int64_t j = 0; p_.weights && j < d_.key_length; ++j)
      accuracy_.compare(p_.weights->get({batch_, number_, n, j}), row.shown(j));
  }

  /// Of the last head.
  void check_column_sums() {
    enter(d_.batch - 1, d_.query_heads - 1);
    oracle::ColumnSums<Real> sums(d_);
    for (std::int64_t i = 0; i < head_->sequence().queries; ++i)
      sums.add(oracle::Row<Real>(*head_, i), head_->sequence().keys);
    for (std::int64_t j = 0; j < d_.key_length; ++j)
      accuracy_.compare(p_.column_sums->get({batch_, number_, j, 0}), sums.element(j));
  }

  const oracle::Problem& p_;
  const heed_attention_desc& d_;
  const heed_attention_args args_;
  const oracle::Given given_;
  std::optional<oracle::Head<Real>> head_;
  std::int64_t batch_ = 0, number_ = 0;  ///< of that head
  Accuracy accuracy_;
};

}  // namespace

void count(const Accuracy& accuracy, benchmark::UserCounters& counters) {
  counters["max_error"] = accuracy.max_error;
  counters["rms_error"] = accuracy.rms_error();
}

void count(const Accuracy& accuracy, unsigned workers, benchmark::UserCounters& counters) {
  count(accuracy, counters);
  counters["error_bound"] = accuracy.bound;
  counters["workers"] = workers;
}

void demand(const Accuracy& accuracy, const std::string& workload) {
  if (accuracy.used <= 1) return;
  char text[96];
  std::snprintf(text, sizeof text, ": max_error %.3g exceeds the derived bound %.3g",
                accuracy.max_error, accuracy.bound);
  throw std::runtime_error(workload + text);
}

void Accuracy::compare(double got, oracle::Element want) {
  if (std::isinf(want.bound)) return;
  if (want.bound > 0) want.bound += slack;
  const double error = got == want.value ? 0 : std::fabs(got - want.value);
  const double ratio = oracle::ratio_of(got, want);
  squares += error * error;
  elements += 1;
  if (std::isnan(error) || error > max_error) max_error = error;
  if (ratio <= used) return;
  used = ratio;
  bound = want.bound;
}

double Accuracy::rms_error() const { return elements > 0 ? std::sqrt(squares / elements) : 0; }

Accuracy check_accuracy(oracle::Problem& problem, std::uint32_t precision, double slack) {
  return oracle::is_float64(problem.desc) ? Checker<double>(problem, precision, slack).check()
                                          : Checker<float>(problem, precision, slack).check();
}

}  // namespace heed::perf
