// The kernels as plain loops: they state readably what every other instruction set computes, and
// serve processors without any. No vector types; a compiler may still vectorise the loops over
// `kLanes`.
#include <algorithm>

#include "engine/kernels/constants.hpp"
#include "engine/kernels/convert.hpp"
#include "engine/kernels/philox.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

template <class Real>
constexpr std::size_t kLanes = 32 / sizeof(Real);  // query rows side by side, as in a vector

template <class Real>
void pack_query(std::size_t vectors, const Real* const* rows, std::size_t row_count,
                std::ptrdiff_t feature_stride, std::size_t features, Real scale, Real* panel) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t r = 0; r < pitch; ++r) {
    for (std::size_t x = 0; x < features; ++x) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(x) * feature_stride;
      panel[x * pitch + r] = r < row_count ? rows[r][at] * scale : 0;
    }
  }
}

/// out[r] (+)= sum over begin <= k < end of row[k * stride] * panel[k][r], for the query rows of
/// one vector, run by run.
template <class Real>
void multiply_row(const Real* row, std::ptrdiff_t stride, const Real* panel, std::size_t pitch,
                  std::size_t begin, std::size_t end, std::size_t first_run, Real* out,
                  bool fresh) {
  constexpr std::size_t run = PanelGeometry::run;
  Real total[kLanes<Real>];
  for (std::size_t r = 0; r < kLanes<Real>; ++r) total[r] = fresh ? 0 : out[r];
  for (std::size_t k = begin; k < end;) {
    const std::size_t next = k < first_run ? first_run : k - (k - first_run) % run + run;
    Real sum[kLanes<Real>] = {};
    for (; k < next && k < end; ++k) {
      const Real a = row[static_cast<std::ptrdiff_t>(k) * stride];
      for (std::size_t r = 0; r < kLanes<Real>; ++r) sum[r] += a * panel[k * pitch + r];
    }
    for (std::size_t r = 0; r < kLanes<Real>; ++r) total[r] += sum[r];
  }
  for (std::size_t r = 0; r < kLanes<Real>; ++r) out[r] = total[r];
}

template <class Real>
void scores(std::size_t vectors, const RowsView<Real>& key, const KeyRanges& keys,
            const Real* panel, std::size_t features, Real* out) {
  HEED_CONTRACT(keys.hold_for(vectors));
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t w = 0; w < vectors; ++w)
    for (std::size_t j = keys.begin[w]; j < keys.end[w]; ++j)
      multiply_row(key.data + static_cast<std::ptrdiff_t>(j) * key.row_stride, 1,
                   panel + w * kLanes<Real>, pitch, 0, features, PanelGeometry::run,
                   out + j * pitch + w * kLanes<Real>, true);
}

template <class Real>
void add_scores(std::size_t vectors, const RowsAndPanel<Real>* parts, std::size_t part_count,
                std::size_t count, Real* sums) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t j = 0; j < count; ++j)
    for (std::size_t r = 0; r < pitch; ++r) {
      Real sum = 0;
      for (std::size_t p = 0; p < part_count; ++p) {
        const auto& [rows, panel, columns] = parts[p];
        const Real* const row = rows.data + static_cast<std::ptrdiff_t>(j) * rows.row_stride;
        for (std::size_t x = 0; x < columns; ++x) sum += row[x] * panel[x * pitch + r];
      }
      sums[j * pitch + r] += sum;
    }
}

/// 2^x = power * (1 + fraction * (p + 1/2)), as in exp2.hpp without a fused multiply-add.
template <class Real>
struct Reduced {
  Real power;
  Real fraction;
  Real p;
};

template <class Real>
Reduced<Real> reduce_exponent(Real x, Real rounder = Exp2<Real>::kRounder) {
  using Numbers = Exp2<Real>;
  const Real shifted = x + rounder;
  typename Numbers::Bits bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits <<= Numbers::kMantissaBits;
  Reduced<Real> s;
  __builtin_memcpy(&s.power, &bits, sizeof s.power);
  s.fraction = x - (shifted - rounder);
  s.p = 0;
  for (const Real coefficient : Numbers::kCoefficients) s.p = s.p * s.fraction + coefficient;
  s.p = s.p * s.fraction + Numbers::kLastLessHalf;
  return s;
}

