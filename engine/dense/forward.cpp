#include "engine/dense/forward.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/dense/output.hpp"
#include "engine/dense/panel.hpp"
#include "engine/dense/placement.hpp"
#include "engine/dense/scores.hpp"
#include "engine/dense/step.hpp"
#include "engine/dense/totals.hpp"
#include "engine/dense/values.hpp"
#include "engine/tensor/cut.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// Packing a value tile pays once this many panels read it; fewer read the values in place.
constexpr std::int64_t kPanelsThatPayForPacking = 3;

/// Which block of which stack a task is.
struct Place {
  std::int64_t batch, stack, block;

  /// Where later rows attend more keys, the longest blocks, which are the last, are handed out
  /// first. Otherwise the blocks of a stack follow each other, so that its keys stay in the
  /// shared cache.
  static Place of(const heed_attention_plan& plan, std::int64_t task) {
    const Problem& p = plan.problem;
    const std::int64_t stacks = p.batch * plan.stacks();
    const std::int64_t stack = p.triangular() ? task % stacks : task / plan.blocks;
    return {stack / plan.stacks(), stack % plan.stacks(),
            p.triangular() ? plan.blocks - 1 - task / stacks : task % plan.blocks};
  }
};

/// One block. Panels of it that lie before a tile or after it are not touched by it.
template <class Real>
class Block {
 public:
  Block(const heed_attention_plan& plan, const heed_attention_args& args, const Place& place,
        std::byte* slab, RowResult<Real>* results)
      : plan_(plan),
        problem_(plan.problem),
        args_(args),
        kernels_(kernels_of<Real>(*plan.context->kernels)),
        sequence_(sequence_of(problem_, args, place.batch)),
        stack_{place.stack * plan.stack_heads, plan.stack_heads, nullptr},
        key_head_(stack_.head / problem_.group()),
        scores_(plan, args, sequence_, HEED_WEIGHTS_PROBABILITIES, slab),
        values_(plan, args, sequence_, key_head_, slab),
        output_(plan, args, sequence_, slab, results),
        cut_(plan.stack_heads * sequence_.query_length, plan.panel_rows, kernels_.lanes),
        slab_(slab) {
    const std::int64_t panels_per_block = plan.tile_q / plan.panel_rows;
    first_panel_ = place.block * panels_per_block;
    panels_ = std::min(panels_per_block, cut_.panels() - first_panel_);
  }

  void attend() {
    std::int64_t key_begin = sequence_.key_length;
    std::int64_t key_end = 0;
    for (std::int64_t p = 0; p < panels_; ++p) {
      const Panel<Real> panel = this->panel(p);
      begin(panel);
      key_begin = std::min(key_begin, panel.key_begin);
      key_end = std::max(key_end, panel.key_end);
    }
    each_tile(key_begin, key_end, panels_ >= kPanelsThatPayForPacking, [&](Tile& tile) {
      for (std::int64_t p = 0; p < panels_; ++p) attend_tile(this->panel(p), tile, false);
    });
    for (std::int64_t p = 0; p < panels_; ++p) finish(this->panel(p));
  }

 private:
  /// Keys and values of [begin, end), fetched when the first panel attends one of them.
  struct Tile {
    std::int64_t begin, end;
    bool pack;
    bool loaded = false;
    MatrixView<Real> key = {};
    MatrixView<Real> value = {};
    ValueView<Real> values = {};  ///< the same, for the kernels
  };

  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  Panel<Real> panel(std::int64_t p) const {
    const std::int64_t first = cut_.begin(first_panel_ + p);
    const std::int64_t rows = cut_.begin(first_panel_ + p + 1) - first;
    const std::int64_t before = first - cut_.begin(first_panel_);  // rows of the block
    Panel<Real> panel = make_panel<Real>(stack_, sequence_, first, rows, kernels_.lanes);
    panel.query = plan_.placement == Placement::kPanels
                      ? of_head(static_cast<Real*>(const_cast<void*>(args_.query)), plan_, panel,
                                sequence_.batch, problem_.features)
                      : buffer(plan_.slab.query) + before * problem_.features;
    panel.state = {buffer(plan_.slab.reference) + before, buffer(plan_.slab.sum) + before,
                   buffer(plan_.slab.accumulators) + before * plan_.accumulator_rows, false};
    panel.hardest = reinterpret_cast<std::int64_t*>(slab_ + plan_.slab.hardest) + before;
    panel.summed = reinterpret_cast<Summed*>(slab_ + plan_.slab.summed) + p;
    return panel;
  }

  Totals<Real> totals(const Panel<Real>& panel) const {
    return {panel, static_cast<std::size_t>(problem_.value_features),
            panel.vectors * kernels_.lanes};
  }

