#include "tests/oracle/multihead.hpp"

#include <cmath>
#include <vector>

#include "tests/oracle/multihead_combine.hpp"
#include "tests/oracle/multihead_sum.hpp"

namespace heed_test {
namespace {

template <class Real>
class BlockOracle {
  using Wide = typename Arithmetic<Real>::Wide;

 public:
  explicit BlockOracle(const GivenBlock& block)
      : block_(block),
        d_(block.attention),
        tensor_(block.combine == HEED_COMBINE_TENSOR),
        product_(tensor_ || block.combine == HEED_COMBINE_CONCAT),
        heads_(d_.query_heads),
        width_(value_features_of(d_)) {
    const Index in = tensor_ ? width_ : heads_ * width_;
    for (Index m = 0; product_ && m < (tensor_ ? heads_ : 1); ++m)
      w_out_.push_back(rows_of<Wide>(block.w_out.matrix, m, 0, 0, in, block.w_out.out));
    if (block.combine == HEED_COMBINE_WEIGHTED)
      head_weights_ = rows_of<Wide>(block.head_weights, 0, 0, 0, 1, heads_);
  }

  /// `out` is [batch, 1, rows, width_out], packed: batch 1; the others are the attention's.
  Expected run() {
    const Index queries = rows(d_.packed_queries, d_.query_length);
    const Index keys = rows(d_.packed_keys, d_.key_length);
    const bool packed_q = d_.packed_queries > 0;
    const bool packed_k = d_.packed_keys > 0;
    const Index query_length = packed_q ? queries : d_.query_length;
    const Index key_length = packed_k ? keys : d_.key_length;
    const Projections projections = {
        project(block_.input_query, queries, query_length, block_.width_query, block_.w_query),
        project(block_.input_key, keys, key_length, block_.width_key, block_.w_key),
        project(block_.input_key, keys, key_length, block_.width_key, block_.w_value)};
    const Given given = {d_, block_.arguments, block_.function, &projections};
    Expected expected = expect(given);
    admit_others(expected);
    expected.out = combine(expected.out, queries, query_length);
    return expected;
  }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  Index rows(Index packed, Index length) const { return packed > 0 ? packed : d_.batch * length; }

  /// Rows of inputs, `length` of them per item of the batch, times a matrix, plus its bias.
  static Computed project(const Source& input, Index rows, Index length, Index width,
                          const GivenMatrix& w) {
    const auto matrix = rows_of<Wide>(w.matrix, 0, 0, 0, width, w.out);
    Computed computed{w.out, {}};
    for (Index i = 0; i < rows; ++i) {
      const auto x = rows_of<Wide>(input, i / length, 0, i % length, 1, width);
      for (Index o = 0; o < w.out; ++o) {
        Terms<Real> terms;
        for (Index f = 0; f < width; ++f) terms.add({x.numbers[size(f)], 0}, matrix.row(f)[o]);
        store(with_bias(terms, w, o), computed);
      }
    }
    return computed;
  }

  static Bounded<Wide> with_bias(Terms<Real>& terms, const GivenMatrix& w, Index o) {
    if (w.bias.data != nullptr) terms.add(static_cast<Wide>(w.bias.at(0, 0, 0, o)));
    return terms.sum();
  }

  static void store(const Bounded<Wide>& number, Computed& computed) {
    computed.numbers.push_back(number.value);
    computed.errors.push_back(number.bound);
  }

  /// Where hard attention may choose another key, its value is as good: the bound reaches there.
  static void admit_others(Expected& expected) {
    for (const OtherRow& other : expected.others)
      for (std::size_t x = 0; x < other.elements.size(); ++x) {
        Element& e = expected.out[other.first + x];
        const Element& o = other.elements[x];
        if (std::isnan(e.value) && std::isnan(o.value)) continue;
        const double apart = std::fabs(o.value - e.value) + o.bound;
        e.bound = apart <= e.bound ? e.bound : std::isfinite(apart) ? apart : kInfinity;
      }
    expected.others.clear();
  }

  /// `heads` are [batch, head, row, feature] with `length` rows.
  std::vector<Element> combine(const std::vector<Element>& heads, Index rows, Index length) const {
    std::vector<Element> out;
    for (Index i = 0; i < rows; ++i) {
      std::vector<Heads<Wide>> row(size(width_));
      bool written = true;
      for (Index h = 0; h < heads_; ++h)
        for (Index x = 0; x < width_; ++x) {
          const Index line = (i / length * heads_ + h) * length + i % length;
          const Element& e = heads[size(line * width_ + x)];
          row[size(x)].push_back({static_cast<Wide>(e.value), static_cast<Wide>(e.bound)});
          written = written && e.written;
        }
      combine_row(row, written, out);
    }
    return out;
  }

  void combine_row(const std::vector<Heads<Wide>>& row, bool written,
                   std::vector<Element>& out) const {
    const Index width = product_ ? block_.w_out.out : width_;
    for (Index o = 0; o < width; ++o) {
      const Bounded<Wide> y = product_ ? times_w_out(row, o) : reduced(row[size(o)]);
      out.push_back(written ? stored(y.value, y.bound, dtype_of(block_.dtype_out, HEED_DTYPE_F32),
                                     real_dtype(d_))
                            : kUnwritten);
    }
  }

  /// HEED_COMBINE_CONCAT has one matrix for all heads, HEED_COMBINE_TENSOR one for each.
  Bounded<Wide> times_w_out(const std::vector<Heads<Wide>>& row, Index o) const {
    Terms<Real> terms;
    for (Index h = 0; h < heads_; ++h)
      for (Index x = 0; x < width_; ++x) {
        const Wide* const w = tensor_ ? w_out_[size(h)].row(x) : w_out_[0].row(h * width_ + x);
        terms.add(row[size(x)][size(h)], w[o]);
      }
    return with_bias(terms, block_.w_out, o);
  }

  Bounded<Wide> reduced(const Heads<Wide>& heads) const {
    if (block_.combine == HEED_COMBINE_MEAN) return mean_of_heads<Real>(heads);
    if (block_.combine == HEED_COMBINE_MAX) return largest_head<Real>(heads);
    return weighted_heads<Real>(heads, head_weights_.row(0));
  }

  const GivenBlock& block_;
  const heed_attention_desc& d_;
  const bool tensor_;
  const bool product_;
  const Index heads_;
  const Index width_;  ///< of a head
  std::vector<Matrix<Wide>> w_out_;
  Matrix<Wide> head_weights_{0, {}};
};

}  // namespace

Expected expect(const GivenBlock& block) {
  return is_float64(block.attention) ? BlockOracle<double>(block).run()
                                     : BlockOracle<float>(block).run();
}

}  // namespace heed_test
