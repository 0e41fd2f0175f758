#include "tests/oracle/multihead_backward.hpp"

#include <algorithm>
#include <cmath>

#include "tests/oracle/multihead_combine.hpp"

namespace heed_test {
namespace {

/// The gradient of a projection, or of heads, row by row.
template <class Wide>
struct Rows {
  Index rows, columns;
  std::vector<Bounded<Wide>> numbers;
  std::vector<bool> owned;  ///< rows that belong to sequences

  Rows(Index rows_, Index columns_)
      : rows(rows_),
        columns(columns_),
        numbers(static_cast<std::size_t>(rows_ * columns_)),
        owned(static_cast<std::size_t>(rows_), true) {}
  Bounded<Wide>& at(Index t, Index x) { return numbers[static_cast<std::size_t>(t * columns + x)]; }
  const Bounded<Wide>& at(Index t, Index x) const {
    return numbers[static_cast<std::size_t>(t * columns + x)];
  }
  bool has(Index t) const { return owned[static_cast<std::size_t>(t)]; }
};

template <class Real>
class BlockBackwardOracle {
  using Wide = typename Arithmetic<Real>::Wide;
  using Number = Bounded<Wide>;

 public:
  explicit BlockBackwardOracle(const GivenBlockBackward& given)
      : given_(given),
        block_(given.block),
        d_(given.block.attention),
        heads_(d_.query_heads),
        width_(value_features_of(d_)),
        tensor_(block_.combine == HEED_COMBINE_TENSOR),
        product_(tensor_ || block_.combine == HEED_COMBINE_CONCAT),
        queries_(length(d_.packed_queries, d_.query_length)),
        keys_(length(d_.packed_keys, d_.key_length)),
        parts_(parts_of(block_)) {}

  ExpectedBlockGradients run() {
    const Rows<Wide> heads = side_by_side(parts_.attention.out, heads_, queries_, width_);
    const Rows<Wide> grad_heads = split(heads);
    if (asked(kBlockHeadWeights)) add_head_weights(heads);
    if (asked(kBlockWOut)) add_w_out(heads);
    if (asked(kBlockBOut)) add_b_out(heads);
    const ExpectedGradients inner = differentiate(grad_heads);
    const Index key_heads = key_heads_of(d_);
    const Rows<Wide> q = side_by_side(inner[kGradQuery], heads_, queries_, d_.features);
    const Rows<Wide> k = side_by_side(inner[kGradKey], key_heads, keys_, d_.features);
    const Rows<Wide> v = side_by_side(inner[kGradValue], key_heads, keys_, width_);
    add_matrix(kBlockWQuery, kBlockBQuery, block_.input_query, queries_, block_.width_query, q);
    add_matrix(kBlockWKey, kBlockBKey, block_.input_key, keys_, block_.width_key, k);
    add_matrix(kBlockWValue, kBlockBValue, block_.input_key, keys_, block_.width_key, v);
    add_inputs(q, k, v);
    for (std::size_t of = kBlockBias; of < kBlockGradients; ++of) expected_[of] = inner[inside(of)];
    return expected_;
  }

 private:
  /// Rows of a tensor, and of one of its batch items.
  struct Length {
    Index all, each;
  };
  Length length(Index packed, Index each) const {
    if (packed > 0) return {packed, packed};
    return {d_.batch * each, each};
  }
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  bool asked(BlockGradientOf of) const { return given_.gradients.asked(of); }
  std::uint32_t real() const { return real_dtype(d_); }
  static Wide number(const Source& from, const Length& rows, Index t, Index x) {
    return static_cast<Wide>(from.at(t / rows.each, 0, t % rows.each, x));
  }

  /// Stores the next element of a gradient, which lies at this place.
  void store(BlockGradientOf of, Number x, Index b, Index i, Index o) {
    const Source& lies = given_.gradients.of[of].lies;
    if (given_.gradients.accumulate)
      x = sum<Real>(x, {static_cast<Wide>(static_cast<Real>(lies.at(b, 0, i, o))), 0});
    expected_[of].push_back(stored(x.value, x.bound, lies.dtype, real()));
  }

  /// Rows by head become rows of all heads.
  static Rows<Wide> side_by_side(const std::vector<Element>& elements, Index heads,
                                 const Length& length, Index width) {
    Rows<Wide> rows(length.all, heads * width);
    for (Index t = 0; t < length.all && !elements.empty(); ++t)
      for (Index h = 0; h < heads; ++h)
        for (Index x = 0; x < width; ++x) {
          const Index line = (t / length.each * heads + h) * length.each + t % length.each;
          const Element& e = elements[size(line * width + x)];
          rows.at(t, h * width + x) = {static_cast<Wide>(e.value), static_cast<Wide>(e.bound)};
          if (!e.written) rows.owned[size(t)] = false;
        }
    return rows;
  }

  // ---- Back through the combiner ----

  Wide grad_out(Index t, Index x) const { return number(given_.gradients.out, queries_, t, x); }

  Wide w_out(Index i, Index o) const {
    const Source& w = block_.w_out.matrix;
    return static_cast<Wide>(tensor_ ? w.at(i / width_, 0, i % width_, o) : w.at(0, 0, i, o));
  }
  Wide head_weight(Index h) const { return static_cast<Wide>(block_.head_weights.at(0, 0, 0, h)); }