  void begin(const Panel<Real>& panel) const {
    if (plan_.placement != Placement::kPanels) scores_.pack_query(panel);
    reset(panel);
  }

  /// Forgets what the panel has seen. A sink is what it has seen first: a key without a value.
  void reset(const Panel<Real>& panel) const {
    const std::size_t pitch = panel.vectors * kernels_.lanes;
    *panel.summed = Summed::kNothing;
    std::fill_n(panel.state.reference, pitch, kNoReference<Real>);
    std::fill_n(panel.state.sum, pitch, Real{0});
    if (problem_.hard) {
      std::fill_n(panel.state.reference, pitch, -std::numeric_limits<Real>::infinity());
      std::fill_n(panel.hardest, panel.rows, kNoKey);
    }
    if (args_.sinks == nullptr) return;
    const auto* const sinks = static_cast<const Real*>(args_.sinks);
    panel.each_row([&](std::size_t i, std::int64_t, std::int64_t head) {
      if (sinks[head] == -std::numeric_limits<Real>::infinity()) return;
      const auto sink = static_cast<Real>(static_cast<double>(sinks[head]) * kLog2E);
      panel.state.reference[i] = std::clamp(sink, kNoReference<Real>, -kNoReference<Real>);
      panel.state.sum[i] = 1;
    });
  }

  /// Calls function(tile) for the tiles that the keys [begin, end) lie in. Where a tile begins and
  /// ends otherwise depends on no panel.
  template <class Function>
  void each_tile(std::int64_t begin, std::int64_t end, bool pack, Function&& function) const {
    for (std::int64_t k = round_down(begin, plan_.tile_kv); k < end; k += plan_.tile_kv) {
      Tile tile = {std::max(k, begin), std::min(k + plan_.tile_kv, end), pack};
      function(tile);
    }
  }

  void load(Tile& tile) const {
    if (tile.loaded) return;
    tile.loaded = true;
    tile.key = scores_.keys(key_head_, tile.begin, tile.end);
    if (problem_.hard) return;
    tile.value = values_.rows(tile.begin, tile.end);
    tile.values = tile.pack ? values_.packed(tile.value, tile.end - tile.begin)
                            : values_.in_place(tile.value);
  }

  /// One panel against one tile. `isolate` keeps what is not finite in the values away from the
  /// rows that may not attend it: slow, and needed only where finish() finds that something leaked.
  void attend_tile(const Panel<Real>& panel, Tile& tile, bool isolate) const {
    const std::int64_t step = key_step(panel, kernels_.key_step, problem_.value_features);
    const std::int64_t end = std::min(tile.end, panel.key_end);
    std::int64_t k = std::max(tile.begin, panel.key_begin);
    while (k < end) {
      if (k % kFoldKeys == 0 && *panel.summed != Summed::kNothing) totals(panel).take();
      const std::int64_t next = std::min(round_down(k, step) + step, end);
      const auto keys = static_cast<std::size_t>(next - k);
      const Allowed allowed = scores_.allowed(panel, k, keys);
      if (allowed != Allowed::kNone) {
        load(tile);
        if (problem_.hard) {
          attend_hard(panel, tile, k, keys, allowed);
        } else {
          attend_step(panel, tile, k, keys, allowed, isolate);
        }
      }
      k = next;
    }
  }

  void attend_step(const Panel<Real>& panel, const Tile& tile, std::int64_t k, std::size_t keys,
                   Allowed allowed, bool isolate) const {
    Real* const weights = buffer(plan_.slab.scores);
    RowState<Real> state = panel.state;
    state.fresh = *panel.summed == Summed::kNothing;
    if (state.fresh) *panel.summed = Summed::kKeys;
    const KeyRanges needed = scores_.limited(panel, k, keys);
    weigh(panel, state, from_row(tile.key, k - tile.begin), k, keys, needed, allowed, weights);
    if (isolate && excludes(allowed)) {
      values_.accumulate_isolated(panel, state, from_row(tile.value, k - tile.begin), k, needed,
                                  keys, weights, scores_.attended(panel, k, keys));
      return;
    }
    ValueView<Real> values = tile.values;
    values.data += (k - tile.begin) * values.key_stride;
    values_.accumulate(panel, state, values, k, needed, weights);
  }

  /// Whether a step may hold pairs that do not attend.
  bool excludes(Allowed allowed) const { return allowed != Allowed::kAll || args_.bias != nullptr; }

