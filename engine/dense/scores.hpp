// From queries and keys to the scores that softmax sees: everything that the options of a problem
// do to a score, a panel of rows and a block of keys at a time.
#pragma once

#include "engine/dense/panel.hpp"
#include "engine/dense/plan.hpp"

namespace heed {

/// How many of the pairs of a panel and a block of keys may attend. kLimited: those that windows
/// and causal limits leave, no mask excludes any.
enum class Allowed { kNone, kSome, kLimited, kAll };

/// What options do to scores up to a point, in the units of scale * <q, k>; at
/// HEED_WEIGHTS_PROBABILITIES as the softmax kernels want them, in log2 units of s / temperature.
struct ScoreSteps {
  bool caps;           ///< softcap is applied
  bool modifies;       ///< what follows softcap is applied
  double query_scale;  ///< that queries are packed with
  double unit;         ///< what ALiBi and bias are multiplied with, and softcap's result
  double after;        ///< what scores are multiplied with after the score function

  ScoreSteps(const Problem& problem, const heed_attention_args& args, heed_weights_point point);
};

template <class Real>
class Scores {
 public:
  /// Scores as they are at `point`. The slab is the thread's.
  Scores(const heed_attention_plan& plan, const heed_attention_args& args, const Sequence& sequence,
         heed_weights_point point, std::byte* slab);

  /// Whether scores are products and nothing else, but for what is excluded.
  bool plain() const { return !steps_.caps && !steps_.modifies; }

  /// Transposes the panel's queries, scaled.
  void pack_query(const Panel<Real>& panel) const;

  /// The keys [begin, end) of key head g, where they lie or widened.
  MatrixView<Real> keys(std::int64_t g, std::int64_t begin, std::int64_t end) const;

  /// What masks, windows and lengths leave of the block.
  Allowed allowed(const Panel<Real>& panel, const KeyBlock& block) const;

  /// The keys that windows and causal limits leave to the panel's vectors, counted from the block's
  /// first.
  KeyRanges needed(const Panel<Real>& panel, const KeyBlock& block) const;

  /// scores[j][i] = the score of the block's key j, with whose rows `key` begins, and the panel's
  /// row i; -inf where that pair does not attend, unless `allowed` says that all do. Of pairs
  /// outside `needed`, which do not attend then, nothing is computed.
  void compute(const Panel<Real>& panel, const MatrixView<Real>& key, const KeyBlock& block,
               const KeyRanges& needed, Allowed allowed, Real* scores) const;

  /// -inf where row i may not attend the block's key j, a bias of -inf included, and not -inf
  /// elsewhere.
  const Real* attended(const Panel<Real>& panel, const KeyBlock& block) const;

 private:
  /// Calls function(i, address) with where column `first` of the panel's row i of a tensor lies.
  template <class Function>
  void each_row_at(const Panel<Real>& panel, const void* data, const Layout& layout,
                   std::int64_t row_begin, std::int64_t first, Function&& function) const;
  /// Points rows[i] at `count` numbers of the panel's row i of a tensor, from column `first` on:
  /// where they lie if they lie side by side and need no widening, else in the slab.
  void find_rows(const Panel<Real>& panel, const void* data, const Layout& layout,
                 std::int64_t row_begin, std::int64_t first, std::size_t count,
                 const Real** rows) const;
  /// Asks for what find_rows() will point at: rows of a few hundred bytes end before the processor
  /// has noticed that they are a pattern.
  void prefetch_rows(const Panel<Real>& panel, const void* data, const Layout& layout,
                     std::int64_t first, std::size_t count) const;
  void modify(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const;
  void add_alibi(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const;
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
  std::byte* slab_;
  const ScoreSteps steps_;
};

extern template class Scores<float>;
extern template class Scores<double>;

}  // namespace heed
