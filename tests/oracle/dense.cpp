#include "tests/oracle/dense.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tests/oracle/head.hpp"
#include "tests/oracle/row.hpp"

namespace heed_test {
namespace {

template <class Real>
class Oracle {
  using Wide = typename Arithmetic<Real>::Wide;

 public:
  explicit Oracle(const Given& given)
      : given_(given),
        d_(given.desc),
        packed_(d_.packed_queries > 0),
        rows_(packed_ ? d_.packed_queries : d_.query_length),
        width_(value_features_of(d_)) {}

  Expected run() {
    const Index lines = (packed_ ? 1 : d_.batch) * d_.query_heads * rows_;
    expected_.out.assign(size(lines * width_), kUnwritten);
    expected_.lse.assign(size(lines), kUnwritten);
    if (d_.weights_point != HEED_WEIGHTS_NONE)
      expected_.weights.assign(size(d_.batch * d_.query_heads * weight_rows_of(d_) * d_.key_length),
                               kUnwritten);
    for (Index b = 0; b < d_.batch; ++b)
      for (Index h = 0; h < d_.query_heads; ++h) attend(b, h);
    return expected_;
  }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  void attend(Index b, Index h) {
    const Head<Real> head(given_, b, h);
    const Index line =
        ((packed_ ? 0 : b) * d_.query_heads + h) * rows_ + head.sequence().first_query;
    const auto store = [&](const Row<Real>& row, Index i) {
      store_out(row, line + i);
      store_weights(row, b * d_.query_heads + h, i);
    };
    for (const Index i : given_.rows) store(Row<Real>(head, i), i);
    if (!given_.rows.empty()) return;
    ColumnSums<Real> columns(d_);
    for (Index i = 0; i < head.sequence().queries; ++i) {
      const Row<Real> row(head, i);
      store(row, i);
      if (d_.sum_columns != 0) columns.add(row, head.sequence().keys);
    }
    for (Index j = 0; d_.sum_columns != 0 && j < d_.key_length; ++j)
      expected_.column_sums.push_back(columns.element(j));
  }

  void store_out(const Row<Real>& row, Index line) {
    expected_.lse[size(line)] = row.lse();
    const std::size_t first = size(line * width_);
    for (Index x = 0; x < width_; ++x)
      expected_.out[first + size(x)] = row.out(x, row.first_choice());
    for (std::size_t n = 1; n < row.choices().size(); ++n) {
      expected_.others.push_back({first, {}});
      for (Index x = 0; x < width_; ++x)
        expected_.others.back().elements.push_back(row.out(x, row.choices()[n]));
    }
  }

  /// All rows are shown, or those listed.
  void store_weights(const Row<Real>& row, Index head, Index i) {
    if (d_.weights_point == HEED_WEIGHTS_NONE) return;
    Index at = i;
    if (d_.weight_rows > 0) {
      const std::int64_t* const begin = given_.args.weight_rows;
      at = std::find(begin, begin + d_.weight_rows, i) - begin;
      if (at == d_.weight_rows) return;
    }
    const Index first = (head * weight_rows_of(d_) + at) * d_.key_length;
    for (Index j = 0; j < d_.key_length; ++j) expected_.weights[size(first + j)] = row.shown(j);
  }

  const Given& given_;
  const heed_attention_desc& d_;
  const bool packed_;
  const Index rows_;  ///< of the query tensor
  const Index width_;
  Expected expected_;
};

}  // namespace

Expected expect(const Given& given) {
  if (is_float64(given.desc)) return Oracle<double>(given).run();
  Expected expected = Oracle<float>(given).run();
  const heed_attention_desc& d = given.desc;
  const auto stores = [&](std::uint32_t dtype) {
    return d.key.dtype == dtype && d.value.dtype == dtype;
  };
  const bool may_round = (stores(HEED_DTYPE_BF16) && d.query.dtype == HEED_DTYPE_BF16) ||
                         (stores(HEED_DTYPE_I8) && d.hard == 0);
  if (given.projections != nullptr) return expected;
  if (d.hard == 0 && stores(HEED_DTYPE_F16) && d.query.dtype == HEED_DTYPE_F16) {
    Given in_parts = given;
    in_parts.parts.count = 2;
    expected.parts = std::make_shared<const Expected>(Oracle<float>(in_parts).run());
  }
  if (!may_round) return expected;
  Given in_pairs = given;
  in_pairs.pairs = true;
  expected.pairs = std::make_shared<const Expected>(Oracle<float>(in_pairs).run());
  return expected;
}

Expected expect(const heed_attention_desc& desc, const heed_attention_args& args,
                const ScoreModel& function, heed_precision precision) {
  Given given{desc, args, function};
  if (precision == HEED_PRECISION_DEFAULT) return expect(given);
  given.pairs = given.rounds = precision == HEED_PRECISION_MEDIUM;
  if (precision == HEED_PRECISION_HIGH) given.parts.count = 2;
  if (precision == HEED_PRECISION_EXACT) given.parts = {1, true};
  return Oracle<float>(given).run();
}

}  // namespace heed_test
