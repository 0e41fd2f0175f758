#include "engine/dense/scores.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/tensor/loops.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// Whether `count` bytes, `stride` apart, are all zero or all nonzero.
Allowed survey(const std::uint8_t* mask, std::int64_t stride, std::size_t count) {
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

}  // namespace

ScoreSteps::ScoreSteps(const Problem& problem, const heed_attention_args& args,
                       heed_weights_point point)
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

ScoreSteps ScoreSteps::of_tanh(const Problem& problem, const heed_attention_args& args) {
  ScoreSteps steps(problem, args, HEED_WEIGHTS_CAPPED);
  steps.cap = 1;
  return steps;
}

template <class Real>
Scores<Real>::Scores(const heed_attention_plan& plan, const heed_attention_args& args,
                     const Sequence& sequence, const ScoreSteps& steps, std::byte* slab,
                     Parts parts)
    : plan_(plan),
      problem_(plan.problem),
      args_(args),
      sequence_(sequence),
      kernels_(kernels_of<Real>(*plan.context->kernels)),
      products_(products_of(kernels_, parts)),
      slab_(slab),
      steps_(steps) {}

template <class Real>
template <class Function>
void Scores<Real>::each_row_at(const Panel<Real>& panel, const void* data, const Layout& layout,
                               std::int64_t row_begin, std::int64_t first,
                               Function&& function) const {
  const std::int64_t offset = first * layout.strides.feature * layout.bytes;
  panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
    function(i, row_at(data, layout, sequence_.batch, head, row_begin + row) + offset);
  });
}

template <class Real>
void Scores<Real>::find_rows(const Panel<Real>& panel, const void* data, const Layout& layout,
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
      Real* const to = buffer(plan_.slab.rows) + i * count;
      kernels_.numbers.read(layout.type, from, stride, count, to);
      rows[i] = to;
    }
    previous = from;
  });
}

template <class Real>
void Scores<Real>::pack_query(const Panel<Real>& panel) const {
  const Layout& layout = problem_.query;
  const auto features = static_cast<std::size_t>(problem_.features);
  const Real* rows[kMaxPanel];
  std::int64_t stride = 1;
  if (layout.type == kTypeOf<Real>) {
    stride = layout.strides.feature;
    each_row_at(panel, args_.query, layout, sequence_.query_begin, 0,
                [&](std::size_t i, const std::byte* from) {
                  rows[i] = reinterpret_cast<const Real*>(from);
                });
  } else {
    find_rows(panel, args_.query, layout, sequence_.query_begin, 0, features, rows);
  }
  products_.pack_query(panel.vectors, rows, panel.rows, stride, features,
                       static_cast<Real>(steps_.query_scale), panel.query);
}

template <class Real>
void Scores<Real>::read_query(const Panel<Real>& panel, std::size_t i, Real* query) const {
  const Layout& layout = problem_.query;
  const std::int64_t r = panel.first + static_cast<std::int64_t>(i);
  kernels_.numbers.read(layout.type,
                        row_at(args_.query, layout, sequence_.batch, panel.pack->head_of(r),
                               sequence_.query_begin + panel.pack->query_row(r)),
                        layout.strides.feature, static_cast<std::size_t>(problem_.features), query);
}

