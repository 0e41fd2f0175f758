// Random problems of every form: each option is drawn on its own, so that any may meet any other.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/problem.hpp"

namespace heed_test {

/// Whether keys may be as many as they like, are the queries' own rows, or are thousands for few
/// queries.
enum class Lengths { kAny, kSelf, kLong };

class RandomForms {
 public:
  explicit RandomForms(std::uint64_t seed, Lengths lengths = Lengths::kAny)
      : random_(seed), lengths_(lengths) {}

  Problem draw();

 private:
  bool one_in(std::int64_t n) { return random_.integer(0, n - 1) == 0; }

  template <class T>
  T pick(const std::vector<T>& from) {
    return random_.pick(from);
  }

  double uniform(double low, double high) { return low + (high - low) * random_.unit(); }

  // ---- Sizes ----

  void draw_sizes();

  /// Past as many keys as sums begin again after.
  void draw_long();

  /// Small enough that thousands of them take a minute.
  void limit_work(std::int64_t most);

  void draw_types();

  /// Sequences of at most `longest` rows, some of them empty, some rows belonging to none.
  Packing draw_packing(std::int64_t longest);

  Arrangement draw_arrangement();
  Layouts draw_layouts();

  // ---- Numbers ----

  void draw_numbers(Problem& p);

  /// A stride of 0: the same numbers all along an axis.
  void repeat_axis(Tensor& tensor, heed_layout& layout);

  /// Equal keys, and with them equal scores, at several places.
  void repeat_keys(Problem& p);

  // ---- Positions: causal, windows, lengths ----

  void draw_positions(Problem& p);
  void draw_lengths(Problem& p);
  void draw_offset(Problem& p);

  /// Windows and ALiBi over different lengths need an alignment.
  void settle_alignment(Problem& p);

  // ---- Scores ----

  void draw_scores(Problem& p);
  ScoreFunction draw_function();

  /// Every axis the problem's or repeated.
  Axes draw_shape(const Problem& p);

  std::uint32_t draw_dtype() { return static_cast<std::uint32_t>(random_.integer(0, 4)); }

  void draw_bias(Problem& p);

  // ---- Masks ----

  void draw_masks(Problem& p);

  double draw_true() { return static_cast<double>(pick<int>({1, 1, 2, 128, 255})); }

  void fill_randomly(Tensor& mask);

  /// Whole blocks of rows and keys at once: tiles of which nothing or everything is attended.
  void fill_blocks(Tensor& mask);

  // ---- Softmax ----

  void draw_softmax(Problem& p);

  /// Sizes that say "the same" by being 0.
  void draw_defaults(Problem& p);

  // ---- Outputs ----

  void draw_outputs(Problem& p);

  // ---- Infinities and NaN ----

  void plant_specials(Problem& p);
  void plant(Tensor& tensor);

  Random random_;
  Lengths lengths_;
  Sizes sizes_{};
};

}  // namespace heed_test
