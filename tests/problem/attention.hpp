// An attention problem with everything that it may have, its gradients, and the one line that
// describes each.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/backward.hpp"
#include "tests/oracle/dense.hpp"
#include "tests/problem/gradients.hpp"
#include "tests/problem/laid_out.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"
#include "tests/support/score_functions.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

/// heed_dtypes.
struct Types {
  std::uint32_t query = HEED_DTYPE_DEFAULT;
  std::uint32_t key = HEED_DTYPE_DEFAULT;
  std::uint32_t value = HEED_DTYPE_DEFAULT;
  std::uint32_t out = HEED_DTYPE_DEFAULT;
};

inline Types all_of(std::uint32_t dtype) { return {dtype, dtype, dtype, dtype}; }

/// Where the sequences of a packed batch begin, and where the last ends; empty: not packed. `rows`
/// of the tensors, 0: up to the end of the last sequence, but at least 1.
struct Packing {
  std::vector<std::int32_t> offsets = {};
  std::int64_t rows = 0;

  bool packed() const { return !offsets.empty(); }
  std::int64_t all_rows() const;
};

/// What the four tensors are made of; all else is set in Problem::desc or added.
struct Sizes {
  std::int64_t query_length;  ///< packed: at least the longest sequence's
  std::int64_t key_length;
  std::int64_t features;
  std::int64_t value_features;
  std::int64_t batch = 1;
  std::int64_t query_heads = 1;
  std::int64_t key_heads = 1;
  std::uint32_t causal = HEED_CAUSAL_NONE;
  std::int64_t causal_offset = 0;
  double scale = 0;
  Types types = {};
  Packing queries = {};
  Packing keys = {};
};

inline Axes pairs_of(const heed_attention_desc& d) {
  return {d.batch, d.query_heads, d.query_length, d.key_length};
}

/// Shapes of the four tensors: packed ones are [1, heads, rows, features], and keys and values in
/// pages [pages, heads, rows of a page, features].
struct AttentionShapes {
  explicit AttentionShapes(const heed_attention_desc& desc);
  Axes query, key, value, out;
};

/// The layouts of a descriptor, some of which a problem may have no tensors for.
struct LaidOutAttention {
  explicit LaidOutAttention(heed_attention_desc& desc);
  LaidOut query, key, value, out, key_scales, value_scales, mask, bias, lse, weights, column_sums;

  /// Of all tensors that a run may have; those of a block have no query, key, value and out.
  std::vector<LaidOut> all(bool of_block) const;

 private:
  LaidOutAttention(heed_attention_desc& desc, const AttentionShapes& shapes);
  const heed_attention_desc& desc_;
};

/// An array of Real, as slopes and sinks are.
class RealArray {
 public:
  std::vector<double> numbers = {};

  const void* data(bool float64);

 private:
  std::vector<float> narrow_ = {};
};

/// An attention problem with its tensors.
class Problem {
 public:
  explicit Problem(const Sizes& sizes);
  /// Of a valid descriptor, and of no tensors but query, key, value and out.
  static Problem of(const heed_attention_desc& desc, std::size_t misalign = 0) {
    return Problem(misalign, desc);
  }

  /// Normally distributed numbers, rounded to their types, those of 8 bits as a cache would do it.
  /// Scores then have a standard deviation of scale sqrt(D)
  /// amplitude^2.
  void fill(std::uint64_t seed, float amplitude = 1);

  /// Rounds what next() gives, one after the other and `largest` at most, to the type of keys, or
  /// values: those of 8 bits as a cache does it.
  void store(Tensor Problem::*tensor, double largest, const std::function<double()>& next);

  /// Puts `special` into keys, or values, where where(index) is true; of those of
  /// 8 bits NaN, and of integers only into a row's scale.
  template <class Where>
  void spoil(Tensor Problem::*tensor, Where&& where, double special) {
    if ((this->*tensor).dtype() != HEED_DTYPE_I8) return (this->*tensor).set_where(where, special);
    Tensor& scales = tensor == &Problem::key ? *key_scales : *value_scales;
    (this->*tensor).each([&](const Axes& at) {
      if (where(at)) scales.set({at[0], at[1], at[2], 0}, kNaN);
    });
  }

