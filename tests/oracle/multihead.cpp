#include "tests/oracle/multihead.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/oracle/gradient.hpp"
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
        width_(value_features_of(d_)),
        queries_(d_, d_.packed_queries, d_.query_length),
        keys_(d_, d_.packed_keys, d_.key_length) {
    if (product_) {
      const Multiplied as = multiplied_out();
      w_out_ = rows_of<Wide>(block.w_out.matrix, 0, heads_ * width_, block.w_out.out, [&](Index i) {
        return tensor_ ? RowPlace{i / width_, i % width_} : RowPlace{0, i};
      });
      if (as.rounds) round_to_bfloat16<Real>(w_out_);
    }
    if (block.combine == HEED_COMBINE_WEIGHTED)
      head_weights_ = rows_of<Wide>(block.head_weights, 0, 0, 0, 1, heads_);
  }

  /// `out` is [batch, 1, rows, width_out], packed: batch 1; the others are the attention's.
  Expected run() {
    Expected expected = parts().attention;
    expected.out = combine(side_by_side<Wide>(expected.out, heads_, queries_, width_));
    return expected;
  }

  BlockParts parts() const {
    Projections projections = {
        project(block_.input_query, queries_, block_.width_query, block_.w_query, block_.rows),
        project(block_.input_key, keys_, block_.width_key, block_.w_key),
        project(block_.input_key, keys_, block_.width_key, block_.w_value)};
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
  Multiplied multiplied_out() const {
    const std::uint32_t heads = in_bfloat16_ ? std::uint32_t{HEED_DTYPE_BF16} : real_dtype(d_);
    return multiplied(heads, block_.w_out.matrix.dtype);
  }
  /// Of queries, keys and values, weights and values.
  Parts parts_between() const {
    return {block_.high && !in_bfloat16_ && d_.hard == 0 ? 2 : 0, false};
  }

  /// Rows of inputs times a matrix, plus its bias. `wanted` are the only ones of each item of the
  /// batch that are computed; empty: all.
  Computed project(const Source& input, const Length& rows, Index width, const GivenMatrix& w,
                   const std::vector<Index>& wanted = {}) const {
    const Multiplied as = multiplied(input.dtype, w.matrix.dtype);
    auto matrix = rows_of<Wide>(w.matrix, 0, 0, 0, width, w.out);
    if (as.rounds) round_to_bfloat16<Real>(matrix);
    Computed computed{w.out, std::vector<Bounded<long double>>(size(rows.all * w.out))};
    for (Index i = 0; i < rows.all; ++i) {
      if (!is_wanted(wanted, i % rows.each)) continue;
      auto x = rows_of<Wide>(input, i / rows.each, 0, i % rows.each, 1, width);
      if (as.rounds) round_to_bfloat16<Real>(x);
      if (block_.exact_projections) project_exactly(x, matrix, w, computed.row(i));
      for (Index o = 0; !block_.exact_projections && o < w.out; ++o) {
        const Bounded<Wide> y = projected<Real>(x.row(0), matrix, w.bias, o, as);
        computed.row(i)[o] = {y.value, y.bound};
      }
    }
    if (in_bfloat16_) round(computed);
    return computed;
  }

  /// To bfloat16.
  static void round(Computed& computed) {
    for (Bounded<long double>& x : computed.numbers) {
      const Element e = stored(static_cast<Wide>(x.value), static_cast<Wide>(x.bound),
                               HEED_DTYPE_BF16, HEED_DTYPE_F32);
      x = {e.value, e.bound};
    }
  }

  static bool is_wanted(const std::vector<Index>& wanted, Index row) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), row) != wanted.end();
  }

  /// Without bounds this is a sum of rows, which takes a tenth of the time.
  static void project_exactly(const BoundedRows<Wide>& x, const BoundedRows<Wide>& matrix,
                              const GivenMatrix& w, Bounded<long double>* to) {
    std::vector<Wide> sums(size(w.out));
    for (Index f = 0; f < x.columns; ++f)
      for (Index o = 0; o < w.out; ++o) sums[size(o)] += x.row(0)[f].value * matrix.row(f)[o].value;
    for (Index o = 0; o < w.out; ++o)
      to[o].value = sums[size(o)] + (w.bias.data != nullptr ? w.bias.at(0, 0, 0, o) : 0);
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

  std::vector<Element> combine(const HeadRows<Wide>& heads) const {
    const Index width = product_                               ? block_.w_out.out
                        : block_.combine == HEED_COMBINE_HEADS ? heads_ * width_
                                                               : width_;
    std::vector<Element> out;
    for (Index t = 0; t < queries_.all; ++t)
      for (Index o = 0; o < width; ++o)
        out.push_back(heads.has(t) ? combined_element(heads.row(t), o) : kUnwritten);
    return out;
  }

  Element combined_element(const Bounded<Wide>* row, Index o) const {
    const Bounded<Wide> y =
        product_ ? projected<Real>(row, w_out_, block_.w_out.bias, o, multiplied_out())
                 : combined<Real>(block_.combine, row, heads_, width_, o, head_weights_.row(0));
    return stored(y.value, y.bound, dtype_of(block_.dtype_out, HEED_DTYPE_F32), real_dtype(d_));
  }

  const GivenBlock& block_;
  const bool in_bfloat16_;  ///< what lies between products
  const bool tensor_;
  const bool product_;
  const heed_attention_desc d_;
  const Index heads_;
  const Index width_;  ///< of a head
  const Length queries_, keys_;
  BoundedRows<Wide> w_out_{0};  ///< one matrix for all heads, or one for each below each other
  BoundedRows<Wide> head_weights_{0};
};

