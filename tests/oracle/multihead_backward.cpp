#include "tests/oracle/multihead_backward.hpp"

#include <algorithm>
#include <cmath>

#include "tests/oracle/gradient.hpp"
#include "tests/oracle/multihead_combine.hpp"

namespace heed_test {
namespace {

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

ExpectedBlockGradients expect_block_gradients(const GivenBlockBackward& given) {
  return is_float64(given.block.attention) ? BlockBackwardOracle<double>(given).run()
                                           : BlockBackwardOracle<float>(given).run();
}

}  // namespace heed_test
