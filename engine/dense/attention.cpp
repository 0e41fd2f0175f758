// Dense attention: a run of a plan, and the strategy for many query rows that share their keys:
// online softmax, with the query rows in the lanes.
//
//   for each query block (a task: some panels of query rows)
//     for each tile of keys and values, which stays in the L2 cache
//       for each panel of the block
//         for each block of the tile's keys
//           scores        = keys x queries              [key][row]
//           probabilities = exp2(scores - row_max)      row_max moves when outgrown, and with it
//           accumulators += values^T x probabilities    the sums so far; [feature][row]
//     out = accumulators / row_sum
//
// Of few rows and many keys a task attends a chunk of the keys, and the results of chunks are
// merged.
//
// Source: Milakov & Gimelshein 2018 (arXiv:1805.02867), with lazy rescaling.
#include <algorithm>
#include <limits>
#include <optional>

#include "engine/dense/dropout.hpp"
#include "engine/dense/kept_probs.hpp"
#include "engine/dense/output.hpp"
#include "engine/dense/query_block.hpp"
#include "engine/dense/values.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/argmax.hpp"

namespace heed {
namespace {

/// Packing a tile of values pays off if at least this many panels read it.
constexpr std::int64_t kPanelsThatPayForPacking = 3;

/// Computes query blocks, in the buffers of one thread.
template <class Real>
class Prefill {
 public:
  /// The slab is the thread's. Where values have components, pairs of bfloat16 are multiplied.
  // NOLINTNEXTLINE(*UninitializedObject): clang-tidy gives up before the last member
  Prefill(const heed_attention_args& args, const QueryBlock& block, std::byte* workspace,
          std::byte* slab, Parts parts)
      : on_{*block.plan, args, block.sequence, slab},
        products_(products_of(on_.kernels, parts)),
        block_(block),
        scores_(on_, HEED_WEIGHTS_PROBABILITIES, parts),
        values_(on_, block.key_head, parts),
        workspace_(workspace),
        output_(on_, block.plan->template results_in<Real>(workspace)),
        kept_(on_),
        dropout_(on_) {}

  /// Attends all keys, tile by tile, each of which all panels read, and writes the block's rows.
  /// `next`: the block that this thread computes after it; nullptr: not known.
  void attend(const QueryBlock* next) const {
    std::int64_t key_begin = on_.sequence.key_length;
    std::int64_t key_end = 0;
    each_panel([&](const Panel<Real>& panel) {
      begin(panel);
      key_begin = std::min(key_begin, panel.key_begin);
      key_end = std::max(key_end, panel.key_end);
    });
    if (kept_.keeps()) {
      attend_by_panel(key_begin, key_end);
    } else {
      each_block(key_begin, key_end, on_.plan.tile_kv, [&](const KeyBlock& keys) {
        Tile tile = {keys.begin, keys.end(), packs(block_.panels)};
        std::optional<Ahead> ahead;
        if (on_.plan.tasks > 1 && tile.begin == key_begin && tile.end == key_end) {
          block_.find_ahead(on_.args, next, ahead.emplace());
          tile.ahead = &*ahead;
        }
        each_panel([&](const Panel<Real>& panel) {
          on_.problem.hard ? choose(panel, tile) : attend_tile(panel, tile);
        });
      });
      each_panel([&](const Panel<Real>& panel) {
        if (on_.problem.hard) return write_chosen(panel);
        finish(panel);
        write(panel);
      });
    }
    if (products_.depth == 1 || on_.problem.hard) return;
    for (std::int64_t p = 0; p < block_.panels; ++p) attend_without_pairs(p);
  }

  /// Merges the results of all chunks of keys, and writes the block's rows.
  void merge() const {
    const std::int64_t chunks = prefill_chunks(on_.sequence.key_length);
    each_panel([&](const Panel<Real>& panel) {
      output_.write_merged(panel, [&](const auto& function) {
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) function(partial_of(panel, chunk));
      });
    });
  }

 private:
  /// The keys and values [begin, end), fetched when the first panel attends one of them.
  struct Tile {
    std::int64_t begin, end;
    bool packed;
    /// Values that are not finite are kept from rows that may not attend them: slow, and needed
    /// only where finish() finds a leak.
    bool isolated = false;
    bool loaded = false;
    RowsView<Real> key = {};
    RowsView<Real> value = {};
    ValueView<Real> values = {};  ///< the same, for the kernels
    Ahead* ahead = nullptr;       ///< rows to prefetch, if they are known
  };

