// Attention where many query rows share the keys: online softmax, with the query rows in the lanes.
//
//   for each query block (a task: some panels of query rows)
//     for each tile of keys and values, which stays in the L2 cache
//       for each panel of the block
//         for each block of the tile's keys
//           scores        = keys x queries              [key][row]
//           probabilities = exp2(scores - row_max)      row_max moves when outgrown, and with it
//           accumulators += values^T x probabilities    what was summed before; [feature][row]
//     out = accumulators / row_sum
//
// Source: Milakov & Gimelshein 2018 (arXiv:1805.02867), with lazy rescaling.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/dense/kept_probs.hpp"
#include "engine/dense/key_block.hpp"
#include "engine/dense/output.hpp"
#include "engine/dense/panel.hpp"
#include "engine/dense/placement.hpp"
#include "engine/dense/scores.hpp"
#include "engine/dense/strategy.hpp"
#include "engine/dense/totals.hpp"
#include "engine/dense/values.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/tensor/argmax.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// Packing a tile of values pays off if at least this many panels read it.
constexpr std::int64_t kPanelsThatPayForPacking = 3;

/// The query block, and the pack, that a task computes.
struct Place {
  std::int64_t batch, pack, query_block;

  /// Where later rows attend more keys, the last query blocks take longest and come first.
  /// Otherwise the blocks of a pack follow each other, so that its keys stay in the shared cache.
  static Place of(const heed_attention_plan& plan, std::int64_t task) {
    const Problem& p = plan.problem;
    const std::int64_t packs = p.batch * plan.packs();
    const std::int64_t pack = p.triangular() ? task % packs : task / plan.query_blocks;
    return {pack / plan.packs(), pack % plan.packs(),
            p.triangular() ? plan.query_blocks - 1 - task / packs : task % plan.query_blocks};
  }
};

template <class Real>
class QueryBlock {
 public:
  QueryBlock(const heed_attention_plan& plan, const heed_attention_args& args, const Place& place,
             std::byte* slab, RowResult<Real>* results, Parts parts)
      : plan_(plan),
        problem_(plan.problem),
        args_(args),
        kernels_(kernels_of<Real>(*plan.context->kernels)),
        products_(products_of(kernels_, parts)),
        place_(place),
        sequence_(sequence_of(problem_, args, place.batch)),
        pack_{place.pack * plan.pack_heads, plan.pack_heads, nullptr},
        key_head_(pack_.head / problem_.group()),
        scores_(plan, args, sequence_, HEED_WEIGHTS_PROBABILITIES, slab, parts),
        values_(plan, args, sequence_, key_head_, slab, parts),
        output_(plan, args, sequence_, slab, results),
        kept_(plan, args, sequence_, slab),
        keeps_(plan.keeps_probs(sequence_)),
        cut_(plan.pack_heads * sequence_.query_length, plan.panel_rows, kernels_.panels.lanes),
        slab_(slab),
        results_(results) {
    const std::int64_t panels_per_block = plan.tile_q / plan.panel_rows;
    first_panel_ = place.query_block * panels_per_block;
    panels_ = std::min(panels_per_block, cut_.panels() - first_panel_);
    if (plan.decodes(sequence_)) panels_ = 0;
  }

  /// `next`: what this thread attends after this; nullptr: not known.
  void attend(const QueryBlock* next) const {
    std::int64_t key_begin = sequence_.key_length;
    std::int64_t key_end = 0;
    for (std::int64_t p = 0; p < panels_; ++p) {
      const Panel<Real> panel = this->panel(p);
      begin(panel);
      key_begin = std::min(key_begin, panel.key_begin);
      key_end = std::max(key_end, panel.key_end);
    }
    const bool pack = packs(panels_);
    if (keeps_)
      attend_and_show(this->tile(key_begin, key_end, pack), key_end);
    else
      attend_tiles(key_begin, key_end, pack, next);
    if (products_.depth == 1 || problem_.hard) return;
    for (std::int64_t p = 0; p < panels_; ++p) attend_without_pairs(p);
  }

  /// Attends panel p again, and writes those rows of it, and of the weights that are kept.
  void attend_rows(std::int64_t p, const bool* rows) const {
    const Panel<Real> panel = this->panel(p);
    begin(panel);
    attend_keys(panel, false);
    complete(panel);
    const std::size_t features = value_features();
    Real* const sums = panel.state.accumulators;
    kernels_.panels.normalise(panel.vectors, sums, panel.state.row_sum, features, sums);
    Real* const row = buffer(plan_.slab.rows);
    for (std::size_t i = 0; i < panel.rows; ++i) {
      if (!rows[i]) continue;
      for (std::size_t x = 0; x < features; ++x) row[x] = sums[x * panel.pitch + i];
      output_.write_row(panel, i, row);
    }
    if (keeps_)
      kept_.write(panel, block_keys(panel, products_, problem_.value_features), scores_, rows);
  }

