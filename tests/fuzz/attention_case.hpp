// Dense attention as the targets of dense attention and of blocks draw it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <vector>

#include "api/heed.h"
#include "tests/problem/attention.hpp"
#include "tests/problem/draw.hpp"
#include "tests/problem/extent.hpp"

namespace heed_test {

/// A valid descriptor without layouts of query, key, value and out. That of a block has heads, and
/// no pages.
heed_attention_desc draw_attention(Draw& draw, bool of_block);

void draw_layouts(Draw& draw, heed_attention_desc& desc, bool float64);

/// That of the scales of keys or values of this shape.
inline Axes scales_of(const Axes& shape) { return {shape[0], shape[1], shape[2], 1}; }

/// Whether windows and ALiBi know where rows stand.
inline bool stands(const heed_attention_desc& d) {
  return d.causal != HEED_CAUSAL_NONE || d.alignment != HEED_ALIGNMENT_DEFAULT ||
         d.query_length == d.key_length;
}

/// Runs of a plan that heed has accepted: memory for them, arguments, and what comes out.
class AttentionCase {
 public:
  /// The query, key, value and out of a block lie in its workspace: `own` is false.
  AttentionCase(const heed_attention_desc& desc, bool own);

  /// Demands that all tensors can be addressed. False: some are not worth allocating here, or there
  /// is too much to compute.
  bool small();

  /// Tensors, filled, and all that else belongs to a run, mostly valid.
  void make(Draw& draw);
  bool valid() const { return valid_; }

  heed_attention_args args() { return problem_.args(); }
  Problem& problem() { return problem_; }

  void check_untouched();
  /// What the score function does, if the run has got one: a shorter struct may lack it.
  ScoreModel model_of(const heed_attention_args& args) const;
  /// Beside the oracle's; out is compared elsewhere where it is a block's.
  void check_outputs(const heed_attention_args& args);
  void check_further(const heed_attention_args& args, const Expected& want);

 private:
  /// What its layouts reach.
  struct Extents {
    explicit Extents(const heed_attention_desc& desc);
    Extents(const heed_attention_desc& desc, const AttentionShapes& shapes, const Axes& pairs);
    Extent query, key, value, out, mask, bias, lse, weights, column_sums, block_table, key_scales,
        value_scales;
  };

  /// Of keys or values of this type; none where they have none.
  static std::optional<Tensor> make_scales(std::uint32_t of, const Extent& extent);
  std::vector<std::int32_t> draw_offsets(Draw& draw, std::int64_t rows, std::int64_t longest);
  void make_lengths(Draw& draw);
  void make_block_table(Draw& draw);
  void make_scores(Draw& draw);
  void make_outputs(Draw& draw);
  std::vector<Tensor*> outputs();
  /// Spoils a number seldom; what is given is then no longer known to be valid.
  template <class T>
  void spoil(Draw& draw, std::vector<T>& numbers) {
    if (numbers.empty() || !draw.one_in(16)) return;
    numbers[static_cast<std::size_t>(draw.bits() % numbers.size())] =
        static_cast<T>(draw.one_in(2) ? draw.hostile() : draw.integer(-1, 20));
    valid_ = false;
  }

  heed_attention_desc desc_;
  Extents extents_;
  bool own_;
  bool valid_ = true;
  Problem problem_;
};

/// Fields of args that damage_pointers must leave alone: a byte further they are as good as before,
/// and end where nobody may read.
inline constexpr std::initializer_list<std::size_t> kBytewise = {
    offsetof(heed_attention_args, mask), offsetof(heed_attention_args, score_function),
    offsetof(heed_attention_args, score_user)};

}  // namespace heed_test