  /// A key block of a tile that some row of a panel attends.
  struct Attended {
    KeyBlock block;
    std::int64_t first;  ///< key of the tile
    RowsView<Real> keys;
    Allowed allowed;
    KeyRanges needed;
  };

  /// Panel by panel, because the probabilities of one are kept for the weights. If one tile has all
  /// keys, it serves all panels.
  void attend_by_panel(std::int64_t key_begin, std::int64_t key_end) const {
    const std::int64_t size = on_.plan.tile_kv;
    const bool one = round_down(key_begin, size) + size >= key_end;
    Tile tile = {key_begin, key_end, packs(block_.panels)};
    each_panel([&](const Panel<Real>& panel) {
      if (one)
        attend_tile(panel, tile);
      else
        attend_keys(panel, packs(1), false);
      const bool isolated = finish(panel);
      write(panel);
      const bool weighed = kept_.write(panel, block_keys(panel, products_), scores_);
      if (isolated || weighed) tile.loaded = false;  // the buffers hold other keys
    });
  }

  /// One panel against all its keys, by itself.
  void attend_keys(const Panel<Real>& panel, bool packed, bool isolated) const {
    each_block(panel.key_begin, panel.key_end, on_.plan.tile_kv, [&](const KeyBlock& keys) {
      Tile tile = {keys.begin, keys.end(), packed, isolated};
      attend_tile(panel, tile);
    });
  }

  /// One panel against one tile: scores, probabilities, and values times these. Most scores become
  /// probabilities in the registers that they were computed in; the ones before and after them do
  /// not.
  void attend_tile(const Panel<Real>& panel, Tile& tile) const {
    each_attended(panel, tile, [&](const Attended& keys) {
      RowState<Real> state = panel.state;
      std::optional<Ahead> ahead;
      state.ahead = tile.ahead;
      if (tile.ahead == nullptr && (on_.args.mask != nullptr || on_.args.bias != nullptr)) {
        find_ahead(panel, keys.block, tile, ahead.emplace());
        state.ahead = &*ahead;
      }
      state.fresh = panel.begins_sums();
      Real* const probs = kept_.at(panel, keys.block.begin);
      const std::size_t summed = panel.rows_summed();
      const bool plain = keys.allowed != Allowed::kSome && scores_.plain();
      if (plain && in_groups_ && !tile.isolated)
        return attend_groups(panel, keys, tile, state, summed);
      FusedKeys fused = fused_keys(panel, keys.block, state.fresh, plain || scores_.only_adds());
      // To lay out what is added is worth it where most keys are fused.
      if (!plain && 2 * fused.count < keys.block.keys) fused = {keys.block.keys, 0};
      weigh_apart(panel, keys, 0, fused.begin, state, summed, probs);
      if (fused.count > 0 && plain)
        products_.qk_softmax(panel.vectors,
                             from_row(keys.keys, static_cast<std::int64_t>(fused.begin)),
                             fused.count, panel.query, on_.features(),
                             probs + fused.begin * panel.pitch, fused.begin, state, summed);
      else if (fused.count > 0)
        weigh_added(panel, keys, fused, tile, state, summed, probs);
      weigh_apart(panel, keys, fused.end(), keys.block.keys, state, summed, probs);
      kept_.keep(panel, keys.block, keys.needed);
      weigh_values(panel, keys, tile, state, dropped(panel, keys, state, probs));
    });
  }

  /// The probabilities of fused keys to whose products masks and biases are added. Where that may
  /// not be done in registers, their scores, as all options leave them, are added to nothing: so a
  /// row's bits do not depend on what others hold.
  void weigh_added(const Panel<Real>& panel, const Attended& keys, const FusedKeys& fused,
                   const Tile& tile, RowState<Real> state, std::size_t summed, Real* probs) const {
    const std::size_t before = fused.begin * panel.pitch;
    const auto first = static_cast<std::int64_t>(fused.begin);
    const RowsView<Real> rows = from_row(keys.keys, first);
    const auto weigh = [&](const Real* query, std::size_t features) {
      products_.qk_softmax(panel.vectors, rows, fused.count, query, features, probs + before,
                           fused.begin, state, summed);
    };
    const Real* const addend =
        tile.isolated ? nullptr : scores_.addend(panel, keys.block, keys.allowed);
    if (addend != nullptr) {
      state.addend = addend + before;
      return weigh(panel.query, on_.features());
    }
    alignas(kAlignment) static constexpr Real kNothing[kMaxPanel] = {};
    Real* const scores = on_.buffer(&Slab::attended);
    scores_.compute(panel, rows, {keys.block.begin + first, fused.count}, all_keys(fused.count),
                    keys.allowed, scores);
    state.addend = scores;
    weigh(kNothing, 0);
  }

