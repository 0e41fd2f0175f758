// Gradients of any kind: what their layouts reach, memory for those that are asked for, and what
// must be there after a run.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "tests/fuzz/check.hpp"
#include "tests/support/compare.hpp"

namespace heed_test {

/// Of attention whose plan may be made: nothing that has no gradients, and no outputs but out and
/// lse.
inline void make_differentiable(heed_attention_desc& d) {
  d.hard = d.weights_point = d.sum_columns = 0;
  d.weight_rows = d.pages = d.page_rows = d.block_table_stride = 0;
}

/// The layout of the gradient of a bias, whose sizes are the bias's.
inline heed_score_layout gradient_layout(heed_score_layout layout, const heed_score_layout& bias) {
  layout.batch = bias.batch;
  layout.heads = bias.heads;
  layout.rows = bias.rows;
  layout.keys = bias.keys;
  return layout;
}

/// The gradient of lse comes in a type of its own.
inline heed_layout draw_lse_layout(Draw& draw, const Axes& shape) {
  return draw.layout(
      shape, Use::kRead,
      draw.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64}));
}

template <class Args, std::size_t kCount>
class GradientCase {
 public:
  struct Place {
    const char* name;
    void* Args::*pointer;
  };
  using Places = std::array<Place, kCount>;

  /// Those of no extent the problem does not have.
  GradientCase(const Places& places, std::uint32_t accumulate)
      : places_(places), accumulate_(accumulate != 0) {}

  void reach(std::size_t of, const Extent& extent) { extents_[of].emplace(extent); }
  /// Contiguous numbers.
  void reach(std::size_t of, std::int64_t count, std::uint32_t dtype) {
    extents_[of].emplace(Axes{1, 1, 1, count}, heed_layout(HEED_LAYOUT_INIT), dtype, false);
  }

  /// Demands that all can be addressed and that the elements of each lie apart; whether they are
  /// worth allocating.
  bool small() const {
    bool all = true;
    for (const auto& extent : extents_) all = (!extent || check_extent(*extent)) && all;
    for (const auto& extent : extents_)
      if (all && extent) demand(extent->apart(), "a gradient whose elements overlap is accepted");
    return all;
  }

  /// Memory for all or some of those that the run `has`. If they are added to what is there, there
  /// are numbers in rows that the run `owns`.
  template <class Has, class Owns>
  void make(Draw& draw, Random& random, Has&& has, Owns&& owns) {
    const bool all = draw.one_in(2);
    for (std::size_t of = 0; of < kCount; ++of) {
      if (!extents_[of] || !has(of) || !(all || draw.one_in(2))) continue;
      Tensor& to = gradients_[of].emplace(extents_[of]->tensor(1));
      if (!accumulate_) continue;
      to.each([&](const Axes& at) {
        if (owns(of, at[2])) to.set(at, random.normal());
      });
      before_[of] = to.numbers();
    }
  }

  void give(Args& args) {
    for (std::size_t of = 0; of < kCount; ++of)
      if (gradients_[of]) args.*places_[of].pointer = gradients_[of]->data();
  }

  /// Those that the arguments ask for.
  std::array<Source, kCount> sources(const Args& args) const {
    std::array<Source, kCount> sources{};
    for (std::size_t of = 0; of < kCount; ++of)
      if (asked(of, args)) sources[of] = gradients_[of]->source();
    return sources;
  }

  void check(const Args& args, const std::array<std::vector<Element>, kCount>& want) const {
    for (std::size_t of = 0; of < kCount; ++of)
      if (asked(of, args))
        check_equal(places_[of].name, *gradients_[of], want[of]);
      else
        check_untouched(of);
  }
  void check_untouched() const {
    for (std::size_t of = 0; of < kCount; ++of) check_untouched(of);
  }

 private:
  bool asked(std::size_t of, const Args& args) const {
    return gradients_[of] && args.*places_[of].pointer != nullptr;
  }

  void check_untouched(std::size_t of) const {
    if (!gradients_[of]) return;
    if (!accumulate_) return heed_test::check_untouched(*gradients_[of]);
    demand(same_bits(gradients_[of]->numbers(), before_[of]), "a refused call changed a gradient");
  }

  const Places& places_;
  bool accumulate_;
  std::array<std::optional<Extent>, kCount> extents_;
  std::array<std::optional<Tensor>, kCount> gradients_;
  std::array<Numbers, kCount> before_;
};

}  // namespace heed_test