template <class Real>
Real exp2_of(Real x, Real whole = 0) {
  const Real lowest = Exp2<Real>::kLowest + whole;
  if (x < lowest) x = lowest;
  const Reduced<Real> s = reduce_exponent(x, Exp2<Real>::kRounder - whole);
  const Real half = s.fraction / 2;
  const Real sum = half + 1;
  const Real lost = half - (sum - 1);
  return (sum + (s.p * s.fraction + lost)) * s.power;
}

/// tanh(x) for t = 2 log2(e) x: (e^2x - 1) / (e^2x + 1) of |x|, then the sign.
template <class Real>
Real tanh_of_exponent(Real t) {
  auto x = static_cast<Real>(-__builtin_fabs(t));
  if (x < -kSaturated<Real>) x = -kSaturated<Real>;
  const Reduced<Real> s = reduce_exponent(x);
  const Real growth = s.p * s.fraction + s.fraction / 2;
  const Real e = (s.power - 1) + s.power * growth;
  return static_cast<Real>(__builtin_copysign(e / (e + 2), t));
}

template <class Real>
struct Activated {
  Real value, derivative;
};

template <class Real>
Activated<Real> activated(Real z, const Activation<Real>& act) {
  if (act.tanh) {
    const Real value = tanh_of_exponent(z * kTwiceLog2E<Real>);
    return {value, (1 - value) * (1 + value)};
  }
  const Real slope = z > 0 ? 1 : act.slope;
  return {z * slope, slope};
}

template <class Real>
void activated_scores(std::size_t vectors, const RowsView<Real>& key, const KeyRanges& keys,
                      const ActivatedPanel<Real>& panel, Real* scores) {
  HEED_CONTRACT(keys.hold_for(vectors));
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t r = 0; r < pitch; ++r) {
    const std::size_t w = r / kLanes<Real>;
    for (std::size_t j = keys.begin[w]; j < keys.end[w]; ++j) {
      const Real* const k = key.data + static_cast<std::ptrdiff_t>(j) * key.row_stride;
      Real sum = 0;
      for (std::size_t x = 0; x < panel.features; ++x)
        sum += panel.weights[x * pitch + r] *
               activated(panel.query[x * pitch + r] + k[x], panel.act).value;
      scores[j * pitch + r] = sum;
    }
  }
}

template <class Real>
void activated_gradient(std::size_t vectors, const RowsView<Real>& key, std::size_t keys,
                        const ActivatedPanel<Real>& panel, const Real* gradients,
                        const ActivatedGradient<Real>& to) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t j = 0; j < keys; ++j) {
    const Real* const k = key.data + static_cast<std::ptrdiff_t>(j) * key.row_stride;
    for (std::size_t i = 0; i < panel.features * pitch; ++i) {
      const Real gradient = gradients[j * pitch + i % pitch];
      if (gradient == 0) continue;
      const Activated<Real> of = activated(panel.query[i] + k[i / pitch], panel.act);
      const Real moved = gradient * of.derivative * panel.weights[i];
      to.query[i] += moved;
      to.weights[i] += gradient * of.value;
      to.key[j * to.key_pitch + i / pitch] += moved;
    }
  }
}

/// Calls function(score, r, j) for the keys that the vector of query row r needs, in order of keys.
template <class Real, class Function>
void each_score(Real* scores, const KeyRanges& keys, std::size_t vectors, Function&& function) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t w = 0; w < vectors; ++w)
    for (std::size_t j = keys.begin[w]; j < keys.end[w]; ++j)
      for (std::size_t r = w * kLanes<Real>; r < (w + 1) * kLanes<Real>; ++r)
        function(scores[j * pitch + r], r, j);
}

template <class Real>
void softcap(std::size_t vectors, Real* scores, std::size_t keys, Real factor) {
  each_score(scores, all_keys(keys), vectors, [&](Real& score, std::size_t, std::size_t) {
    score = tanh_of_exponent(score) * factor;
  });
}

template <class Real>
void alibi(std::size_t vectors, Real* scores, std::size_t keys, const Real* position,
           const Real* slope) {
  each_score(scores, all_keys(keys), vectors, [&](Real& score, std::size_t r, std::size_t j) {
    score -= slope[r] * static_cast<Real>(__builtin_fabs(position[r] - static_cast<Real>(j)));
  });
}