  /// Finds the rows of masks and biases that the next block needs: of the panel, else of the next
  /// panel, else of the next tile. They are far apart, so that no processor foresees them.
  void find_ahead(const Panel<Real>& panel, const KeyBlock& block, const Tile& tile,
                  Ahead& ahead) const {
    const std::int64_t end = block_.first_row(block_.panels);
    std::int64_t first = panel.first;
    std::int64_t key = block.end();
    if (key >= std::min(tile.end, panel.key_end)) {
      first += static_cast<std::int64_t>(panel.rows);
      key = tile.begin;
    }
    if (first >= end) {
      first = block_.first_row(0);
      key = tile.end;
    }
    const std::int64_t keys = std::min(block_keys(panel, products_), on_.sequence.key_length - key);
    if (keys > 0)
      scores_.find_ahead(block_.pack, first,
                         std::min(first + static_cast<std::int64_t>(panel.rows), end),
                         {key, static_cast<std::size_t>(keys)}, ahead);
  }

  /// The same of a block whose whole groups of keys are attended at once.
  void attend_groups(const Panel<Real>& panel, const Attended& keys, const Tile& tile,
                     RowState<Real> state, std::size_t summed) const {
    const FusedKeys groups = whole_groups(panel, keys.block, products_.depth);
    const auto apart = [&](std::size_t from, std::size_t to) {
      if (from == to) return;
      const auto first = static_cast<std::int64_t>(from);
      const Attended some = {{keys.block.begin + first, to - from},
                             keys.first + first,
                             from_row(keys.keys, first),
                             keys.allowed,
                             clipped(keys.needed, from, to)};
      Real* const probs = on_.buffer(&Slab::scores);
      weigh_apart(panel, some, 0, some.block.keys, state, summed, probs);
      weigh_values(panel, some, tile, state, probs);
      state.fresh = false;
    };
    apart(0, groups.begin);
    if (groups.count > 0) {
      const auto first = static_cast<std::int64_t>(groups.begin);
      products_.attend(panel.vectors, from_row(keys.keys, first), groups.count, panel.query,
                       on_.features(), from_key(products_, tile.values, keys.first + first),
                       features_, state, summed);
      state.fresh = false;
    }
    apart(groups.end(), keys.block.keys);
  }

  /// The probabilities that are left, beside the kept ones. Pairs are summed where values are
  /// weighed, and dropped ones here.
  const Real* dropped(const Panel<Real>& panel, const Attended& keys, const RowState<Real>& state,
                      Real* probs) const {
    if (!dropout_.drops()) return probs;
    Real* const left = on_.buffer(&Slab::scores);
    dropout_.apply(panel, keys.block, keys.needed, probs, 1, left,
                   products_.depth == 1 ? nullptr : state.row_sum);
    return left;
  }

  /// The probabilities of keys [from, to) of a block, whose scores go through memory and all
  /// options.
  void weigh_apart(const Panel<Real>& panel, const Attended& keys, std::size_t from, std::size_t to,
                   const RowState<Real>& state, std::size_t summed, Real* probs) const {
    if (from == to) return;
    const auto first = static_cast<std::int64_t>(from);
    const KeyRanges here = clipped(keys.needed, from, to);
    Real* const scores = probs + from * panel.pitch;
    scores_.compute(panel, from_row(keys.keys, first), {keys.block.begin + first, to - from}, here,
                    keys.allowed, scores);
    products_.softmax(panel.vectors, scores, here, from, state, summed);
  }

  /// Calls function(keys) for the key blocks of the tile that some row of the panel attends.
  template <class Function>
  void each_attended(const Panel<Real>& panel, Tile& tile, Function&& function) const {
    each_block(std::max(tile.begin, panel.key_begin), std::min(tile.end, panel.key_end),
               block_keys(panel, products_), [&](const KeyBlock& block) {
                 panel.fold(block.begin);
                 const Allowed allowed = scores_.allowed(panel, block);
                 if (allowed == Allowed::kNone) return kept_.skip(panel, block);
                 load(tile);
                 const std::int64_t first = block.begin - tile.begin;
                 function(Attended{block, first, from_row(tile.key, first), allowed,
                                   scores_.needed(panel, block)});
               });
  }

