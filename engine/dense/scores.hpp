// From queries and keys to the scores that softmax sees: everything that the options of a problem
// do to a score, a panel of rows and a block of keys at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/dense/panel.hpp"
#include "engine/tensor/loops.hpp"
#include "engine/tensor/rows.hpp"
#include "engine/tensor/scale.hpp"

namespace heed {

/// How many of the pairs of a panel and a key block may attend. kLimited: windows and causal limits
/// exclude some, masks none.
enum class Allowed { kNone, kSome, kLimited, kAll };

/// The score of a pair that does not attend.
template <class Real>
inline constexpr Real kExcluded = -std::numeric_limits<Real>::infinity();

/// The steps from products to scores at a point. Scores are in the units of scale * <q, k>; at
/// HEED_WEIGHTS_PROBABILITIES in log2 units of s / temperature, as the softmax kernels want them.
struct ScoreSteps {
  bool caps;           ///< softcap is applied
  bool modifies;       ///< ALiBi, bias or a score function is applied
  double query_scale;  ///< queries are multiplied with it as they are packed
  double unit;         ///< what ALiBi and bias are multiplied with, and softcap's result
  double cap;          ///< what the tanh of softcap is multiplied with
  double after;        ///< what scores are multiplied with after the score function

  ScoreSteps(const Problem& problem, const heed_attention_args& args, heed_weights_point point)
      : caps(problem.softcap > 0 && point >= HEED_WEIGHTS_CAPPED),
        modifies(point >= HEED_WEIGHTS_MASKED &&
                 (args.alibi_slopes != nullptr || args.bias != nullptr ||
                  args.score_function != nullptr)) {
    const double last = point == HEED_WEIGHTS_PROBABILITIES ? problem.log2_unit : 1;
    const bool natural = modifies && args.score_function != nullptr;
    unit = natural ? 1 : last;
    after = natural ? last : 1;
    cap = problem.softcap * unit;
    query_scale = problem.query_scale(caps, unit);
  }

  /// tanh(s / softcap) alone: the capped score over the cap would be nothing of a cap too small.
  static ScoreSteps of_tanh(const Problem& problem, const heed_attention_args& args) {
    ScoreSteps steps(problem, args, HEED_WEIGHTS_CAPPED);
    steps.cap = 1;
    return steps;
  }
};

/// The bias of rows of panels of this pitch, as Scores::lay_bias leaves it, for keys from
/// first_key on.
template <class Real>
struct LaidBias {
  const Real* values = nullptr;  ///< nullptr: it is read where it lies
  std::int64_t first_key = 0;
  std::size_t pitch = 0;
};

template <class Real>
class Scores {
 public:
  /// Scores as they are at `point`. Where values have components, pairs of bfloat16 are multiplied:
  /// panels of queries and keys are theirs.
  Scores(const AttentionThread<Real>& on, heed_weights_point point, Parts parts = {})
      : Scores(on, ScoreSteps(on.problem, on.args, point), parts) {}
  Scores(const AttentionThread<Real>& on, const ScoreSteps& steps, Parts parts)
      : on_(on), products_(products_of(on.kernels, parts)), steps_(steps) {}

  /// Whether scores are products and nothing else, exclusions aside.
  bool plain() const { return on_.problem.is_product() && !steps_.caps && !steps_.modifies; }

