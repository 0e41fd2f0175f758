// From queries and keys to the scores that softmax sees: everything that the options of a problem
// do to a score, a panel of rows and a block of keys at a time.
#pragma once

#include "engine/dense/panel.hpp"
#include "engine/dense/plan.hpp"

namespace heed {

/// How many of the pairs of a panel and a key block may attend. kLimited: windows and causal limits
/// exclude some, masks none.
enum class Allowed { kNone, kSome, kLimited, kAll };

/// What options do to scores up to a point. Scores are in the units of scale * <q, k>; at
/// HEED_WEIGHTS_PROBABILITIES in log2 units of s / temperature, as the softmax kernels want them.
struct ScoreSteps {
  bool caps;           ///< softcap is applied
  bool modifies;       ///< ALiBi, bias or a score function is applied
  double query_scale;  ///< queries are multiplied with it as they are packed
  double unit;         ///< what ALiBi and bias are multiplied with, and softcap's result
  double cap;          ///< what the tanh of softcap is multiplied with
  double after;        ///< what scores are multiplied with after the score function

  ScoreSteps(const Problem& problem, const heed_attention_args& args, heed_weights_point point);
  /// tanh(s / softcap) alone: the capped score over the cap would be nothing of a cap too small.
  static ScoreSteps of_tanh(const Problem& problem, const heed_attention_args& args);
};

template <class Real>
class Scores {
 public:
  /// Scores as they are at `point`. The slab is the thread's. Where there are
  /// `parts`, pairs of bfloat16 are multiplied: panels of queries and keys are theirs.
  Scores(const heed_attention_plan& plan, const heed_attention_args& args, const Sequence& sequence,
         heed_weights_point point, std::byte* slab, Parts parts = {})
      : Scores(plan, args, sequence, ScoreSteps(plan.problem, args, point), slab, parts) {}
  Scores(const heed_attention_plan& plan, const heed_attention_args& args, const Sequence& sequence,
         const ScoreSteps& steps, std::byte* slab, Parts parts = {});

  /// Whether scores are products and nothing else, exclusions aside.
  bool plain() const { return !steps_.caps && !steps_.modifies; }

  /// Transposes the panel's queries, scaled.
  void pack_query(const Panel<Real>& panel) const;

  /// The keys [begin, end) of key head g, where they lie, or widened; pairs where they lie, or
  /// copied and rounded or split into parts.
  RowsView<Real> keys(std::int64_t g, std::int64_t begin, std::int64_t end) const;

  /// What masks, windows and lengths leave of the block.
  Allowed allowed(const Panel<Real>& panel, const KeyBlock& block) const;

  /// The keys that windows and causal limits leave to each vector of the panel, counted from the
  /// block's first.
  KeyRanges needed(const Panel<Real>& panel, const KeyBlock& block) const;

  /// scores[j][i] = the score of the block's key j and the panel's row i, -inf where that pair does
  /// not attend, unless `allowed` says that all do. `key` begins with the block. Pairs outside
  /// `needed` do not attend and are not computed.
  void compute(const Panel<Real>& panel, const RowsView<Real>& key, const KeyBlock& block,
               const KeyRanges& needed, Allowed allowed, Real* scores) const;

  /// probs[j][i] = the probability of the block's key j, of key head g, for a row_max that is
  /// final.
  void weigh_again(const Panel<Real>& panel, std::int64_t g, const KeyBlock& block, Allowed allowed,
                   Real* probs) const;

  /// What options do to scores that are products so far; the last part of compute().
  void apply_options(const Panel<Real>& panel, const KeyBlock& block, Allowed allowed,
                     Real* scores) const;

  /// to[j][i] = what the bias adds to the score of the block's key j and the panel's row i: for
  /// panels of several heads, whose rows it repeats for. Of scores that are not finite this may
  /// leave NaN where it is -inf, so a caller's function is not to see them. False if sums with
  /// scores may overflow, which add_bias() prevents.
  bool lay_bias(const Panel<Real>& panel, const KeyBlock& block, Real* to) const;

  /// What a caller's function is shown; `query_rows` and `query_heads` have room for a panel.
  heed_score_tile tile_of(const Panel<Real>& panel, const KeyBlock& block, Real* scores,
                          std::int64_t* query_rows, std::int64_t* query_heads) const;

  /// What queries are to be multiplied with.
  Real query_scale() const { return static_cast<Real>(steps_.query_scale); }

  /// Reads the query of row i of the panel to query[x], as it is.
  void read_query(const Panel<Real>& panel, std::size_t i, Real* query) const;

  /// At [j][i]: -inf where row i may not attend the block's key j, because of its bias too;
  /// something else elsewhere.
  const Real* attended(const Panel<Real>& panel, const KeyBlock& block) const;

 private:
  /// Calls function(i, address) for every row of the panel with the address of column `first` of
  /// the tensor's row.
  template <class Function>
  void each_row_at(const Panel<Real>& panel, const void* data, const Layout& layout,
                   std::int64_t row_begin, std::int64_t first, Function&& function) const;
  /// Points rows[i] at `count` numbers of the panel's row i of a tensor, from column `first` on;
  /// copies to the slab those that do not lie side by side or need widening.
  void find_rows(const Panel<Real>& panel, const void* data, const Layout& layout,
                 std::int64_t row_begin, std::int64_t first, std::size_t count,
                 const Real** rows) const;
  void modify(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const;
  void add_alibi(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const;
  void add_far_alibi(const Panel<Real>& panel, const KeyBlock& block, Real* position,
                     const Real* slope, Real* scores) const;
  void add_bias(const Panel<Real>& panel, const KeyBlock& block, Real factor, Real* scores) const;
  void call_function(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const;
  void exclude(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const;
  void apply_mask(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const;
  void apply_limits(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const;
  Allowed allowed_by_mask(const Panel<Real>& panel, const KeyBlock& block) const;

  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  const heed_attention_plan& plan_;
  const Problem& problem_;
  const heed_attention_args& args_;
  const Sequence& sequence_;
  const KernelTable<Real>& kernels_;
  const ProductKernels<Real>& products_;
  std::byte* slab_;
  const ScoreSteps steps_;
};

extern template class Scores<float>;
extern template class Scores<double>;

}  // namespace heed