template <class Real>
class BlockBackwardOracle {
  using Wide = typename Arithmetic<Real>::Wide;
  using Number = Bounded<Wide>;
  using Rows = HeadRows<Wide>;

 public:
  explicit BlockBackwardOracle(const GivenBlockBackward& given)
      : given_(given),
        block_(given.block),
        d_(given.block.attention),
        heads_(d_.query_heads),
        width_(value_features_of(d_)),
        tensor_(block_.combine == HEED_COMBINE_TENSOR),
        product_(tensor_ || block_.combine == HEED_COMBINE_CONCAT),
        queries_(d_, d_.packed_queries, d_.query_length),
        keys_(d_, d_.packed_keys, d_.key_length),
        parts_(parts_of(block_)) {
    for (std::size_t of = 0; of < kBlockBias; ++of)
      gradients_[of] = {given.gradients.of[of], of > kBlockInputKey};
  }

  ExpectedBlockGradients run() {
    const Rows heads = side_by_side<Wide>(parts_.attention.out, heads_, queries_, width_);
    const Rows grad_heads = split(heads);
    add_head_weights(heads);
    if (product_) add_w_out(heads);
    const ExpectedGradients inner = differentiate(grad_heads);
    const Index key_heads = key_heads_of(d_);
    const Rows q = side_by_side<Wide>(inner[kGradQuery], heads_, queries_, d_.features);
    const Rows k = side_by_side<Wide>(inner[kGradKey], key_heads, keys_, d_.features);
    const Rows v = side_by_side<Wide>(inner[kGradValue], key_heads, keys_, width_);
    pass_on(kBlockWQuery, block_.input_query, queries_, block_.width_query, block_.w_query, q);
    pass_on(kBlockWKey, block_.input_key, keys_, block_.width_key, block_.w_key, k);
    pass_on(kBlockWValue, block_.input_key, keys_, block_.width_key, block_.w_value, v);
    ExpectedBlockGradients expected;
    for (std::size_t of = 0; of < kBlockBias; ++of)
      expected[of] = gradients_[of].elements({1, 0}, of == kBlockHeadWeights ? 1 : 0,
                                             given_.gradients.accumulate, real());
    for (std::size_t of = kBlockBias; of < kBlockGradients; ++of) expected[of] = inner[inside(of)];
    return expected;
  }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  std::uint32_t real() const { return real_dtype(d_); }

  // ---- Back through the combiner ----

  Wide grad_out(Index t, Index x) const {
    return static_cast<Wide>(given_.gradients.out.at(t / queries_.each, 0, t % queries_.each, x));
  }

  Wide w_out(Index i, Index o) const {
    const Source& w = block_.w_out.matrix;
    return static_cast<Wide>(tensor_ ? w.at(i / width_, 0, i % width_, o) : w.at(0, 0, i, o));
  }
  Wide head_weight(Index h) const { return static_cast<Wide>(block_.head_weights.at(0, 0, 0, h)); }

  Rows split(const Rows& heads) const {
    Rows grads = heads;
    for (Index t = 0; t < queries_.all; ++t)
      for (Index i = 0; i < grads.columns; ++i)
        grads.row(t)[i] = !heads.has(t) ? Number{0, 0}
                          : product_    ? times_w_out(t, i)
                                        : reduced(heads.row(t), t, i);
    return grads;
  }

  Number times_w_out(Index t, Index i) const {
    BoundedSum<Real> terms;
    for (Index o = 0; o < block_.w_out.out; ++o)
      terms.add(exact(grad_out(t, o)), exact(w_out(i, o)));
    return terms.result();
  }

  Number reduced(const Number* heads, Index t, Index i) const {
    if (block_.combine == HEED_COMBINE_HEADS) return {grad_out(t, i), 0};
    const Wide g = grad_out(t, i % width_);
    if (block_.combine == HEED_COMBINE_WEIGHTED)
      return product<Real>({head_weight(i / width_), 0}, {g, 0});
    if (block_.combine == HEED_COMBINE_MEAN) {
      BoundedSum<Real> terms;
      terms.add(exact(g));
      const Number one = terms.result(2);
      const auto count = static_cast<Wide>(heads_);
      return {one.value / count, one.bound / count + 2 * Arithmetic<Real>::kUnderflow};
    }
    const Heads<Wide> all = feature_of(heads, heads_, width_, i % width_);
    return gradient_of_largest(all, size(i / width_), Number{g, 0});
  }