template <class Real>
RowsView<Real> Scores<Real>::keys(std::int64_t g, std::int64_t begin, std::int64_t end) const {
  const bool paged = sequence_.pages != nullptr;
  Real* const copies = buffer(plan_.slab.keys);
  const auto row = [&](std::int64_t j) { return sequence_.key_row(args_.key, problem_.key, g, j); };
  if (products_.depth != 1 && products_.split_rows == nullptr)
    return paired(problem_.key, paged, begin, end, problem_.features, products_.depth, copies, row,
                  [&](std::int64_t j, std::uint16_t* to) {
                    Real* const numbers = buffer(plan_.slab.rows);
                    sequence_.read_key(kernels_, keys_of(problem_, args_), g, j, problem_.features,
                                       numbers);
                    kernels_.numbers.write(ElementType::kBf16, numbers,
                                           static_cast<std::size_t>(problem_.features), to, 1);
                  });
  const RowsView<Real> keys =
      widened(problem_.key, paged, begin, end, problem_.features, copies, row,
              [&](std::int64_t j, Real* to) {
                sequence_.read_key(kernels_, keys_of(problem_, args_), g, j, problem_.features, to);
              });
  if (products_.split_rows == nullptr) return keys;
  Real* const parts = buffer(plan_.slab.split);
  products_.split_rows(keys, static_cast<std::size_t>(end - begin),
                       static_cast<std::size_t>(problem_.features), parts);
  return {parts, ceil_div(problem_.features, std::int64_t{products_.depth}) * products_.elements()};
}