  /// Adds values times probabilities. Isolated blocks are packed where a tile would be: then all of
  /// its blocks are.
  void weigh_values(const Panel<Real>& panel, const Attended& keys, const Tile& tile,
                    const RowState<Real>& state, const Real* probs) const {
    const bool excludes = keys.allowed != Allowed::kAll || on_.args.bias != nullptr;
    if (tile.isolated && (excludes || values_.packed_always()))
      values_.accumulate_isolated(panel, state, from_row(tile.value, keys.first), keys.block,
                                  keys.needed, probs, scores_.attended(panel, keys.block));
    else
      accumulate(products_, panel, state, from_key(products_, tile.values, keys.first), keys.block,
                 keys.needed, probs);
  }

  /// Hard attention: the best key of every row so far.
  void choose(const Panel<Real>& panel, Tile& tile) const {
    each_attended(panel, tile, [&](const Attended& keys) {
      Real* const scores = on_.buffer(&Slab::scores);
      scores_.compute(panel, keys.keys, keys.block, keys.needed, keys.allowed, scores);
      argmax(panel).look(on_.kernels, scores, keys.block.begin, keys.block.keys, panel.rows,
                         panel.vectors);
    });
  }

  Panel<Real> panel(std::int64_t p) const {
    Panel<Real> panel = block_.panel<Real>(p, on_.kernels.panels.lanes, products_.depth);
    const heed_attention_plan& plan = on_.plan;
    const std::int64_t before = block_.rows_before(p);
    panel.query = on_.buffer(&Slab::query) + before * plan.query_lines;
    panel.state = {on_.buffer(&Slab::row_max) + before, on_.buffer(&Slab::row_sum) + before,
                   on_.buffer(&Slab::accumulators) + before * plan.accumulator_rows, false};
    panel.sum_features = features_;
    panel.summed = reinterpret_cast<Summed*>(on_.buffer(&Slab::summed)) + p;
    return panel;
  }

  /// Calls function(panel) for the panels of the block.
  template <class Function>
  void each_panel(Function&& function) const {
    for (std::int64_t p = 0; p < block_.panels; ++p) function(panel(p));
  }

  Argmax<Real> argmax(const Panel<Real>& panel) const {
    auto* const keys = reinterpret_cast<std::int64_t*>(on_.buffer(&Slab::argmax));
    return {panel.state.row_max, keys + (panel.first - block_.first_row(0))};
  }

  void begin(const Panel<Real>& panel) const {
    scores_.pack_query(panel);
    reset(panel);
  }

  /// Forgets what the panel has seen.
  void reset(const Panel<Real>& panel) const {
    *panel.summed = Summed::kNothing;
    panel.begin_sums(block_.chunked ? nullptr : on_.sinks());
    if (on_.problem.hard) argmax(panel).begin(panel.pitch, panel.rows);
  }

  void load(Tile& tile) const {
    if (tile.loaded) return;
    tile.loaded = true;
    tile.key = scores_.keys(block_.key_head, tile.begin, tile.end);
    if (on_.problem.hard) return;
    if (!tile.isolated && values_.pack(tile.begin, tile.end, tile.values)) return;
    tile.value = values_.rows(tile.begin, tile.end);
    tile.values = tile.packed ? values_.packed(tile.value, tile.end - tile.begin)
                              : values_.in_place(tile.value);
  }

  /// Whether tiles of values are packed that so many panels read.
  bool packs(std::int64_t panels) const {
    return values_.packed_always() || panels >= kPanelsThatPayForPacking;
  }

  /// Ends the sums of a panel that has seen all keys. True if it had to see them again, isolated.
  bool finish(const Panel<Real>& panel) const {
    panel.finish_sums();
    if (!scores_.may_leak(panel, panel.keys()) ||
        on_.kernels.numbers.all_finite(panel.state.accumulators, features_ * panel.pitch))
      return false;
    reset(panel);
    attend_keys(panel, false, true);
    panel.finish_sums();
    return true;
  }

  void write_chosen(const Panel<Real>& panel) const {
    Real* const value = on_.buffer(&Slab::rows);
    for (std::size_t i = 0; i < panel.rows; ++i) {
      const std::int64_t j = argmax(panel).chosen(i);
      if (j >= 0) {
        values_.read(j, value);
      } else {
        std::fill_n(value, features_,
                    j == kNoKey ? Real{0} : std::numeric_limits<Real>::quiet_NaN());
      }
      output_.write_hard(panel, i, j, value);
    }
  }

  /// Computes rows of a finished panel again whose sums are not finite: pairs take subnormal
  /// values for 0, and infinity times 0 is NaN. The queries of all panels are lost.
  void attend_without_pairs(std::int64_t p) const {
    bool rows[kMaxPanel];
    if (!has_numbers(on_.kernels, this->panel(p), rows))
      Prefill(on_.args, block_, workspace_, on_.slab, {}).attend_rows(p, rows);
  }