template <class Real>
void add_rows(std::size_t vectors, Real* scores, std::size_t keys, const Real* const* rows,
              std::size_t row_count, Real factor) {
  each_score(scores, all_keys(keys), vectors, [&](Real& score, std::size_t r, std::size_t j) {
    if (r < row_count) score = with_addend(score, rows[r][j], factor);
  });
}

template <class Real>
bool lay_rows(std::size_t vectors, Real* to, std::size_t keys, const Real* const* rows,
              std::size_t row_count, Real factor) {
  bool fits = true;
  each_score(to, all_keys(keys), vectors, [&](Real& addend, std::size_t r, std::size_t j) {
    addend = r < row_count ? with_addend(Real{-0.0}, rows[r][j], factor) : Real{-0.0};
    fits = fits && (addend == -kInfinity<Real> ||
                    !(addend >= kFarAddend<Real> || addend <= -kFarAddend<Real>));
  });
  return fits;
}

template <class Real>
void mask_rows(std::size_t vectors, Real* scores, std::size_t keys, const std::uint8_t* const* rows,
               std::size_t row_count, bool fresh) {
  each_score(scores, all_keys(keys), vectors, [&](Real& score, std::size_t r, std::size_t j) {
    if (fresh) score = 0;
    if (r < row_count && rows[r][j] == 0) score = -kInfinity<Real>;
  });
}

template <class Real>
void mask(std::size_t vectors, Real* scores, std::size_t keys, const Real* first,
          const Real* limit) {
  each_score(scores, all_keys(keys), vectors, [&](Real& score, std::size_t r, std::size_t j) {
    const auto key = static_cast<Real>(j);
    if (key < first[r] || key >= limit[r]) score = -kInfinity<Real>;
  });
}

/// Moves row_max of one query row to its new maximum and rescales what the row has summed so far,
/// the `pending` probabilities before these scores included.
template <class Real>
void rescale(Real maximum, Real* scores, const RowState<Real>& rows, std::size_t accumulated,
             std::size_t r, std::size_t pitch, std::size_t pending) {
  if (maximum > kLargest<Real>) maximum = kLargest<Real>;
  const Real factor = exp2_of(rows.row_max[r] - maximum);
  rows.row_max[r] = maximum;
  rows.row_sum[r] *= factor;
  for (std::size_t j = 1; j <= pending; ++j) *(scores - j * pitch + r) *= factor;
  if (rows.fresh) return;
  for (std::size_t x = 0; x < accumulated; ++x) rows.accumulators[x * pitch + r] *= factor;
}

/// Scores of +inf count as the largest finite number: they share the row's probability evenly.
/// These keys are summed apart from the ones before them.
template <class Real>
void add_exponentials(Real* scores, const KeyRanges& keys, const Real* row_max, Real* row_sum,
                      std::size_t vectors) {
  Real apart[kMaxVectors * kLanes<Real>] = {};
  each_score(scores, keys, vectors, [&](Real& score, std::size_t r, std::size_t) {
    if (score > kLargest<Real>) score = kLargest<Real>;
    score = exp2_of(score - row_max[r]);
    apart[r] += score;
  });
  for (std::size_t r = 0; r < vectors * kLanes<Real>; ++r) row_sum[r] += apart[r];
}

template <class Real>
void exponentials(std::size_t vectors, Real* scores, std::size_t keys, const Real* row_max,
                  Real* row_sum) {
  add_exponentials(scores, all_keys(keys), row_max, row_sum, vectors);
}

template <class Real>
void softmax_gradient(std::size_t vectors, Real* scores, std::size_t keys, const Real* whole,
                      const Real* rest, const Real* delta, Real* gradients) {
  each_score(scores, all_keys(keys), vectors, [&](Real& score, std::size_t r, std::size_t) {
    Real& gradient = gradients[&score - scores];
    const Real prob = exp2_of(score - rest[r], whole[r]);
    gradient = score == -kInfinity<Real> ? Real{0} : prob * (gradient - delta[r]);
    score = prob;
  });
}