  Rows<Wide> split(const Rows<Wide>& heads) const {
    Rows<Wide> grads(queries_.all, heads_ * width_);
    grads.owned = heads.owned;
    for (Index t = 0; t < queries_.all; ++t)
      for (Index i = 0; heads.has(t) && i < heads_ * width_; ++i)
        grads.at(t, i) = product_ ? times_w_out(t, i) : reduced(heads, t, i);
    return grads;
  }

  Number times_w_out(Index t, Index i) const {
    BoundedSum<Real> terms;
    for (Index o = 0; o < block_.w_out.out; ++o)
      terms.add(exact(grad_out(t, o)), exact(w_out(i, o)));
    return terms.result();
  }

  Number reduced(const Rows<Wide>& heads, Index t, Index i) const {
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
    Heads<Wide> all;
    for (Index h = 0; h < heads_; ++h) all.push_back(heads.at(t, h * width_ + i % width_));
    return gradient_of_largest(all, size(i / width_), Number{g, 0});
  }

  // ---- Sums over rows ----

  void add_head_weights(const Rows<Wide>& heads) {
    for (Index h = 0; h < heads_; ++h) {
      BoundedSum<Real> terms;
      for (Index t = 0; t < queries_.all; ++t)
        for (Index x = 0; heads.has(t) && x < width_; ++x)
          terms.add(heads.at(t, h * width_ + x), exact(grad_out(t, x)));
      store(kBlockHeadWeights, terms.result(1), 0, 0, h);
    }
  }

  /// The sum over rows t of number i of each and x(t).
  template <class X>
  static Number over_rows(const Rows<Wide>& of, Index i, X&& x) {
    BoundedSum<Real> terms;
    for (Index t = 0; t < of.rows; ++t)
      if (of.has(t)) terms.add(of.at(t, i), exact(x(t)));
    return terms.result();
  }

  void add_w_out(const Rows<Wide>& heads) {
    for (Index i = 0; i < heads_ * width_; ++i)
      for (Index o = 0; o < block_.w_out.out; ++o)
        store(kBlockWOut, over_rows(heads, i, [&](Index t) { return grad_out(t, o); }),
              tensor_ ? i / width_ : 0, tensor_ ? i % width_ : i, o);
  }

  void add_b_out(const Rows<Wide>& heads) {
    for (Index o = 0; o < block_.w_out.out; ++o) {
      BoundedSum<Real> terms;
      for (Index t = 0; t < queries_.all; ++t)
        if (heads.has(t)) terms.add(exact(grad_out(t, o)));
      store(kBlockBOut, terms.result(), 0, 0, o);
    }
  }

  void add_matrix(BlockGradientOf matrix, BlockGradientOf bias, const Source& input,
                  const Length& rows, Index width, const Rows<Wide>& gradient) {
    for (Index i = 0; asked(matrix) && i < width; ++i)
      for (Index o = 0; o < gradient.columns; ++o)
        store(matrix, over_rows(gradient, o, [&](Index t) { return number(input, rows, t, i); }), 0,
              i, o);
    for (Index o = 0; asked(bias) && o < gradient.columns; ++o)
      store(bias, over_rows(gradient, o, [](Index) { return Wide{1}; }), 0, 0, o);
  }

  // ---- The attention inside ----

  ExpectedGradients differentiate(const Rows<Wide>& grad_heads) const {
    Computed grads{heads_ * width_, {}, {}};
    for (const Number& x : grad_heads.numbers) {
      grads.numbers.push_back(x.value);
      grads.errors.push_back(x.bound);
    }
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

  // ---- Back to the inputs ----

  /// What one projection adds to feature x of row t of its input.
  static void add_input(BoundedSum<Real>& terms, const Rows<Wide>& gradient, const GivenMatrix& w,
                        Index t, Index x) {
    for (Index o = 0; o < gradient.columns; ++o)
      terms.add(gradient.at(t, o), exact(static_cast<Wide>(w.matrix.at(0, 0, x, o))));
  }

  void add_inputs(const Rows<Wide>& q, const Rows<Wide>& k, const Rows<Wide>& v) {
    const auto add = [&](BlockGradientOf of, const Length& rows, Index width, bool from_query,
                         bool from_key) {
      for (Index t = 0; asked(of) && t < rows.all; ++t) {
        const bool has_query = from_query && q.has(t);
        const bool has_key = from_key && t < keys_.all && k.has(t);
        for (Index x = 0; x < width; ++x) {
          BoundedSum<Real> terms;
          if (has_query) add_input(terms, q, block_.w_query, t, x);
          if (has_key) add_input(terms, k, block_.w_key, t, x);
          if (has_key) add_input(terms, v, block_.w_value, t, x);
          if (has_query || has_key)
            store(of, terms.result(), t / rows.each, t % rows.each, x);
          else
            expected_[of].push_back(kUnwritten);
        }
      }
    };
    add(kBlockInputQuery, queries_, block_.width_query, true, given_.one_input);
    add(kBlockInputKey, keys_, block_.width_key, false, true);
  }

  const GivenBlockBackward& given_;
  const GivenBlock& block_;
  const heed_attention_desc& d_;
  const Index heads_;
  const Index width_;  ///< of a head
  const bool tensor_, product_;
  const Length queries_, keys_;
  const BlockParts parts_;
  ExpectedBlockGradients expected_;
};

}  // namespace

ExpectedBlockGradients expect_block_gradients(const GivenBlockBackward& given) {
  return is_float64(given.block.attention) ? BlockBackwardOracle<double>(given).run()
                                           : BlockBackwardOracle<float>(given).run();
}

}  // namespace heed_test