  // ---- Sums over rows ----

  void add_head_weights(const Rows& heads) {
    Gradient<Real>& to = gradients_[kBlockHeadWeights];
    for (Index t = 0; to.asked() && t < queries_.all; ++t)
      for (Index i = 0; heads.has(t) && i < heads.columns; ++i)
        to.at(0, 0, 0, i / width_).add(heads.row(t)[i], exact(grad_out(t, i % width_)));
  }

  void add_w_out(const Rows& heads) {
    for (Index t = 0; t < queries_.all; ++t)
      for (Index o = 0; heads.has(t) && o < block_.w_out.out; ++o)
        add_to(kBlockWOut, o, heads.columns, exact(grad_out(t, o)),
               [&](Index i) { return heads.row(t)[i]; });
  }

  /// What column o of x W + b has passed on by x(i) to W and b, of `in` rows.
  template <class X>
  void add_to(BlockGradientOf of, Index o, Index in, const Number& gradient, X&& x) {
    Gradient<Real>& bias = gradients_[of - kBlockWQuery + kBlockBQuery];
    if (bias.asked()) bias.at(0, 0, 0, o).add(gradient);
    Gradient<Real>& matrix = gradients_[of];
    const bool each = of == kBlockWOut && tensor_;  // a matrix per head
    for (Index i = 0; matrix.asked() && i < in; ++i)
      matrix.at(each ? i / width_ : 0, 0, each ? i % width_ : i, o).add(gradient, x(i));
  }

  // ---- The attention inside ----

  ExpectedGradients differentiate(const Rows& grad_heads) const {
    Computed grads{grad_heads.columns};
    for (const Number& x : grad_heads.numbers) grads.numbers.push_back({x.value, x.bound});
    static char asked_for;
    const auto rows = [&](Index packed, Index heads, const Length& length, Index features) {
      return GivenGradient{{&asked_for, real(), {}},
                           {packed > 0 ? 1 : d_.batch, heads, length.each, features}};
    };
    GivenGradients<kGradients> gradients;
    gradients.accumulate = given_.gradients.accumulate;
    gradients.lse = given_.gradients.lse;
    gradients.of[kGradQuery] = rows(d_.packed_queries, heads_, queries_, d_.features);
    gradients.of[kGradKey] = rows(d_.packed_keys, key_heads_of(d_), keys_, d_.features);
    gradients.of[kGradValue] = rows(d_.packed_keys, key_heads_of(d_), keys_, width_);
    for (std::size_t of = kBlockBias; of < kBlockGradients; ++of)
      gradients.of[inside(of)] = given_.gradients.of[of];
    const BlockInside inside = {parts_.projections, parts_.attention.out, parts_.attention.lse,
                                grads};
    return expect_gradients(
        {d_, block_.arguments, block_.function, given_.derivative, gradients, &inside});
  }

  // ---- Back through the projections ----

  /// What reaches a projection, to its matrix, its bias and its input.
  void pass_on(BlockGradientOf of, const Source& input, const Length& rows, Index width,
               const GivenMatrix& w, const Rows& gradient) {
    const bool of_query = of == kBlockWQuery || given_.one_input;
    Gradient<Real>& to = gradients_[of_query ? kBlockInputQuery : kBlockInputKey];
    for (Index t = 0; t < rows.all; ++t) {
      if (!gradient.has(t)) continue;
      const Index b = t / rows.each, i = t % rows.each;
      to.mark(b, 0, i);
      for (Index o = 0; o < gradient.columns; ++o)
        add_to(of, o, width, gradient.row(t)[o],
               [&](Index x) { return exact(static_cast<Wide>(input.at(b, 0, i, x))); });
      for (Index x = 0; to.asked() && x < width; ++x)
        for (Index o = 0; o < gradient.columns; ++o)
          to.at(b, 0, i, x)
              .add(gradient.row(t)[o], exact(static_cast<Wide>(w.matrix.at(0, 0, x, o))));
    }
  }

  const GivenBlockBackward& given_;
  const GivenBlock& block_;
  const heed_attention_desc& d_;
  const Index heads_;
  const Index width_;  ///< of a head
  const bool tensor_, product_;
  const Length queries_, keys_;
  const BlockParts parts_;
  std::array<Gradient<Real>, kBlockGradients> gradients_;  ///< without the attention's
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

ExpectedBlockGradients expect_block_gradients(const GivenBlockBackward& given) {
  return is_float64(given.block.attention) ? BlockBackwardOracle<double>(given).run()
                                           : BlockBackwardOracle<float>(given).run();
}

}  // namespace heed_test