template <class Real>
void softmax(std::size_t vectors, Real* scores, const KeyRanges& keys, std::size_t pending,
             const RowState<Real>& rows, std::size_t accumulated) {
  HEED_CONTRACT(keys.hold_for(vectors));
  const std::size_t pitch = vectors * kLanes<Real>;
  Real top[kMaxVectors * kLanes<Real>];
  for (Real& most : top) most = kNoRowMax<Real>;
  each_score(scores, keys, vectors,
             [&](Real score, std::size_t r, std::size_t) { top[r] = std::max(top[r], score); });
  for (std::size_t r = 0; r < pitch; ++r)
    if (top[r] > rows.row_max[r] + kRescaleThreshold<Real>)
      rescale(top[r], scores, rows, accumulated, r, pitch, pending);
  add_exponentials(scores, keys, rows.row_max, rows.row_sum, vectors);
}

template <class Real>
void argmax(std::size_t vectors, const Real* scores, std::size_t keys, Real* best, Real* index) {
  const auto look = [&](Real score, std::size_t r, std::size_t j) {
    if (score > best[r]) index[r] = static_cast<Real>(j);
    if (score > best[r] || score != score) best[r] = score;
  };
  each_score(scores, all_keys(keys), vectors, look);
}

template <class Real>
void qk_softmax(std::size_t vectors, const RowsView<Real>& key, std::size_t keys, const Real* panel,
                std::size_t features, Real* probs, std::size_t pending, const RowState<Real>& rows,
                std::size_t accumulated) {
  HEED_CONTRACT(keys % PanelGeometry::row_padding == 0);
  scores(vectors, key, all_keys(keys), panel, features, probs);
  softmax(vectors, probs, all_keys(keys), pending, rows, accumulated);
}

template <class Real>
void pack_values(const MatrixView<Real>& value, std::size_t keys, std::size_t features,
                 Real* packed) {
  constexpr std::size_t block = PanelGeometry::value_block;
  for (std::size_t x0 = 0; x0 < features; x0 += block) {
    for (std::size_t j = 0; j < keys; ++j) {
      const Real* const row = value.data + static_cast<std::ptrdiff_t>(j) * value.row_stride;
      for (std::size_t x = x0; x < x0 + block; ++x)
        *packed++ = x < features ? row[static_cast<std::ptrdiff_t>(x) * value.column_stride] : 0;
    }
  }
}

template <class Real>
void accumulate(std::size_t vectors, const ValueView<Real>& value, const KeyRanges& keys,
                std::size_t first_run, const Real* probs, const RowState<Real>& rows,
                std::size_t features) {
  HEED_CONTRACT(keys.hold_for(vectors) && first_run > 0 && first_run <= PanelGeometry::run);
  constexpr std::size_t block = PanelGeometry::value_block;
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t x = 0; x < features; ++x) {
    const Real* const column = value.data +
                               static_cast<std::ptrdiff_t>(x / block) * value.block_stride +
                               static_cast<std::ptrdiff_t>(x % block) * value.feature_stride;
    for (std::size_t w = 0; w < vectors; ++w)
      multiply_row(column, value.key_stride, probs + w * kLanes<Real>, pitch, keys.begin[w],
                   keys.end[w], first_run, rows.accumulators + x * pitch + w * kLanes<Real>,
                   rows.fresh);
  }
}

template <class Real>
void multiply_panel(std::size_t vectors, const ValueView<Real>& value, std::size_t keys,
                    const Real* panel, Real* sums, std::size_t features, bool fresh) {
  accumulate(vectors, value, all_keys(keys), PanelGeometry::run, panel,
             {nullptr, nullptr, sums, fresh}, features);
}

/// NaN and infinities less themselves are NaN.
template <class Real>
bool all_finite(const Real* numbers, std::size_t count) {
  HEED_CONTRACT(count % kLanes<Real> == 0);
  Real special = 0;
  for (std::size_t i = 0; i < count; ++i) special += numbers[i] - numbers[i];
  return special == 0;
}

template <class Real>
double inner_product(const Real* a, const Real* b, std::size_t count) {
  constexpr std::size_t together = 16;
  double sums[together] = {};
  for (std::size_t i = 0; i < count; ++i)
    sums[i % together] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  for (std::size_t some = together / 2; some > 0; some /= 2)
    for (std::size_t k = 0; k < some; ++k) sums[k] += sums[k + some];
  return sums[0];
}