 private:
  /// The keys and values [begin, end), fetched when the first panel attends one of them.
  struct Tile {
    std::int64_t begin, end;
    bool pack;
    bool loaded = false;
    RowsView<Real> key = {};
    RowsView<Real> value = {};
    ValueView<Real> values = {};  ///< the same, for the kernels
    Ahead* ahead = nullptr;       ///< what comes after it, if that is known
  };

  /// Tile by tile, each of which all panels read.
  void attend_tiles(std::int64_t key_begin, std::int64_t key_end, bool pack,
                    const QueryBlock* next) const {
    for (std::int64_t k = key_begin; k < key_end;) {
      Tile tile = this->tile(k, key_end, pack);
      std::optional<Ahead> ahead;
      if (plan_.tasks > 1 && tile.begin == key_begin && tile.end == key_end) {
        find_ahead(ahead.emplace(), next);
        tile.ahead = &*ahead;
      }
      for (std::int64_t p = 0; p < panels_; ++p) attend_tile(this->panel(p), tile, false);
      k = tile.end;
    }
    for (std::int64_t p = 0; p < panels_; ++p) finish(this->panel(p));
  }

  /// Panel by panel, because the probabilities of one are kept for the weights. `tile` is the first
  /// one; it serves all panels if it has all keys.
  void attend_and_show(Tile tile, std::int64_t key_end) const {
    for (std::int64_t p = 0; p < panels_; ++p) {
      const Panel<Real> panel = this->panel(p);
      if (tile.end >= key_end) {
        attend_tile(panel, tile, false);
      } else {
        attend_keys(panel, false);
      }
      const bool isolated = finish(panel);
      const std::int64_t step = block_keys(panel, products_, problem_.value_features);
      if (kept_.write(panel, step, scores_) || isolated) tile.loaded = false;
    }
  }

  /// One panel against one tile. `isolate` keeps values that are not finite from rows that may not
  /// attend them: slow, and needed only where finish() finds a leak.
  void attend_tile(const Panel<Real>& panel, Tile& tile, bool isolate) const {
    const std::int64_t step = block_keys(panel, products_, problem_.value_features);
    const std::int64_t end = std::min(tile.end, panel.key_end);
    const auto features = static_cast<std::size_t>(problem_.features);
    std::int64_t next = 0;
    for (std::int64_t k = std::max(tile.begin, panel.key_begin); k < end; k = next) {
      next = std::min(round_down(k, step) + step, end);
      const KeyBlock block = {k, static_cast<std::size_t>(next - k)};
      if (k % kFoldKeys == 0 && *panel.summed != Summed::kNothing) totals(panel).take();
      const Allowed allowed = scores_.allowed(panel, block);
      if (allowed == Allowed::kNone) {
        if (keeps_) kept_.skip(panel, block);
        continue;
      }
      load(tile);
      Real* const probs = keeps_ ? kept_.at(panel, k) : buffer(plan_.slab.scores);
      const RowsView<Real> keys = from_row(tile.key, k - tile.begin);
      const KeyRanges needed = scores_.needed(panel, block);
      if (problem_.hard) {
        scores_.compute(panel, keys, block, needed, allowed, probs);
        argmax(panel).look(kernels_, probs, k, block.keys, panel.rows, panel.vectors);
        continue;
      }

      RowState<Real> state = panel.state;
      state.ahead = tile.ahead;
      state.fresh = *panel.summed == Summed::kNothing;
      if (state.fresh) *panel.summed = Summed::kKeys;
      const std::size_t accumulated = totals(panel).rows_summed();
      const auto score_and_weigh = [&](std::size_t from, std::size_t to) {
        if (from == to) return;
        const auto at = static_cast<std::int64_t>(from);
        Real* const scores = probs + from * panel.pitch;
        const KeyRanges here = clipped(needed, from, to);
        scores_.compute(panel, from_row(keys, at), {k + at, to - from}, here, allowed, scores);
        products_.softmax(panel.vectors, scores, here, from, state, accumulated);
      };
      const bool fuses = allowed != Allowed::kSome && scores_.plain();
      const FusedKeys fused =
          fuses ? fused_keys(panel, block, state.fresh) : FusedKeys{block.keys, 0};
      score_and_weigh(0, fused.begin);
      if (fused.count > 0)
        products_.qk_softmax(panel.vectors, from_row(keys, static_cast<std::int64_t>(fused.begin)),
                             fused.count, panel.query, features, probs + fused.begin * panel.pitch,
                             fused.begin, state, accumulated);
      score_and_weigh(fused.begin + fused.count, block.keys);
      if (keeps_) kept_.keep(panel, block, needed);

      // Isolated blocks are packed where a tile would be: then all of its blocks are.
      if (isolate && (excludes(allowed) || values_.packed_always())) {
        values_.accumulate_isolated(panel, state, from_row(tile.value, k - tile.begin), block,
                                    needed, probs, scores_.attended(panel, block));
      } else {
        values_.accumulate(panel, state, values_.from_key(tile.values, k - tile.begin), block,
                           needed, probs);
      }
    }
  }