  /// Transposes the panel's queries, scaled; or, where scores are no products, as they are, and
  /// after them the weights of features, scaled.
  void pack_query(const Panel<Real>& panel) const {
    const auto scale = static_cast<Real>(steps_.query_scale);
    const bool product = on_.problem.is_product();
    if (!product) lay_weights(panel, scale, panel.query + feature_numbers(panel));
    const Layout& layout = on_.problem.query;
    const std::size_t features = on_.features();
    if (products_.pack_bf16_query != nullptr && has_rows_of(ElementType::kBf16, layout) &&
        !on_.problem.divides_by_norms()) {
      const std::uint16_t* rows[kMaxPanel];
      each_row_at(panel, on_.args.query, layout, on_.sequence.query_begin, 0,
                  [&](std::size_t i, const std::byte* from) {
                    rows[i] = reinterpret_cast<const std::uint16_t*>(from);
                  });
      return products_.pack_bf16_query(panel.vectors, rows, panel.rows, features, scale,
                                       panel.query);
    }
    const Real* rows[kMaxPanel];
    std::int64_t stride = 1;
    if (on_.problem.divides_by_norms()) {
      panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
        rows[i] = read_unit_query(row, head, on_.buffer(&Slab::rows) + i * features);
      });
    } else if (layout.type == kTypeOf<Real>) {
      stride = layout.strides.feature;
      each_row_at(panel, on_.args.query, layout, on_.sequence.query_begin, 0,
                  [&](std::size_t i, const std::byte* from) {
                    rows[i] = reinterpret_cast<const Real*>(from);
                  });
    } else {
      find_rows(panel, on_.args.query, layout, on_.sequence.query_begin, 0, features, rows);
    }
    products_.pack_query(panel.vectors, rows, panel.rows, stride, features,
                         product ? scale : Real{1}, panel.query);
  }

  /// to[x][i] = the weight of feature x for the panel's row i, scaled.
  void lay_weights(const Panel<Real>& panel, Real scale, Real* to) const {
    static constexpr Real kOne = 1;
    const auto* const weights = static_cast<const Real*>(on_.args.score_weights);
    const Real* rows[kMaxPanel];
    panel.each_row([&](std::size_t i, std::int64_t, std::int64_t head) {
      rows[i] = weights == nullptr ? &kOne : weights + head * on_.problem.features;
    });
    on_.kernels.panels.pack_query(panel.vectors, rows, panel.rows, 1, on_.features(), scale, to);
  }
  /// The panel as kernels of scores that are no products want it, with such weights.
  ActivatedPanel<Real> activated(const Panel<Real>& panel, const Real* weights) const {
    return {panel.query, weights, on_.features(), on_.problem.template act<Real>()};
  }

  /// The keys [begin, end) of key head g, where they lie, or widened; pairs where they lie, or
  /// copied and rounded or split into components.
  RowsView<Real> keys(std::int64_t g, std::int64_t begin, std::int64_t end) const {
    const RowsView<Real> keys = on_.stored_rows(products_, keys_of(on_.problem, on_.args), g, begin,
                                                end, on_.problem.features, on_.buffer(&Slab::keys),
                                                on_.problem.divides_by_norms());
    if (products_.split_rows == nullptr) return keys;
    Real* const parts = on_.buffer(&Slab::split);
    products_.split_rows(keys, static_cast<std::size_t>(end - begin), on_.features(), parts);
    return {parts,
            ceil_div(on_.problem.features, std::int64_t{products_.depth}) * products_.elements()};
  }

  /// How much of the block masks, windows and lengths leave.
  Allowed allowed(const Panel<Real>& panel, const KeyBlock& block) const {
    if (block.begin >= panel.key_end || block.end() <= panel.key_begin) return Allowed::kNone;
    const Allowed by_mask =
        on_.args.mask == nullptr ? Allowed::kAll : allowed_by_mask(panel, block);
    if (by_mask == Allowed::kAll && !panel.attended_by_all(block)) return Allowed::kLimited;
    return by_mask;
  }

  /// Whether some row may have met keys of the block that it does not attend.
  bool may_leak(const Panel<Real>& panel, const KeyBlock& block) const {
    return !panel.attended_by_all(block) || on_.args.mask != nullptr || on_.args.bias != nullptr;
  }

  /// The keys that windows and causal limits leave to each vector of the panel, counted from the
  /// block's first.
  KeyRanges needed(const Panel<Real>& panel, const KeyBlock& block) const {
    if (panel.attended_by_all(block)) return all_keys(block.keys);
    const auto within = [=](std::int64_t j) {
      return static_cast<std::size_t>(
          std::clamp(j - block.begin, std::int64_t{0}, static_cast<std::int64_t>(block.keys)));
    };
    KeyRanges ranges{};
    for (std::size_t w = 0; w < panel.vectors; ++w) {
      const std::size_t first = w * on_.kernels.panels.lanes;
      const std::size_t last = std::min(first + on_.kernels.panels.lanes, panel.rows) - 1;
      ranges.begin[w] = w == 0 ? 0 : within(on_.sequence.first_key(panel.query_row(first)));
      ranges.end[w] = within(on_.sequence.end_key(panel.query_row(last)));
    }
    // Where no key is needed by all vectors, leaving pairs out is not worth another form of loop.
    return ranges.begin[panel.vectors - 1] <= ranges.end[0] ? ranges : all_keys(block.keys);
  }

  /// Adds to `ahead` what masks and biases hold for the block's keys and rows [first, end) of the
  /// pack.
  void find_ahead(const HeadPack& pack, std::int64_t first, std::int64_t end, const KeyBlock& block,
                  Ahead& ahead) const {
    const auto add = [&](const void* data, const Layout& layout) {
      if (data == nullptr || layout.strides.feature != 1 || pack.listed != nullptr) return;
      const std::int64_t row = pack.query_row(first);
      const std::int64_t rows = layout.strides.row == 0 ? 1 : pack.query_row(end - 1) + 1 - row;
      const std::int64_t heads = layout.strides.head == 0 ? 1 : pack.group;
      for (std::int64_t h = pack.head; h < pack.head + heads; ++h)
        ahead.add(reinterpret_cast<const char*>(row_at(data, layout, on_.sequence.batch, h, row) +
                                                block.begin * layout.bytes),
                  layout.strides.row * layout.bytes, static_cast<std::size_t>(rows),
                  block.keys * static_cast<std::size_t>(layout.bytes));
    };
    add(on_.args.mask, on_.problem.mask);
    add(on_.args.bias, on_.problem.bias);
  }

  /// scores[j][i] = the score of the block's key j and the panel's row i, -inf where that pair does
  /// not attend, unless `allowed` says that all do. `key` begins with the block. Pairs outside
  /// `needed` do not attend and are not computed.
  void compute(const Panel<Real>& panel, const RowsView<Real>& key, const KeyBlock& block,
               const KeyRanges& needed, Allowed allowed, Real* scores,
               const LaidBias<Real>& bias = {}) const {
    if (on_.problem.is_product())
      products_.scores(panel.vectors, key, needed, panel.query, on_.features(), scores);
    else
      on_.kernels.panels.activated_scores(panel.vectors, key, needed,
                                          activated(panel, panel.query + feature_numbers(panel)),
                                          scores);
    apply_options(panel, block, allowed, scores, bias);
  }

  /// probs[j][i] = the probability of the block's key j, of key head g, for a row_max that is
  /// final.
  void weigh_again(const Panel<Real>& panel, std::int64_t g, const KeyBlock& block, Allowed allowed,
                   Real* probs) const {
    compute(panel, keys(g, block.begin, block.end()), block, needed(panel, block), allowed, probs);
    alignas(kAlignment) Real unused[kMaxPanel] = {};
    on_.kernels.panels.exponentials(panel.vectors, probs, block.keys, panel.state.row_max, unused);
  }

  /// Finds how the softmax of the panel's rows ends over all keys of key head g, in panel.state;
  /// `scores` holds a key block of them on the way.
  void sum_rows(const Panel<Real>& panel, std::int64_t g, Real* scores) const {
    panel.begin_sums(on_.sinks());
    each_block(panel.key_begin, panel.key_end, products_.key_block, [&](const KeyBlock& block) {
      const Allowed allowed = this->allowed(panel, block);
      if (allowed == Allowed::kNone) return;
      const KeyRanges all = all_keys(block.keys);
      compute(panel, keys(g, block.begin, block.end()), block, all, allowed, scores);
      on_.kernels.panels.softmax(panel.vectors, scores, all, 0, panel.state, 0);
    });
  }

  /// Takes products on to scores, through all options; the end of compute().
  void apply_options(const Panel<Real>& panel, const KeyBlock& block, Allowed allowed, Real* scores,
                     const LaidBias<Real>& bias = {}) const {
    if (steps_.caps)
      on_.kernels.panels.softcap(panel.vectors, scores, block.keys, static_cast<Real>(steps_.cap));
    if (steps_.modifies) modify(panel, block, scores, bias);
    if (allowed != Allowed::kAll) exclude(panel, block, scores);
  }

  /// to[j][i] = what the bias adds to the score of the block's key j and the panel's row i. Of
  /// scores that are not finite this may leave NaN where it is -inf, so a caller's function is not
  /// to see them. False if sums with scores may overflow, which add_bias() prevents.
  bool lay_bias(const Panel<Real>& panel, const KeyBlock& block, Real* to) const {
    const Real* rows[kMaxPanel];
    find_rows(panel, on_.args.bias, on_.problem.bias, 0, block.begin, block.keys, rows);
    return on_.kernels.panels.lay_rows(panel.vectors, to, block.keys, rows, panel.rows,
                                       static_cast<Real>(steps_.unit));
  }

  /// Whether bias and masks are all that changes scores, and kernels may add them in registers.
  bool only_adds() const { return only_adds_; }

  /// Values for qk_softmax to add to the products of the block. Products that are not finite become
  /// NaN where these have -inf. nullptr: sums might overflow.
  const Real* addend(const Panel<Real>& panel, const KeyBlock& block, Allowed allowed) const {
    Real* const to = on_.buffer(&Slab::attended);
    const bool biased = on_.args.bias != nullptr;
    if (biased && !lay_bias(panel, block, to)) return nullptr;
    if (allowed == Allowed::kSome) apply_mask(panel, block, to, !biased);
    return to;
  }

  /// Calls function(tile) with these scores as a caller's function sees them.
  template <class Function>
  void show(const Panel<Real>& panel, const KeyBlock& block, Real* scores,
            Function&& function) const {
    std::int64_t query_rows[kMaxPanel];
    std::int64_t query_heads[kMaxPanel];
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      query_rows[i] = row;
      query_heads[i] = head;
    });
    heed_score_tile tile{};
    tile.struct_size = sizeof tile;
    tile.dtype = on_.problem.float64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
    tile.batch = on_.sequence.batch;
    tile.first_key = block.begin;
    tile.keys = static_cast<std::int64_t>(block.keys);
    tile.rows = static_cast<std::int64_t>(panel.rows);
    tile.stride_key = static_cast<std::int64_t>(panel.pitch);
    tile.query_rows = query_rows;
    tile.query_heads = query_heads;
    tile.scores = scores;
    function(tile);
  }

  /// The factor of queries.
  Real query_scale() const { return static_cast<Real>(steps_.query_scale); }

  /// Reads the query of row `row` of a head to query[x], as it is.
  void read_query(std::int64_t row, std::int64_t head, Real* query) const {
    const Layout& layout = on_.problem.query;
    on_.kernels.numbers.read(layout.type, on_.query_row(on_.args.query, layout, row, head),
                             layout.strides.feature, on_.features(), query);
  }
  /// The same divided by its norm, times the head's weight; returns `query`.
  Real* read_unit_query(std::int64_t row, std::int64_t head, Real* query) const {
    read_query(row, head, query);
    divide_by_norm(on_.kernels, query, on_.features(), head_weight(head), query);
    return query;
  }
  double head_weight(std::int64_t head) const {
    const auto* const weights = static_cast<const Real*>(on_.args.score_weights);
    return weights == nullptr ? 1 : static_cast<double>(weights[head]);
  }

  /// At [j][i]: -inf where row i may not attend the block's key j, because of its bias too;
  /// something else elsewhere.
  const Real* attended(const Panel<Real>& panel, const KeyBlock& block) const {
    Real* const scores = on_.buffer(&Slab::attended);
    std::fill_n(scores, block.keys * panel.pitch, Real{0});
    if (on_.args.bias != nullptr) add_bias(panel, block, 0, scores);
    exclude(panel, block, scores);  // last, because it overrules the bias
    return scores;
  }

 private:
  std::size_t feature_numbers(const Panel<Real>& panel) const {
    return on_.features() * panel.pitch;
  }

  /// Calls function(i, address) for every row of the panel with the address of column `first` of
  /// the tensor's row.
  template <class Function>
  void each_row_at(const Panel<Real>& panel, const void* data, const Layout& layout,
                   std::int64_t row_begin, std::int64_t first, Function&& function) const {
    const std::int64_t offset = first * layout.strides.feature * layout.bytes;
    const bool steps = panel.pack->steps_by_rows();
    const std::byte* at = nullptr;
    for (std::size_t i = 0; i < panel.rows; ++i) {
      at = steps && i > 0 ? at + layout.strides.row * layout.bytes
                          : row_at(data, layout, on_.sequence.batch, panel.head(i),
                                   row_begin + panel.query_row(i)) +
                                offset;
      function(i, at);
    }
  }

  /// Points rows[i] at `count` values of the panel's row i of a tensor, from column `first` on;
  /// copies rows to the slab that do not lie side by side or need widening.
  void find_rows(const Panel<Real>& panel, const void* data, const Layout& layout,
                 std::int64_t row_begin, std::int64_t first, std::size_t count,
                 const Real** rows) const {
    const std::int64_t stride = layout.strides.feature;
    const bool in_place = layout.type == kTypeOf<Real> && (stride == 1 || count == 1);
    const std::byte* previous = nullptr;  // repeated rows are read once
    each_row_at(panel, data, layout, row_begin, first, [&](std::size_t i, const std::byte* from) {
      if (in_place) {
        rows[i] = reinterpret_cast<const Real*>(from);
      } else if (i > 0 && from == previous) {
        rows[i] = rows[i - 1];
      } else {
        Real* const to = on_.buffer(&Slab::rows) + i * count;
        on_.kernels.numbers.read(layout.type, from, stride, count, to);
        rows[i] = to;
      }
      previous = from;
    });
  }

  void modify(const Panel<Real>& panel, const KeyBlock& block, Real* scores,
              const LaidBias<Real>& bias) const {
    if (on_.args.alibi_slopes != nullptr) add_alibi(panel, block, scores);
    // Shorter sequences of a batch may have fewer vectors than the panel that was laid out.
    if (bias.values != nullptr && bias.pitch == panel.pitch)
      on_.kernels.numbers.add_onto(
          bias.values + static_cast<std::size_t>(block.begin - bias.first_key) * bias.pitch,
          block.keys * bias.pitch, scores);
    else if (on_.args.bias != nullptr)
      add_bias(panel, block, static_cast<Real>(steps_.unit), scores);
    if (on_.args.score_function != nullptr) call_function(panel, block, scores);
  }

  void add_alibi(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const {
    const auto* const slopes = static_cast<const Real*>(on_.args.alibi_slopes);
    alignas(kAlignment) Real position[kMaxPanel] = {};
    alignas(kAlignment) Real slope[kMaxPanel] = {};
    const auto offset = static_cast<double>(on_.sequence.limits.offset);
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      position[i] = static_cast<Real>(offset + static_cast<double>(row - block.begin));
      slope[i] = static_cast<Real>(static_cast<double>(slopes[head]) * steps_.unit);
    });
    const auto farthest = [&](std::size_t i) {
      return std::fabs(static_cast<double>(slope[i])) *
             (std::fabs(static_cast<double>(position[i])) + static_cast<double>(block.keys));
    };
    // Such a product alone would leave scores of common size what they are.
    constexpr double kFar = static_cast<double>(kHighestScore<Real>) / (1 << 24);
    for (std::size_t i = 0; i < panel.rows; ++i)
      if (farthest(i) > kFar) return add_far_alibi(panel, block, position, slope, scores);
    on_.kernels.panels.alibi(panel.vectors, scores, block.keys, position, slope);
  }

  /// The same where a distance times a slope, or its sum with a score, may overflow: a few keys at
  /// a time, so that the scores before are known. Sums that do not overflow are the kernel's,
  /// whatever else the panel holds. Scores that are not finite stay: no finite bias moves them.
  void add_far_alibi(const Panel<Real>& panel, const KeyBlock& block, Real* position,
                     const Real* slope, Real* scores) const {
    constexpr std::size_t kKeys = 8;
    Real before[kKeys * kMaxPanel];
    for (std::size_t j = 0; j < block.keys; j += kKeys) {
      const std::size_t keys = std::min(kKeys, block.keys - j);
      Real* const after = scores + j * panel.pitch;
      std::copy_n(after, keys * panel.pitch, before);
      on_.kernels.panels.alibi(panel.vectors, after, keys, position, slope);
      for (std::size_t at = 0; at < keys * panel.pitch; ++at) {
        if (std::isfinite(after[at])) continue;
        if (!std::isfinite(before[at])) {
          after[at] = before[at];
          continue;
        }
        const std::size_t i = at % panel.pitch;
        const std::size_t key = at / panel.pitch;
        const double distance =
            std::fabs(static_cast<double>(position[i]) - static_cast<double>(key));
        after[at] = finite_score<Real>(static_cast<double>(before[at]) -
                                       static_cast<double>(slope[i]) * distance);
      }
      for (std::size_t i = 0; i < panel.pitch; ++i) position[i] -= static_cast<Real>(kKeys);
    }
  }

  void add_bias(const Panel<Real>& panel, const KeyBlock& block, Real factor, Real* scores) const {
    const Real* rows[kMaxPanel];
    find_rows(panel, on_.args.bias, on_.problem.bias, 0, block.begin, block.keys, rows);
    on_.kernels.panels.add_rows(panel.vectors, scores, block.keys, rows, panel.rows, factor);
  }

  void call_function(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const {
    show(panel, block, scores,
         [&](const heed_score_tile& tile) { on_.args.score_function(on_.args.score_user, &tile); });
    if (products_.begin != nullptr) products_.begin();  // who is called may use the unit too
    const std::size_t count = block.keys * panel.pitch;
    if (steps_.after != 1)
      on_.kernels.numbers.scale_scores(static_cast<Real>(steps_.after), count, scores);
    if (on_.args.bias == nullptr) return;
    const Real* const allowed = attended(panel, block);  // where the bias was -inf
    for (std::size_t at = 0; at < count; ++at)
      if (allowed[at] == kExcluded<Real>) scores[at] = kExcluded<Real>;
  }

  void exclude(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const {
    if (!panel.attended_by_all(block)) apply_limits(panel, block, scores);
    if (on_.args.mask != nullptr) apply_mask(panel, block, scores);
  }

  void apply_mask(const Panel<Real>& panel, const KeyBlock& block, Real* scores,
                  bool fresh = false) const {
    const std::int64_t stride = on_.problem.mask.strides.feature;
    auto* const gathered = reinterpret_cast<std::uint8_t*>(on_.buffer(&Slab::rows));
    const std::uint8_t* rows[kMaxPanel];
    each_row_at(panel, on_.args.mask, on_.problem.mask, 0, block.begin,
                [&](std::size_t i, const std::byte* from) {
                  const auto* const mask = reinterpret_cast<const std::uint8_t*>(from);
                  rows[i] = mask;
                  if (stride == 1) return;
                  std::uint8_t* const to = gathered + i * block.keys;
                  for (std::size_t j = 0; j < block.keys; ++j)
                    to[j] = mask[static_cast<std::int64_t>(j) * stride];
                  rows[i] = to;
                });
    on_.kernels.panels.mask_rows(panel.vectors, scores, block.keys, rows, panel.rows, fresh);
  }

  void apply_limits(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const {
    // Limits far from the block are rounded, and stay far from it.
    alignas(kAlignment) Real first[kMaxPanel] = {};
    alignas(kAlignment) Real limit[kMaxPanel] = {};
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t) {
      first[i] = static_cast<Real>(on_.sequence.first_key(row) - block.begin);
      limit[i] = static_cast<Real>(on_.sequence.end_key(row) - block.begin);
    });
    on_.kernels.panels.mask(panel.vectors, scores, block.keys, first, limit);
  }

  Allowed allowed_by_mask(const Panel<Real>& panel, const KeyBlock& block) const {
    const std::int64_t stride = on_.problem.mask.strides.feature;
    bool any = false;
    bool all = true;
    const std::byte* previous = nullptr;
    each_row_at(panel, on_.args.mask, on_.problem.mask, 0, block.begin,
                [&](std::size_t, const std::byte* mask) {
                  if (mask == previous || (any && !all)) return;
                  previous = mask;
                  const Allowed here =
                      survey(reinterpret_cast<const std::uint8_t*>(mask), stride, block.keys);
                  any = any || here != Allowed::kNone;
                  all = all && here == Allowed::kAll;
                });
    if (!any) return Allowed::kNone;
    return all ? Allowed::kAll : Allowed::kSome;
  }

  /// Whether `count` bytes, `stride` apart, are all zero or all nonzero.
  static Allowed survey(const std::uint8_t* mask, std::int64_t stride, std::size_t count) {
    const bool first = mask[0] != 0;
    bool same = true;
    if (stride == 1) {
      same = first ? std::memchr(mask, 0, count) == nullptr
                   : std::memcmp(mask, mask + 1, count - 1) == 0;
    } else if (stride != 0) {
      for (std::size_t j = 1; j < count && same; ++j)
        same = (mask[static_cast<std::int64_t>(j) * stride] != 0) == first;
    }
    if (!same) return Allowed::kSome;
    return first ? Allowed::kAll : Allowed::kNone;
  }

  const AttentionThread<Real> on_;
  const ProductKernels<Real>& products_;
  const ScoreSteps steps_;
  const bool only_adds_ = on_.problem.is_product() && !steps_.caps &&
                          on_.args.alibi_slopes == nullptr && on_.args.score_function == nullptr &&
                          products_.adds;
};

}  // namespace heed