/// Calls function(result, r, x) for the rows and features of what accumulators end as.
template <class Real, class Function>
void each_result(std::size_t pitch, const Real* accumulators, const Real* row_sum, std::size_t rows,
                 std::size_t features, Function&& function) {
  for (std::size_t r = 0; r < rows; ++r) {
    const Real inverse = row_sum[r] == 0 ? 0 : 1 / row_sum[r];
    for (std::size_t x = 0; x < features; ++x)
      function(accumulators[x * pitch + r] * inverse, r, x);
  }
}

template <class Real>
void finish(std::size_t vectors, const Real* accumulators, const Real* row_sum,
            std::size_t features, Real* const* out_rows, std::size_t row_count,
            std::ptrdiff_t feature_stride, bool /*past_caches*/) {
  each_result(vectors * kLanes<Real>, accumulators, row_sum, row_count, features,
              [&](Real result, std::size_t r, std::size_t x) {
                out_rows[r][static_cast<std::ptrdiff_t>(x) * feature_stride] = result;
              });
}

template <class Real>
void normalise(std::size_t vectors, const Real* accumulators, const Real* row_sum,
               std::size_t features, Real* to) {
  const std::size_t pitch = vectors * kLanes<Real>;
  each_result(pitch, accumulators, row_sum, pitch, features,
              [&](Real result, std::size_t r, std::size_t x) { to[x * pitch + r] = result; });
}

template <class Real>
void drop(std::size_t vectors, const DroppedPairs& pairs, const KeyRanges& keys, const Real* from,
          Real factor, Real* to, Real* dropped) {
  HEED_CONTRACT(keys.hold_for(vectors));
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t r = 0; r < pitch; ++r) {
    DroppedKeys row = {pairs.key, pairs.threshold, pairs.rows[r], pairs.heads[r], pairs.batch};
    Real sum = 0;
    const std::size_t end = keys.end[r / kLanes<Real>];
    for (std::size_t j = keys.begin[r / kLanes<Real>]; j < end; ++j) {
      const bool falls = row.drops(pairs.first_key + j);
      const Real x = from[j * pitch + r];
      to[j * pitch + r] = falls ? 0 : x * factor;
      if (falls) sum += x;
    }
    if (dropped != nullptr) dropped[r] += sum;
  }
}

template <class Real>
void edge_scores(const EdgeRows& rows, std::size_t edges, const Real* query, std::size_t heads,
                 std::size_t features, bool fresh, Real* scores, std::size_t pitch) {
  HEED_CONTRACT(features % RowKernels<Real>::feature_padding == 0 && pitch >= heads);
  with_element<Real>(rows.type, [&](auto element) {
    for (std::size_t e = 0; e < edges; ++e)
      for (std::size_t h = 0; h < heads; ++h) {
        const auto* const row = reinterpret_cast<const decltype(element)*>(
            rows.from_head(static_cast<std::int64_t>(h)).row(e));
        Real sum = 0;
        for (std::size_t x = 0; x < features; ++x)
          sum += static_cast<Real>(decode(row[x])) * query[h * features + x];
        Real& score = scores[e * pitch + h];
        score = fresh ? sum : score + sum;
      }
  });
}

template <class Real>
void edge_values(const EdgeRows& rows, std::size_t edges, const Real* weights, std::size_t pitch,
                 std::size_t heads, std::size_t features, Real* sums, bool fresh) {
  HEED_CONTRACT(features % RowKernels<Real>::feature_padding == 0 && pitch >= heads);
  with_element<Real>(rows.type, [&](auto element) {
    for (std::size_t h = 0; h < heads; ++h) {
      const EdgeRows of_head = rows.from_head(static_cast<std::int64_t>(h));
      for (std::size_t x = 0; x < features; ++x) {
        Real sum = 0;
        for (std::size_t e = 0; e < edges; ++e) {
          const auto* const row = reinterpret_cast<const decltype(element)*>(of_head.row(e));
          sum += weights[e * pitch + h] * static_cast<Real>(decode(row[x]));
        }
        Real& to = sums[h * features + x];
        to = fresh ? sum : to + sum;
      }
    }
  });
}

