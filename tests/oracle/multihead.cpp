#include "tests/oracle/multihead.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/oracle/multihead_combine.hpp"
#include "tests/oracle/project.hpp"

namespace heed_test {
namespace {

template <class Real>
class BlockOracle {
  using Wide = typename Arithmetic<Real>::Wide;

 public:
  explicit BlockOracle(const GivenBlock& block)
      : block_(block),
        in_bfloat16_(block.rounds || (block.pairs && block.input_query.dtype == HEED_DTYPE_BF16)),
        tensor_(block.combine == HEED_COMBINE_TENSOR),
        product_(tensor_ || block.combine == HEED_COMBINE_CONCAT),
        d_(attention_of(block)),
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
    Expected expected = parts().attention;
    const Index queries = rows(d_.packed_queries, d_.query_length);
    expected.out =
        combine(expected.out, queries, d_.packed_queries > 0 ? queries : d_.query_length);
    return expected;
  }

  BlockParts parts() const {
    const Index queries = rows(d_.packed_queries, d_.query_length);
    const Index keys = rows(d_.packed_keys, d_.key_length);
    const bool packed_q = d_.packed_queries > 0;
    const bool packed_k = d_.packed_keys > 0;
    const Index query_length = packed_q ? queries : d_.query_length;
    const Index key_length = packed_k ? keys : d_.key_length;
    Projections projections = {
        project(block_.input_query, queries, query_length, block_.width_query, block_.w_query,
                block_.rows),
        project(block_.input_key, keys, key_length, block_.width_key, block_.w_key),
        project(block_.input_key, keys, key_length, block_.width_key, block_.w_value)};
    const Given given = {d_,          block_.arguments, block_.function, &projections,
                         block_.rows, in_bfloat16_,     parts_between()};
    Expected expected = expect(given);
    admit_others(expected);
    return {std::move(projections), std::move(expected)};
  }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  /// The heads are bfloat16 where a product reads them as that.
  heed_attention_desc attention_of(const GivenBlock& block) const {
    heed_attention_desc desc = block.attention;
    if (in_bfloat16_ && product_) desc.out.dtype = HEED_DTYPE_BF16;
    return desc;
  }
  Multiplied multiplied(std::uint32_t x, std::uint32_t w) const {
    if (block_.parts) return in_parts(x, w, block_.high);
    return block_.pairs ? in_pairs(x, w, block_.rounds) : Multiplied{};
  }
  /// Of queries, keys and values, weights and values.
  Parts parts_between() const {
    return {block_.high && !in_bfloat16_ && d_.hard == 0 ? 2 : 0, false};
  }

  Index rows(Index packed, Index length) const { return packed > 0 ? packed : d_.batch * length; }

  /// Rows of inputs, `length` of them per item of the batch, times a matrix, plus its bias.
  /// `wanted` are the only ones that are computed; empty: all.
  Computed project(const Source& input, Index rows, Index length, Index width, const GivenMatrix& w,
                   const std::vector<Index>& wanted = {}) const {
    const auto matrix = rows_of<Wide>(w.matrix, 0, 0, 0, width, w.out);
    Computed computed{w.out, std::vector<long double>(size(rows * w.out))};
    computed.errors.resize(computed.numbers.size());
    for (Index i = 0; i < rows; ++i) {
      if (!is_wanted(wanted, i % length)) continue;
      const auto x = rows_of<Wide>(input, i / length, 0, i % length, 1, width);
      if (block_.exact_projections)
        project_exactly(x, matrix, w, computed.numbers.data() + i * w.out);
      else
        project_row(x, matrix, w, i, multiplied(input.dtype, w.matrix.dtype), computed);
    }
    if (in_bfloat16_) round(computed);
    return computed;
  }

  /// To bfloat16.
  static void round(Computed& computed) {
    for (std::size_t i = 0; i < computed.numbers.size(); ++i) {
      const Element e =
          stored(static_cast<Wide>(computed.numbers[i]), static_cast<Wide>(computed.errors[i]),
                 HEED_DTYPE_BF16, HEED_DTYPE_F32);
      computed.numbers[i] = e.value;
      computed.errors[i] = e.bound;
    }
  }