  std::size_t value_features() const { return static_cast<std::size_t>(problem_.value_features); }
  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  Panel<Real> panel(std::int64_t p) const {
    const std::int64_t first = cut_.begin(first_panel_ + p);
    const std::int64_t rows = cut_.begin(first_panel_ + p + 1) - first;
    const std::int64_t before = first - cut_.begin(first_panel_);  // rows of the query block
    Panel<Real> panel =
        make_panel<Real>(pack_, sequence_, first, rows, kernels_.panels.lanes, products_.depth);
    panel.query = plan_.placement == Placement::kPanels
                      ? of_head(static_cast<Real*>(const_cast<void*>(args_.query)), plan_, panel,
                                sequence_.batch, problem_.features)
                      : buffer(plan_.slab.query) + before * plan_.query_lines;
    panel.state = {buffer(plan_.slab.row_max) + before, buffer(plan_.slab.row_sum) + before,
                   buffer(plan_.slab.accumulators) + before * plan_.accumulator_rows, false};
    panel.argmax = reinterpret_cast<std::int64_t*>(slab_ + plan_.slab.argmax) + before;
    panel.summed = reinterpret_cast<Summed*>(slab_ + plan_.slab.summed) + p;
    return panel;
  }

  Totals<Real> totals(const Panel<Real>& panel) const { return {panel, value_features()}; }

  static Argmax<Real> argmax(const Panel<Real>& panel) {
    return {panel.state.row_max, panel.argmax};
  }

  void begin(const Panel<Real>& panel) const {
    if (plan_.placement != Placement::kPanels) scores_.pack_query(panel);
    reset(panel);
  }

  /// Forgets what the panel has seen.
  void reset(const Panel<Real>& panel) const {
    *panel.summed = Summed::kNothing;
    panel.begin_sums(static_cast<const Real*>(args_.sinks));
    if (problem_.hard) argmax(panel).begin(panel.pitch, panel.rows);
  }

  /// The tile that begins with key k. Where it ends depends on no panel.
  Tile tile(std::int64_t k, std::int64_t end, bool pack) const {
    return {k, std::min(round_down(k, plan_.tile_kv) + plan_.tile_kv, end), pack};
  }

  static void add(Ahead& ahead, const std::byte* first, const Layout& layout, std::int64_t rows,
                  std::int64_t features) {
    if (layout.strides.feature == 1 && rows > 0)
      ahead.add(reinterpret_cast<const char*>(first), layout.strides.row * layout.bytes,
                static_cast<std::size_t>(rows), static_cast<std::size_t>(features * layout.bytes));
  }

  /// This block's rows of queries or of out.
  void add_rows(Ahead& ahead, const void* data, const Layout& layout, std::int64_t features) const {
    if (plan_.placement == Placement::kPanels) return;
    const std::int64_t first = pack_.query_row(cut_.begin(first_panel_));
    const std::int64_t last = pack_.query_row(cut_.begin(first_panel_ + panels_) - 1);
    for (std::int64_t head = pack_.head; head < pack_.head + pack_.group; ++head)
      add(ahead, row_at(data, layout, sequence_.batch, head, sequence_.query_begin + first), layout,
          last + 1 - first, features);
  }

  /// The tile that begins with key k.
  void add_keys(Ahead& ahead, std::int64_t k, std::int64_t end) const {
    if (sequence_.pages != nullptr) return;
    const std::int64_t keys = tile(k, end, false).end - k;
    add(ahead, sequence_.key_row(args_.key, problem_.key, key_head_, k), problem_.key, keys,
        problem_.features);
    add(ahead, sequence_.key_row(args_.value, problem_.value, key_head_, k), problem_.value, keys,
        problem_.value_features);
  }