template <class Real>
void activate(const EdgeRows& rows, std::size_t edges, const OwnRows<Real>& own, std::size_t heads,
              std::size_t features, const Activation<Real>& act, Real* values, Real* slopes) {
  HEED_CONTRACT(features % RowKernels<Real>::feature_padding == 0 && rows.type == kTypeOf<Real>);
  for (std::size_t i = 0; i < edges * heads * features; ++i) {
    const auto head = static_cast<std::int64_t>(i / features % heads);
    const std::size_t e = i / features / heads;
    const char* const row = rows.from_head(head).row(e);
    const Real z =
        own.row(e)[i % (heads * features)] + reinterpret_cast<const Real*>(row)[i % features];
    const Activated<Real> of = activated(z, act);
    values[i] = of.value;
    if (slopes != nullptr) slopes[i] = of.derivative;
  }
}

/// Calls function(j, row j) for rows in order.
template <class Element, class Function>
void each_row(const StoredRows& rows, Function&& function) {
  std::size_t j = 0;
  for (std::size_t r = 0; r < rows.run_count; ++r)
    for (std::size_t i = 0; i < rows.runs[r].count; ++i)
      function(j++, reinterpret_cast<const Element*>(rows.row(rows.runs[r], i)));
}

/// The factor of row j.
template <class Real, class Element>
Real scale_of(const StoredRows& rows, std::size_t j) {
  if constexpr (kIsScaled<Element>) return static_cast<Real>(rows.scales[j]);
  return 1;
}

template <class Real>
void row_query(ElementType /*type*/, const Real* query, std::size_t features, Real scale,
               Real* to) {
  const RowOrder order = {kLanes<Real>, features};
  std::fill_n(to, order.padded(), Real{0});
  for (std::size_t x = 0; x < features; ++x) to[order.place(x)] = query[x] * scale;
}

/// As on other instruction sets, features that lie a vector apart are summed together.
template <class Real>
void row_scores(const StoredRows& rows, const Real* query, std::size_t queries, Real* scores,
                std::size_t pitch) {
  HEED_CONTRACT(rows.hold_for(kLanes<Real>) && pitch >= queries);
  const RowOrder order = {kLanes<Real>, rows.features};
  with_stored_element<Real>(rows.type, [&](auto element) {
    using Element = decltype(element);
    each_row<Element>(rows, [&](std::size_t j, const Element* row) {
      for (std::size_t h = 0; h < queries; ++h) {
        const Real* const q = query + h * order.query_numbers();
        Real sums[kLanes<Real>] = {};
        const auto add = [&](std::size_t x, std::size_t place) {
          sums[place % kLanes<Real>] += static_cast<Real>(decode(row[x])) * q[place];
        };
        for (std::size_t x = 0; x < order.whole(); ++x) add(x, x);
        for (std::size_t x = order.whole(); x < rows.features; ++x) add(x, order.place(x));
        Real sum = 0;
        for (const Real part : sums) sum += part;
        scores[j * pitch + h] = sum * scale_of<Real, Element>(rows, j);
      }
    });
  });
}

template <class Real>
void row_values(const StoredRows& rows, const Real* weights, std::size_t pitch, std::size_t queries,
                Real* sums, Real* totals) {
  HEED_CONTRACT(rows.hold_for(kLanes<Real>) && pitch >= queries);
  const RowOrder order = {kLanes<Real>, rows.features};
  with_stored_element<Real>(rows.type, [&](auto element) {
    using Element = decltype(element);
    for (std::size_t h = 0; h < queries; ++h) {
      Real total = 0;
      for (std::size_t j = 0; j < rows.count; ++j) total += weights[j * pitch + h];
      totals[h] += total;
      for (std::size_t x = 0; x < rows.features; ++x) {
        Real sum = 0;
        each_row<Element>(rows, [&](std::size_t j, const Element* row) {
          const Real weight = weights[j * pitch + h] * scale_of<Real, Element>(rows, j);
          sum += weight * static_cast<Real>(decode(row[x]));
        });
        sums[h * order.padded() + order.place(x)] += sum;
      }
    }
  });
}