  /// A mask or bias of these sizes, each the problem's or 1. A mask begins as all true, a bias as
  /// all 0.
  Tensor& add_mask(const Axes& sizes, Arrangement arrangement = Arrangement::kDefault);
  Tensor& add_bias(const Axes& sizes, std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                   Arrangement arrangement = Arrangement::kDefault);
  /// [batch, heads, rows, keys], what a mask or bias is without repetition.
  Axes pairs() const { return pairs_of(desc); }

  /// Takes over what another problem does to scores, but for what has one number per pair, and for
  /// sinks and causal, which depend on what part of it this one is.
  void score_as(const Problem& other);

  /// Without dropout.
  void keep_all_weights() {
    desc.dropout = 0;
    dropout_seed = dropout_offset = 0;
    dropout_origin.clear();
  }

  /// Outputs besides `out`.
  void want_lse(std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                Arrangement arrangement = Arrangement::kDefault);
  void want_weights(heed_weights_point point, std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                    Arrangement arrangement = Arrangement::kDefault,
                    const std::vector<std::int64_t>& rows = {});
  void want_column_sums(std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                        Arrangement arrangement = Arrangement::kDefault);
  void want_nothing_else();

  /// What heed gets; valid until the problem is changed.
  heed_attention_args args();

  Expected expected(heed_precision precision = HEED_PRECISION_DEFAULT) {
    return expect(desc, args(), function.model, precision);
  }

  /// Calls function(tensor, layout) for every tensor that there is.
  template <class Function>
  void each_laid(Function&& function) {
    const LaidOutAttention laid(desc);
    function(query, laid.query);
    function(key, laid.key);
    function(value, laid.value);
    function(out, laid.out);
    if (desc.key.dtype == HEED_DTYPE_I8) function(*key_scales, laid.key_scales);
    if (desc.value.dtype == HEED_DTYPE_I8) function(*value_scales, laid.value_scales);
    if (mask) function(*mask, laid.mask);
    if (bias) function(*bias, laid.bias);
    if (lse) function(*lse, laid.lse);
    if (weights) function(*weights, laid.weights);
    if (column_sums) function(*column_sums, laid.column_sums);
  }

  /// Everything that a run writes; throws if it writes anything else.
  Outputs run_all(const Context& context);
  /// The same of another call with these arguments.
  Outputs run_all(const std::function<heed_status(const heed_attention_args&)>& call);
  Outputs run_all(const char* isa) { return run_all(make_context(isa)); }
  /// What run() writes into this tensor for out and all that else is asked for; throws if it writes
  /// anything else.
  Outputs written_by(const std::function<void()>& run, Tensor& to);

  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  Tensor query, key, value, out;
  std::optional<Tensor> key_scales, value_scales;  ///< where keys, or values, are of 8 bits
  std::optional<Tensor> mask, bias;
  std::optional<Tensor> lse, weights, column_sums;
  std::vector<std::int32_t> cu_seqlens_q, cu_seqlens_k, key_lengths, first_keys, block_table;
  RealArray slopes, sinks;  ///< .numbers: one per query head, or none
  RealArray score_weights;  ///< with HEED_SCORE_ADDITIVE, and some with HEED_SCORE_COSINE
  std::uint64_t dropout_seed = 0, dropout_offset = 0;
  std::vector<std::int64_t> dropout_origin;  ///< [4], or none
  ScoreFunction function;
  std::vector<std::int64_t> weight_rows;
  std::shared_ptr<TileCheck> tiles;  ///< what the score function of the latest args() saw

 private:
  Problem(std::size_t misalign, const heed_attention_desc& desc_);

  Tensor& add(std::optional<Tensor>& tensor, LaidOut LaidOutAttention::*laid, std::uint32_t dtype,
              Arrangement arrangement);

  std::size_t misalign_;  ///< of what is added
};