  /// Turns keys [k, k + keys) into weights, those that the vectors need.
  void weigh(const Panel<Real>& panel, const RowState<Real>& state, const MatrixView<Real>& key,
             std::int64_t k, std::size_t keys, const KeyRanges& needed, Allowed allowed,
             Real* weights) const {
    const std::size_t accumulated = totals(panel).rows_summed();
    const std::size_t pitch = panel.vectors * kernels_.lanes;
    const bool fuses = allowed != Allowed::kSome && scores_.plain();
    const Split parts = fuses ? split(panel, k, keys, state.fresh) : Split{keys, 0};
    const auto score_and_weigh = [&](std::size_t begin, std::size_t end) {
      if (begin == end) return;
      const auto at = static_cast<std::int64_t>(begin);
      Real* const tile = weights + begin * pitch;
      const KeyRanges here = part(needed, begin, end);
      scores_.compute(panel, from_row(key, at), k + at, end - begin, here, allowed, tile);
      kernels_.softmax(tile, here, begin, state, accumulated, panel.vectors);
    };
    score_and_weigh(0, parts.first);
    if (parts.fused == 0) return;
    kernels_.weights(from_row(key, static_cast<std::int64_t>(parts.first)), parts.fused,
                     panel.query, static_cast<std::size_t>(problem_.features),
                     weights + parts.first * pitch, parts.first, state, accumulated, panel.vectors);
    score_and_weigh(parts.first + parts.fused, keys);
  }

  void attend_hard(const Panel<Real>& panel, const Tile& tile, std::int64_t k, std::size_t keys,
                   Allowed allowed) const {
    Real* const tile_scores = buffer(plan_.slab.scores);
    alignas(kAlignment) Real index[kMaxPanel];
    std::fill_n(index, kMaxPanel, Real{-1});
    scores_.compute(panel, from_row(tile.key, k - tile.begin), k, keys,
                    scores_.limited(panel, k, keys), allowed, tile_scores);
    kernels_.hardest(tile_scores, keys, panel.state.reference, index, panel.vectors);
    for (std::size_t i = 0; i < panel.rows; ++i)
      if (index[i] >= 0) panel.hardest[i] = k + static_cast<std::int64_t>(index[i]);
  }

  /// Whether the panel's steps may have held pairs that do not attend.
  bool may_leak(const Panel<Real>& panel) const {
    const bool limits = panel.whole_begin > panel.key_begin || panel.whole_end < panel.key_end;
    return limits || args_.mask != nullptr || args_.bias != nullptr;
  }

  void finish(const Panel<Real>& panel) const {
    if (problem_.hard) {
      finish_hard(panel);
      return;
    }
    const auto features = static_cast<std::size_t>(problem_.value_features);
    const std::size_t pitch = panel.vectors * kernels_.lanes;
    if (*panel.summed == Summed::kNothing)
      std::fill_n(panel.state.accumulators, features * pitch, Real{0});
    totals(panel).give_back();
    if (may_leak(panel) && !kernels_.all_finite(panel.state.accumulators, features * pitch)) {
      reset(panel);
      each_tile(panel.key_begin, panel.key_end, false,
                [&](Tile& tile) { attend_tile(panel, tile, true); });
      totals(panel).give_back();
    }
    output_.write(panel);
  }

  void finish_hard(const Panel<Real>& panel) const {
    const auto features = static_cast<std::size_t>(problem_.value_features);
    Real* const value = buffer(plan_.slab.rows);
    for (std::size_t i = 0; i < panel.rows; ++i) {
      const std::int64_t j = std::isnan(panel.state.reference[i]) ? kNotANumber : panel.hardest[i];
      if (j >= 0) {
        values_.read(j, value);
      } else {
        std::fill_n(value, features,
                    j == kNoKey ? Real{0} : std::numeric_limits<Real>::quiet_NaN());
      }
      output_.write_hard(panel, i, j, value);
    }
  }

  const heed_attention_plan& plan_;
  const Problem& problem_;
  const heed_attention_args& args_;
  const KernelTable<Real>& kernels_;
  const Sequence sequence_;
  const Stack stack_;
  const std::int64_t key_head_;
  const Scores<Real> scores_;
  const Values<Real> values_;
  const Output<Real> output_;
  const PanelCut cut_;  ///< of the stack
  std::byte* const slab_;
  std::int64_t first_panel_;
  std::int64_t panels_;  ///< 0 or less: the sequence ends before this block
};

template <class Real>
void attend(const heed_attention_plan& plan, const heed_attention_args& args, std::int64_t begin,
            std::int64_t end, std::byte* slab, std::byte* results) {
  for (std::int64_t task = begin; task < end; ++task)
    Block<Real>(plan, args, Place::of(plan, task), slab,
                reinterpret_cast<RowResult<Real>*>(results))
        .attend();
}

}  // namespace

void attend_blocks(const heed_attention_plan& plan, const heed_attention_args& args,
                   std::int64_t begin, std::int64_t end, std::byte* slab,
                   std::byte* results) noexcept {
  with_real(plan.problem.float64,
            [&](auto real) { attend<decltype(real)>(plan, args, begin, end, slab, results); });
}

}  // namespace heed