template <class Real>
void row_probs(std::size_t keys, std::size_t pitch, std::size_t queries, Real* scores,
               Real* row_max, Real* row_sum, Real* sums, std::size_t padded) {
  for (std::size_t h = 0; h < pitch; ++h) {
    for (std::size_t j = 0; h >= queries && j < keys; ++j) scores[j * pitch + h] = 0;
    if (h >= queries) continue;
    Real most = row_max[h];
    for (std::size_t j = 0; j < keys; ++j)
      most = std::max(most, scores[j * pitch + h]);  // NaN passed over
    if (most > row_max[h] + kRescaleThreshold<Real>) {
      most = std::min(most, kLargest<Real>);
      const Real factor = exp2_of(row_max[h] - most);
      row_max[h] = most;
      row_sum[h] *= factor;
      for (std::size_t x = 0; x < padded; ++x) sums[h * padded + x] *= factor;
    }
    for (std::size_t j = 0; j < keys; ++j) {
      // A score of +inf counts as the largest number; NaN stays.
      Real& score = scores[j * pitch + h];
      score = exp2_of((score > kLargest<Real> ? kLargest<Real> : score) - row_max[h]);
    }
  }
}

template <class Real>
void row_attend(const StoredRows& keys, const StoredRows& values, const Real* query,
                std::size_t queries, std::size_t turn, Real* row_max, Real* row_sum, Real* sums) {
  HEED_CONTRACT(keys.count == values.count && queries <= kAttendQueries);
  HEED_CONTRACT(turn % StoredRows::kRunRows == 0 && turn <= StoredRows::kMostRows);
  const std::size_t padded = RowOrder{kLanes<Real>, values.features}.padded();
  Real scores[StoredRows::kMostRows * kAttendQueries] = {};
  RowGroups key_groups(keys, turn);
  RowGroups value_groups(values, turn);
  for (std::size_t first = 0; first < keys.count; first += turn) {
    const StoredRows group = key_groups.next();
    row_scores(group, query, queries, scores, queries);
    row_probs(group.count, queries, queries, scores, row_max, row_sum, sums, padded);
    row_values(value_groups.next(), scores, queries, queries, sums, row_sum);
  }
}

template <class Real>
void add_onto(const Real* from, std::size_t count, Real* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

template <class Real>
void scale_scores(Real factor, std::size_t count, Real* scores) {
  for (std::size_t i = 0; i < count; ++i)
    if (is_finite(scores[i])) scores[i] = held(scores[i] * factor);
}

template <class Real>
void exp2(const Real* x, Real* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = exp2_of(x[i]);
}

template <class Real>
constexpr PanelKernels<Real> panel_kernels() {
  PanelKernels<Real> panels{};
  panels.lanes = kLanes<Real>;
  panels.max_vectors = kMaxVectors;
  panels.key_block = 128;
  panels.depth = 1;
  panels.parts = 1;
#define HEED_PANEL_KERNEL(result, name, parameters) panels.name = heed::name<Real>;
#define HEED_PACK_KERNEL(result, name, parameters) panels.name = heed::name<Real>;
#include "engine/kernels/list.hpp"
  return panels;
}

template <class Real>
constexpr RowKernels<Real> row_kernels() {
  RowKernels<Real> rows{};
  rows.lanes = kLanes<Real>;
  rows.queries = 1;
#define HEED_ROW_KERNEL(result, name, parameters) rows.name = heed::name<Real>;
#include "engine/kernels/list.hpp"
  return rows;
}

template <class Real>
constexpr NumberKernels<Real> number_kernels() {
  NumberKernels<Real> numbers{};
#define HEED_NUMBER_KERNEL(result, name, parameters) numbers.name = heed::name<Real>;
#include "engine/kernels/list.hpp"
  return numbers;
}

}  // namespace

const PanelKernels<float> kScalarPanelsF32 = panel_kernels<float>();
const PanelKernels<double> kScalarPanelsF64 = panel_kernels<double>();
const RowKernels<float> kScalarRowsF32 = row_kernels<float>();
const RowKernels<double> kScalarRowsF64 = row_kernels<double>();
const NumberKernels<float> kScalarNumbersF32 = number_kernels<float>();
const NumberKernels<double> kScalarNumbersF64 = number_kernels<double>();

}  // namespace heed