  /// Where one tile has all keys, little is computed with what is read: this block's rows of out
  /// are prefetched, and what `next` reads, but for keys that are there.
  void find_ahead(Ahead& ahead, const QueryBlock* next) const {
    add_rows(ahead, args_.out, problem_.out, problem_.value_features);
    if (next == nullptr || next->panels_ <= 0) return;
    next->add_rows(ahead, args_.query, problem_.query, problem_.features);
    const bool same = next->place_.batch == place_.batch && next->key_head_ == key_head_;
    if (!same)
      next->add_keys(ahead, next->panel(0).key_begin, next->panel(next->panels_ - 1).key_end);
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

  /// Whether a block of keys may hold pairs that do not attend.
  bool excludes(Allowed allowed) const { return allowed != Allowed::kAll || args_.bias != nullptr; }

  /// Whether the panel may have met pairs that do not attend.
  bool may_leak(const Panel<Real>& panel) const {
    const bool limits = panel.whole_begin > panel.key_begin || panel.whole_end < panel.key_end;
    return limits || args_.mask != nullptr || args_.bias != nullptr;
  }

  /// Whether tiles of values are packed that so many panels read.
  bool packs(std::int64_t panels) const {
    return values_.packed_always() || panels >= kPanelsThatPayForPacking;
  }

  /// Writes the results of a panel that has seen all keys. True if it had to see them again, so
  /// that buffers hold other values.
  bool finish(const Panel<Real>& panel) const {
    if (problem_.hard) {
      finish_hard(panel);
      return false;
    }
    const bool again = complete(panel);
    output_.write(panel);
    return again;
  }

  /// Rows of a finished panel whose sums are not numbers: where subnormal numbers count as 0,
  /// infinity times one of them is NaN. The queries of all panels are lost.
  void attend_without_pairs(std::int64_t p) const {
    bool rows[kMaxPanel];
    if (!has_numbers(kernels_, this->panel(p), value_features(), rows))
      QueryBlock(plan_, args_, place_, slab_, results_, {}).attend_rows(p, rows);
  }

  /// One panel against all its keys, by itself.
  void attend_keys(const Panel<Real>& panel, bool isolate) const {
    for (std::int64_t k = panel.key_begin; k < panel.key_end;) {
      Tile tile = this->tile(k, panel.key_end, packs(1) && !isolate);
      attend_tile(panel, tile, isolate);
      k = tile.end;
    }
  }

  /// Ends the panel's sums. True if values had to be isolated for that.
  bool complete(const Panel<Real>& panel) const {
    const std::size_t features = value_features();
    if (*panel.summed == Summed::kNothing)
      std::fill_n(panel.state.accumulators, features * panel.pitch, Real{0});
    totals(panel).give_back();
    if (!may_leak(panel) ||
        kernels_.numbers.all_finite(panel.state.accumulators, features * panel.pitch))
      return false;
    reset(panel);
    attend_keys(panel, true);
    totals(panel).give_back();
    return true;
  }

  void finish_hard(const Panel<Real>& panel) const {
    const std::size_t features = value_features();
    Real* const value = buffer(plan_.slab.rows);
    for (std::size_t i = 0; i < panel.rows; ++i) {
      const std::int64_t j = argmax(panel).chosen(i);
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
  const ProductKernels<Real>& products_;
  const Place place_;
  const Sequence sequence_;
  const HeadPack pack_;
  const std::int64_t key_head_;
  const Scores<Real> scores_;
  const Values<Real> values_;
  const Output<Real> output_;
  const KeptProbs<Real> kept_;
  const bool keeps_;    ///< probabilities, for the weights
  const PanelCut cut_;  ///< of the pack
  std::byte* const slab_;
  RowResult<Real>* const results_;
  std::int64_t first_panel_;
  std::int64_t panels_;  ///< 0 or less: the sequence ends before this block, or is decoded
};

void prefill(const heed_attention_plan& plan, const heed_attention_args& args,
             std::byte* workspace) {
  std::byte* const results = plan.results_bytes > 0 ? workspace : nullptr;  // nullptr: not kept
  std::byte* const slabs = workspace + plan.results_bytes;
  with_real(plan.problem.float64, [&](auto real) {
    using Real = decltype(real);
    const KernelTable<Real>& kernels = kernels_of<Real>(*plan.context->kernels);
    parallel_for(plan.context->threads, {plan.tasks, plan.tasks_per_claim, plan.workers},
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   const UnitInUse unit(products_of(kernels, plan.parts));
                   const auto block = [&](std::int64_t task) {
                     const Place place = Place::of(plan, task);
                     const Parts parts = plan.parts_for(
                         sequence_of(plan.problem, args, place.batch), kernels.panels.lanes);
                     return QueryBlock<Real>(plan, args, place, slabs + worker * plan.slab.bytes,
                                             reinterpret_cast<RowResult<Real>*>(results), parts);
                   };
                   for (std::int64_t task = begin; task < end; ++task) {
                     if (task + 1 == end) {
                       block(task).attend(nullptr);
                     } else {
                       const QueryBlock<Real> next = block(task + 1);
                       block(task).attend(&next);
                     }
                   }
                 });
  });
}

}  // namespace

const Strategy kPrefill = {"prefill", prefill};

}  // namespace heed