template <class Real>
Allowed Scores<Real>::allowed_by_mask(const Panel<Real>& panel, const KeyBlock& block) const {
  const std::int64_t stride = problem_.mask.strides.feature;
  bool any = false;
  bool all = true;
  const std::byte* previous = nullptr;
  each_row_at(panel, args_.mask, problem_.mask, 0, block.begin,
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

template <class Real>
Allowed Scores<Real>::allowed(const Panel<Real>& panel, const KeyBlock& block) const {
  if (block.begin >= panel.key_end ||
      block.begin + static_cast<std::int64_t>(block.keys) <= panel.key_begin)
    return Allowed::kNone;
  const Allowed by_mask = args_.mask == nullptr ? Allowed::kAll : allowed_by_mask(panel, block);
  if (by_mask == Allowed::kAll && !panel.attended_by_all(block)) return Allowed::kLimited;
  return by_mask;
}

template <class Real>
KeyRanges Scores<Real>::needed(const Panel<Real>& panel, const KeyBlock& block) const {
  if (panel.attended_by_all(block)) return all_keys(block.keys);
  const auto within = [=](std::int64_t j) {
    return static_cast<std::size_t>(
        std::clamp(j - block.begin, std::int64_t{0}, static_cast<std::int64_t>(block.keys)));
  };
  KeyRanges ranges{};
  for (std::size_t w = 0; w < panel.vectors; ++w) {
    const std::size_t first = w * kernels_.panels.lanes;
    const std::size_t last = std::min(first + kernels_.panels.lanes, panel.rows) - 1;
    ranges.begin[w] = w == 0 ? 0 : within(sequence_.first_key(panel.query_row(first)));
    ranges.end[w] = within(sequence_.end_key(panel.query_row(last)));
  }
  // Where no key is needed by all vectors, leaving pairs out is not worth another form of loop.
  return ranges.begin[panel.vectors - 1] <= ranges.end[0] ? ranges : all_keys(block.keys);
}

template <class Real>
void Scores<Real>::compute(const Panel<Real>& panel, const RowsView<Real>& key,
                           const KeyBlock& block, const KeyRanges& needed, Allowed allowed,
                           Real* scores) const {
  products_.scores(panel.vectors, key, needed, panel.query,
                   static_cast<std::size_t>(problem_.features), scores);
  apply_options(panel, block, allowed, scores);
}

template <class Real>
void Scores<Real>::weigh_again(const Panel<Real>& panel, std::int64_t g, const KeyBlock& block,
                               Allowed allowed, Real* probs) const {
  const std::int64_t end = block.begin + static_cast<std::int64_t>(block.keys);
  compute(panel, keys(g, block.begin, end), block, needed(panel, block), allowed, probs);
  alignas(kAlignment) Real unused[kMaxPanel] = {};
  kernels_.panels.exponentials(panel.vectors, probs, block.keys, panel.state.row_max, unused);
}

template <class Real>
void Scores<Real>::apply_options(const Panel<Real>& panel, const KeyBlock& block, Allowed allowed,
                                 Real* scores) const {
  if (steps_.caps)
    kernels_.panels.softcap(panel.vectors, scores, block.keys, static_cast<Real>(steps_.cap));
  if (steps_.modifies) modify(panel, block, scores);
  if (allowed != Allowed::kAll) exclude(panel, block, scores);
}

template <class Real>
void Scores<Real>::modify(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const {
  if (args_.alibi_slopes != nullptr) add_alibi(panel, block, scores);
  if (panel.bias != nullptr)
    add_values(
        panel.bias + (block.begin - panel.bias_begin) * static_cast<std::int64_t>(panel.pitch),
        block.keys * panel.pitch, scores);
  else if (args_.bias != nullptr)
    add_bias(panel, block, static_cast<Real>(steps_.unit), scores);
  if (args_.score_function != nullptr) call_function(panel, block, scores);
}

template <class Real>
void Scores<Real>::add_alibi(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const {
  const auto* const slopes = static_cast<const Real*>(args_.alibi_slopes);
  alignas(kAlignment) Real position[kMaxPanel] = {};
  alignas(kAlignment) Real slope[kMaxPanel] = {};
  const auto offset = static_cast<double>(sequence_.limits.offset);
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
  kernels_.panels.alibi(panel.vectors, scores, block.keys, position, slope);
}

/// Where what is added, or the sum, may overflow: a few keys at a time, so that what was there is
/// known. What does not overflow is as the kernel has it, whatever is in the panel beside it, and
/// what is not finite stays: no finite bias moves it.
template <class Real>
void Scores<Real>::add_far_alibi(const Panel<Real>& panel, const KeyBlock& block, Real* position,
                                 const Real* slope, Real* scores) const {
  constexpr std::size_t kKeys = 8;
  Real before[kKeys * kMaxPanel];
  for (std::size_t j = 0; j < block.keys; j += kKeys) {
    const std::size_t keys = std::min(kKeys, block.keys - j);
    Real* const after = scores + j * panel.pitch;
    std::copy_n(after, keys * panel.pitch, before);
    kernels_.panels.alibi(panel.vectors, after, keys, position, slope);
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

template <class Real>
void Scores<Real>::add_bias(const Panel<Real>& panel, const KeyBlock& block, Real factor,
                            Real* scores) const {
  const Real* rows[kMaxPanel];
  find_rows(panel, args_.bias, problem_.bias, 0, block.begin, block.keys, rows);
  kernels_.panels.add_rows(panel.vectors, scores, block.keys, rows, panel.rows, factor);
}

/// Beginning with -0, which leaves what is added as it is, -0 included.
template <class Real>
bool Scores<Real>::lay_bias(const Panel<Real>& panel, const KeyBlock& block, Real* to) const {
  const std::size_t count = block.keys * panel.pitch;
  fill_values(Real{-0.0}, count, to);
  add_bias(panel, block, static_cast<Real>(steps_.unit), to);
  return std::none_of(to, to + count, [](Real addend) {
    return std::isfinite(addend) && std::fabs(addend) > kHighestScore<Real> / 2;
  });
}

template <class Real>
heed_score_tile Scores<Real>::tile_of(const Panel<Real>& panel, const KeyBlock& block, Real* scores,
                                      std::int64_t* query_rows, std::int64_t* query_heads) const {
  panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
    query_rows[i] = row;
    query_heads[i] = head;
  });
  heed_score_tile tile{};
  tile.struct_size = sizeof tile;
  tile.dtype = problem_.float64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  tile.batch = sequence_.batch;
  tile.first_key = block.begin;
  tile.keys = static_cast<std::int64_t>(block.keys);
  tile.rows = static_cast<std::int64_t>(panel.rows);
  tile.stride_key = static_cast<std::int64_t>(panel.pitch);
  tile.query_rows = query_rows;
  tile.query_heads = query_heads;
  tile.scores = scores;
  return tile;
}

template <class Real>
void Scores<Real>::call_function(const Panel<Real>& panel, const KeyBlock& block,
                                 Real* scores) const {
  std::int64_t query_rows[kMaxPanel];
  std::int64_t query_heads[kMaxPanel];
  const std::size_t pitch = panel.pitch;
  const heed_score_tile tile = tile_of(panel, block, scores, query_rows, query_heads);
  args_.score_function(args_.score_user, &tile);
  if (products_.begin != nullptr) products_.begin();  // who is called may use the unit too
  constexpr Real kMasked = -std::numeric_limits<Real>::infinity();
  const auto factor = static_cast<Real>(steps_.after);
  for (std::size_t at = 0; factor != 1 && at < block.keys * pitch; ++at) {
    if (scores[at] == kMasked) continue;  // -inf times 0 would be NaN
    const Real product = scores[at] * factor;
    const bool overflows = std::isinf(product) && std::isfinite(scores[at]);
    scores[at] = overflows ? finite_score<Real>(static_cast<double>(product)) : product;
  }
  if (args_.bias == nullptr) return;
  const Real* const allowed = attended(panel, block);  // where the bias was -inf
  for (std::size_t at = 0; at < block.keys * pitch; ++at)
    if (allowed[at] == kMasked) scores[at] = kMasked;
}

template <class Real>
void Scores<Real>::apply_limits(const Panel<Real>& panel, const KeyBlock& block,
                                Real* scores) const {
  // Limits far from the block are rounded, and stay far from it.
  alignas(kAlignment) Real first[kMaxPanel] = {};
  alignas(kAlignment) Real limit[kMaxPanel] = {};
  const std::int64_t origin = panel.query_row(0);
  const auto first_of_origin = static_cast<Real>(origin - block.begin + sequence_.limits.first);
  const auto limit_of_origin = static_cast<Real>(origin - block.begin + sequence_.limits.end);
  panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t) {
    const auto further = static_cast<Real>(row - origin);
    first[i] = first_of_origin + further;
    limit[i] = limit_of_origin + further;
  });
  kernels_.panels.mask(panel.vectors, scores, block.keys, first, limit);
}

template <class Real>
void Scores<Real>::exclude(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const {
  if (!panel.attended_by_all(block)) apply_limits(panel, block, scores);
  if (args_.mask != nullptr) apply_mask(panel, block, scores);
}

template <class Real>
void Scores<Real>::apply_mask(const Panel<Real>& panel, const KeyBlock& block, Real* scores) const {
  const std::int64_t stride = problem_.mask.strides.feature;
  auto* const gathered = reinterpret_cast<std::uint8_t*>(slab_ + plan_.slab.rows);
  const std::uint8_t* rows[kMaxPanel];
  each_row_at(panel, args_.mask, problem_.mask, 0, block.begin,
              [&](std::size_t i, const std::byte* from) {
                const auto* const mask = reinterpret_cast<const std::uint8_t*>(from);
                rows[i] = mask;
                if (stride == 1) return;
                std::uint8_t* const to = gathered + i * block.keys;
                for (std::size_t j = 0; j < block.keys; ++j)
                  to[j] = mask[static_cast<std::int64_t>(j) * stride];
                rows[i] = to;
              });
  kernels_.panels.mask_rows(panel.vectors, scores, block.keys, rows, panel.rows);
}

template <class Real>
const Real* Scores<Real>::attended(const Panel<Real>& panel, const KeyBlock& block) const {
  Real* const scores = buffer(plan_.slab.attended);
  std::fill_n(scores, block.keys * panel.pitch, Real{0});
  if (args_.bias != nullptr) add_bias(panel, block, 0, scores);
  exclude(panel, block, scores);  // last, because it overrules the bias
  return scores;
}

template class Scores<float>;
template class Scores<double>;

}  // namespace heed