/// A list of int32 among the arguments of a run, whose name is the same in Python.
struct IndexList {
  const char* name;
  std::vector<std::int32_t> Problem::*indices;
  const std::int32_t* heed_attention_args::*argument;
  /// Says which of a sequence's keys its rows attend: a number for each. Over ranks none may.
  bool says_attended = false;
};
inline constexpr IndexList kIndexLists[] = {
    {"cu_seqlens_q", &Problem::cu_seqlens_q, &heed_attention_args::cu_seqlens_q},
    {"cu_seqlens_k", &Problem::cu_seqlens_k, &heed_attention_args::cu_seqlens_k},
    {"key_lengths", &Problem::key_lengths, &heed_attention_args::key_lengths},
    {"block_table", &Problem::block_table, &heed_attention_args::block_table},
    {"first_keys", &Problem::first_keys, &heed_attention_args::first_keys, true},
};

/// What its four tensors are made of; the descriptor may leave sizes at their defaults.
Sizes sizes_of(const Problem& p);

const char* name_of_point(std::uint32_t point);

/// One line that identifies a descriptor; options at their defaults are left out.
std::string line_of(const heed_attention_desc& d);

/// One line that identifies a problem but for its numbers.
std::string line_of(const Problem& p);

/// The gradients that a run wrote; empty: not asked for.
using Gradients = std::array<Numbers, kGradients>;

const char* name_of(GradientOf gradient);

/// Whether row i of a gradient belongs to a sequence: those that are packed may not.
bool in_sequence(GradientOf gradient, const Problem& p, std::int64_t i);

/// Whether attention has what a gradient is of.
bool has_input_of(GradientOf gradient, const Problem& p);

/// Of bias and what follows it, of attention itself or within a block; grad_bias is the bias's.
std::optional<LaidOut> laid_out(GradientOf gradient, heed_score_layout& grad_bias,
                                const heed_attention_desc& attention, std::uint32_t real);

/// The layouts of a descriptor, which points at its attention's.
LaidOutGradients<kGradients> laid_out(heed_attention_backward_desc& desc);

/// Of an attention problem whose outputs are out and lse.
class BackwardProblem final
    : public GradientProblem<heed_attention_backward_desc, heed_attention_backward_args, GradientOf,
                             kGradients> {
 public:
  explicit BackwardProblem(Problem problem, std::uint64_t seed = 1, const Form& of_out = {});
  /// Of a valid descriptor, and of tensors that are yet to be drawn.
  BackwardProblem(Problem problem, const heed_attention_backward_desc& desc);

  bool can_want(GradientOf of) const override { return has_input_of(of, forward); }

  /// Sets out and lse to what attention makes them: as heed computes them, or as the oracle does.
  void attend(const Context& context) { forward.run_all(context); }
  void attend_as_expected();

  /// What heed gets; valid until the problem is changed.
  heed_attention_backward_args args();

  ExpectedGradients expected();

  /// Everything that a run writes; throws if it writes anything else.
  Gradients run(const Context& context);
  Gradients run(const std::function<heed_status(const heed_attention_backward_args&)>& call);

  /// As heed reads it; valid as long as the problem stays where it is.
  const heed_attention_backward_desc& desc();

  Problem forward;

 protected:
  LaidOutGradients<kGradients> laid_out() override;
  bool owns(GradientOf gradient, Index row) const override {
    return in_sequence(gradient, forward, row);
  }

 private:
  heed_attention_args forward_args_{};
};

inline std::array<GradientOf, kGradients> all_gradients() { return BackwardProblem::all(); }

inline std::string line_of(const BackwardProblem& p) {
  return line_of(p.forward) + line_of_gradients(p);
}

// ---- Keys and values in pages, and the same ones one after the other ----

/// A block table of the problem, whose keys lie in pages: any order of those that its sequences
/// need, some of them shared if `share`, or if there are too few. What nobody may read is no page.
std::vector<std::int32_t> draw_block_table(Problem& p, bool share, std::uint64_t seed);

/// The same problem, its keys, which are not packed, in pages of a pool in any order. Some pages
/// are nobody's, and if `share` some are shared: other keys than the problem's, those that were
/// written last. What nobody may read is NaN, and no page in the table.
Problem paged(const Problem& p, Random& random, bool share);

/// The same problem, its keys one after the other; those past a length are NaN. What is not in
/// pages stays as it is.
Problem contiguous(const Problem& p);

}  // namespace heed_test