  /// Attends panel p again, and writes these rows of its results and kept weights.
  void attend_rows(std::int64_t p, const bool* rows) const {
    const Panel<Real> panel = this->panel(p);
    begin(panel);
    attend_keys(panel, packs(1), false);
    finish(panel);
    write(panel, rows);
    if (kept_.keeps()) kept_.write(panel, block_keys(panel, products_), scores_, rows);
  }

  /// Writes the results of a panel that has seen all keys, or the chunk's, or the `wanted` rows of
  /// these.
  void write(const Panel<Real>& panel, const bool* wanted = nullptr) const {
    if (!block_.chunked) return output_.write(panel, wanted);
    const PartialResults<Real> to = partial_of(panel, block_.chunk);
    alignas(kAlignment) Real ones[kMaxPanel];
    std::fill_n(ones, panel.pitch, Real{1});
    for (std::size_t i = 0; i < panel.rows; ++i) {
      if (wanted != nullptr && !wanted[i]) continue;
      to.row_max[i] = panel.state.row_max[i];
      to.row_sum[i] = panel.state.row_sum[i];
    }
    store_rows(
        on_.kernels, panel, panel.state.accumulators, ones, features_,
        side_by_side(kTypeOf<Real>, sizeof(Real)), on_.buffer(&Slab::rows),
        [&](std::size_t i, std::int64_t, std::int64_t) {
          return reinterpret_cast<std::byte*>(to.sums + i * features_);
        },
        wanted);
  }

  /// Where a panel leaves what it makes of a chunk of keys.
  PartialResults<Real> partial_of(const Panel<Real>& panel, std::int64_t chunk) const {
    const heed_attention_plan& plan = on_.plan;
    Real* const values = reinterpret_cast<Real*>(workspace_ + plan.key_partials) +
                         (block_.index * plan.key_chunks + chunk) * plan.partial_values;
    const std::int64_t rows = block_.cut.begin(block_.cut.panels());
    return {values + panel.first, values + rows + panel.first,
            values + 2 * rows + panel.first * plan.problem.value_features};
  }

  const AttentionThread<Real> on_;
  const ProductKernels<Real>& products_;
  const QueryBlock& block_;
  const Scores<Real> scores_;
  const Values<Real> values_;
  std::byte* const workspace_;
  const Output<Real> output_;
  const KeptProbs<Real> kept_;
  const Dropout<Real> dropout_;
  const std::size_t features_ = on_.value_features();
  const bool in_groups_ = products_.attend != nullptr && !kept_.keeps() && !dropout_.drops();
};

}  // namespace

void prefill(const heed_attention_plan& plan, const heed_attention_args& args,
             std::byte* workspace) {
  if (plan.tasks == 0) return;
  with_real(plan.problem.float64, [&](auto real) {
    using Real = decltype(real);
    const KernelTable<Real>& kernels = kernels_of<Real>(*plan.context->kernels);
    const std::uint32_t lanes = kernels.panels.lanes;
    parallel_for(plan.context->threads, {plan.tasks, plan.tasks_per_claim, plan.workers},
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   const UnitInUse unit(products_of(kernels, plan.parts));
                   QueryBlock block = QueryBlock::of(plan, args, lanes, begin);
                   for (std::int64_t task = begin; task < end; ++task) {
                     const bool last = task + 1 == end;
                     const QueryBlock next =
                         last ? block : QueryBlock::of(plan, args, lanes, task + 1);
                     if (block.panels > 0)
                       Prefill<Real>(args, block, workspace, plan.slab_in(workspace, worker),
                                     plan.parts_for(block.sequence, lanes))
                           .attend(last ? nullptr : &next);
                     block = next;
                   }
                 });
    if (plan.key_chunks == 1) return;
    each_task(plan, plan.tasks / plan.key_chunks, 1, workspace,
              [&](std::int64_t task, std::byte* slab) {
                const QueryBlock block = QueryBlock::of(plan, args, lanes, task * plan.key_chunks);
                if (block.chunked && block.panels > 0)
                  Prefill<Real>(args, block, workspace, slab, {}).merge();
              });
  });
}

void run_plan(const heed_attention_plan& plan, const heed_attention_args& args, void* workspace,
              std::size_t bytes) {
  validate(plan.problem, args);
  check_workspace(plan.bytes, workspace, bytes);
  auto* const space = static_cast<std::byte*>(workspace);
  prefill(plan, args, space);
  decode(plan, args, space);
  recompute(plan, args, space);
}

}  // namespace heed
