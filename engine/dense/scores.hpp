// From queries and keys to the scores that softmax sees: everything that the options of a problem
// do to a score, a panel of rows and a step of keys at a time.
#pragma once

#include "engine/dense/panel.hpp"
#include "engine/dense/plan.hpp"

namespace heed {

/// How many of the pairs of a panel and a step may attend. kLimited: those that windows and causal
/// limits leave, no mask excludes any.
enum class Allowed { kNone, kSome, kLimited, kAll };

template <class Real>
class Scores {
 public:
  /// Scores as they are at `point`, in the units of scale * <q, k>; at HEED_WEIGHTS_PROBABILITIES
  /// as the softmax kernels want them, in log2 units of s / temperature. The slab is the thread's.
  Scores(const heed_attention_plan& plan, const heed_attention_args& args, const Sequence& sequence,
         heed_weights_point point, std::byte* slab);

  /// Whether scores are products and nothing else, but for what is excluded.
  bool plain() const { return plain_; }

  /// What queries are multiplied with on their way into panels.
  double query_scale() const { return query_scale_; }

  /// Transposes the panel's queries, scaled.
  void pack_query(const Panel<Real>& panel) const;

  /// The keys [begin, end) of key head g, where they lie or widened.
  MatrixView<Real> keys(std::int64_t g, std::int64_t begin, std::int64_t end) const;

  /// What masks, windows and lengths leave of keys [k, k + keys).
  Allowed allowed(const Panel<Real>& panel, std::int64_t k, std::size_t keys) const;

  /// The keys of [k, k + keys) that windows and causal limits leave to the panel's vectors, counted
  /// from k.
  KeyRanges limited(const Panel<Real>& panel, std::int64_t k, std::size_t keys) const;

  /// tile[j][i] = the score of key k + j, where `key` begins, and the panel's row i; -inf where
  /// that pair does not attend, unless `allowed` says that all do. Of pairs outside `needed`, which
  /// do not attend then, nothing is computed.
  void compute(const Panel<Real>& panel, const MatrixView<Real>& key, std::int64_t k,
               std::size_t keys, const KeyRanges& needed, Allowed allowed, Real* tile) const;

  /// A tile that is -inf where row i may not attend key k + j, a bias of -inf included, and not
  /// -inf elsewhere.
  const Real* attended(const Panel<Real>& panel, std::int64_t k, std::size_t keys) const;

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
  void modify(const Panel<Real>& panel, std::int64_t k, std::size_t keys, Real* tile) const;
  void add_alibi(const Panel<Real>& panel, std::int64_t k, std::size_t keys, Real* tile) const;
  void add_bias(const Panel<Real>& panel, std::int64_t k, std::size_t keys, Real factor,
                Real* tile) const;
  void call_function(const Panel<Real>& panel, std::int64_t k, std::size_t keys, Real* tile) const;
  void exclude(const Panel<Real>& panel, std::int64_t k, std::size_t keys, Real* tile) const;
  void apply_mask(const Panel<Real>& panel, std::int64_t k, std::size_t keys, Real* tile) const;
  void apply_limits(const Panel<Real>& panel, std::int64_t k, std::size_t keys, Real* tile) const;
  Allowed allowed_by_mask(const Panel<Real>& panel, std::int64_t k, std::size_t keys) const;

  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  const heed_attention_plan& plan_;
  const Problem& problem_;
  const heed_attention_args& args_;
  const Sequence& sequence_;
  const KernelTable<Real>& kernels_;
  std::byte* slab_;
  bool caps_;      ///< softcap is applied
  bool modifies_;  ///< what follows softcap is applied
  bool plain_;
  double query_scale_;  ///< that queries are packed with
  double unit_;         ///< what ALiBi and bias are multiplied with, and softcap's result
  double after_;        ///< what scores are multiplied with after the score function
};

extern template class Scores<float>;
extern template class Scores<double>;

}  // namespace heed