  static bool is_wanted(const std::vector<Index>& wanted, Index row) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), row) != wanted.end();
  }

  static void project_row(const Matrix<Wide>& x, const Matrix<Wide>& matrix, const GivenMatrix& w,
                          Index row, const Multiplied& as, Computed& computed) {
    for (Index o = 0; o < w.out; ++o) {
      const Bounded<Wide> number = projected_row<Real>(x.row(0), matrix, w, o, as);
      computed.numbers[size(row * w.out + o)] = number.value;
      computed.errors[size(row * w.out + o)] = number.bound;
    }
  }

  /// Without bounds this is a sum of rows, which takes a tenth of the time.
  static void project_exactly(const Matrix<Wide>& x, const Matrix<Wide>& matrix,
                              const GivenMatrix& w, long double* to) {
    std::vector<Wide> sums(size(w.out));
    for (Index f = 0; f < x.columns; ++f)
      for (Index o = 0; o < w.out; ++o) sums[size(o)] += x.numbers[size(f)] * matrix.row(f)[o];
    for (Index o = 0; o < w.out; ++o)
      to[o] = sums[size(o)] + (w.bias.data != nullptr ? w.bias.at(0, 0, 0, o) : 0);
  }

  static Bounded<Wide> with_bias(BoundedSum<Real>& terms, const GivenMatrix& w, Index o) {
    if (w.bias.data != nullptr) terms.add(exact(static_cast<Wide>(w.bias.at(0, 0, 0, o))));
    return terms.result();
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
      if (!is_wanted(block_.rows, i % length)) {
        out.insert(out.end(), size(out_width()), kUnwritten);
        continue;
      }
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

  Index out_width() const {
    if (product_) return block_.w_out.out;
    return block_.combine == HEED_COMBINE_HEADS ? heads_ * width_ : width_;
  }

  void combine_row(const std::vector<Heads<Wide>>& row, bool written,
                   std::vector<Element>& out) const {
    std::vector<BoundedSum<Real>> terms =
        product_ ? times_w_out(row) : std::vector<BoundedSum<Real>>();
    for (Index o = 0; o < out_width(); ++o) {
      const Bounded<Wide> y = product_ ? with_bias(terms[size(o)], block_.w_out, o)
                              : block_.combine == HEED_COMBINE_HEADS
                                  ? row[size(o % width_)][size(o / width_)]
                                  : reduced(row[size(o)]);
      out.push_back(written ? stored(y.value, y.bound, dtype_of(block_.dtype_out, HEED_DTYPE_F32),
                                     real_dtype(d_))
                            : kUnwritten);
    }
  }

  /// HEED_COMBINE_CONCAT has one matrix for all heads, HEED_COMBINE_TENSOR one for each.
  std::vector<BoundedSum<Real>> times_w_out(const std::vector<Heads<Wide>>& row) const {
    const std::uint32_t heads = in_bfloat16_ ? std::uint32_t{HEED_DTYPE_BF16} : real_dtype(d_);
    const Multiplied as = multiplied(heads, block_.w_out.matrix.dtype);
    std::vector<BoundedSum<Real>> terms(size(block_.w_out.out), BoundedSum<Real>(as));
    for (Index h = 0; h < heads_; ++h)
      for (Index x = 0; x < width_; ++x) {
        const Wide* const w = tensor_ ? w_out_[size(h)].row(x) : w_out_[0].row(h * width_ + x);
        for (Index o = 0; o < block_.w_out.out; ++o)
          terms[size(o)].add(row[size(x)][size(h)], seen<Real>(w[o], as));
      }
    return terms;
  }

  Bounded<Wide> reduced(const Heads<Wide>& heads) const {
    if (block_.combine == HEED_COMBINE_MEAN) return mean_of_heads<Real>(heads);
    if (block_.combine == HEED_COMBINE_MAX) return largest_head<Real>(heads);
    return weighted_heads<Real>(heads, head_weights_.row(0));
  }

  const GivenBlock& block_;
  const bool in_bfloat16_;  ///< what lies between products
  const bool tensor_;
  const bool product_;
  const heed_attention_desc d_;
  const Index heads_;
  const Index width_;  ///< of a head
  std::vector<Matrix<Wide>> w_out_;
  Matrix<Wide> head_weights_{0, {}};
};

}  // namespace

bool may_pair(const GivenBlock& block) {
  return block.input_query.dtype == HEED_DTYPE_BF16 || block.input_key.dtype == HEED_DTYPE_BF16;
}

Expected expect(const GivenBlock& block) {
  if (is_float64(block.attention)) return BlockOracle<double>(block).run();
  Expected expected = BlockOracle<float>(block).run();
  if (block.pairs) return expected;
  if (block.tells_parts) {
    GivenBlock in_parts = block;
    in_parts.pairs = in_parts.parts = true;
    expected.parts = std::make_shared<const Expected>(BlockOracle<float>(in_parts).run());
  }
  if (!may_pair(block)) return expected;
  GivenBlock in_pairs = block;
  in_pairs.pairs = true;
  expected.pairs = std::make_shared<const Expected>(BlockOracle<float>(in_pairs).run());
  return expected;
}

BlockParts parts_of(const GivenBlock& block) {
  return is_float64(block.attention) ? BlockOracle<double>(block).parts()
                                     : BlockOracle<float>(block).parts();
}

}  // namespace heed_test
