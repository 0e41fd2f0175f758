// The kernels as plain loops: the readable statement of what every other instruction set
// computes, and the fallback for processors without any. No vector types; a compiler may
// still vectorise the loops over `kLanes`.
#include "engine/kernels/constants.hpp"
#include "engine/kernels/convert.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

template <class Real>
constexpr std::size_t kLanes = 32 / sizeof(Real);  // query rows side by side, as in a vector

template <class Real>
void pack_query(const Real* const* rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                std::size_t features, Real scale, Real* panel, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t r = 0; r < pitch; ++r) {
    for (std::size_t x = 0; x < features; ++x) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(x) * feature_stride;
      panel[x * pitch + r] = r < row_count ? rows[r][at] * scale : 0;
    }
  }
}

/// out[r] (+)= sum over begin <= k < end of row[k * step] * panel[k][r], for the rows of one
/// vector, run by run.
template <class Real>
void multiply_row(const Real* row, std::ptrdiff_t step, const Real* panel, std::size_t pitch,
                  std::size_t begin, std::size_t end, std::size_t first_run, Real* out,
                  bool fresh) {
  Real total[kLanes<Real>];
  for (std::size_t r = 0; r < kLanes<Real>; ++r) total[r] = fresh ? 0 : out[r];
  for (std::size_t k = begin; k < end;) {
    const std::size_t next = k < first_run ? first_run : k - (k - first_run) % kRun + kRun;
    Real sum[kLanes<Real>] = {};
    for (; k < next && k < end; ++k) {
      const Real a = row[static_cast<std::ptrdiff_t>(k) * step];
      for (std::size_t r = 0; r < kLanes<Real>; ++r) sum[r] += a * panel[k * pitch + r];
    }
    for (std::size_t r = 0; r < kLanes<Real>; ++r) total[r] += sum[r];
  }
  for (std::size_t r = 0; r < kLanes<Real>; ++r) out[r] = total[r];
}

template <class Real>
void score_keys(const MatrixView<Real>& key, std::size_t begin, std::size_t end, const Real* panel,
                std::size_t features, Real* out, std::size_t pitch) {
  for (std::size_t j = begin; j < end; ++j)
    multiply_row(key.data + static_cast<std::ptrdiff_t>(j) * key.row_stride, key.column_stride,
                 panel, pitch, 0, features, kRun, out + j * pitch, true);
}

template <class Real>
void scores(const MatrixView<Real>& key, const KeyRanges& keys, const Real* panel,
            std::size_t features, Real* out, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t w = 0; w < vectors; ++w)
    score_keys(key, keys.begin[w], keys.end[w], panel + w * kLanes<Real>, features,
               out + w * kLanes<Real>, pitch);
}

/// 2^x = power * (1 + fraction * (p + 1/2)), as in exp2.hpp without a fused multiply-add.
template <class Real>
struct Split {
  Real power;
  Real fraction;
  Real p;
};

template <class Real>
Split<Real> split(Real x) {
  using Numbers = Exp2<Real>;
  const Real shifted = x + Numbers::kRounder;
  typename Numbers::Bits bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits <<= Numbers::kMantissaBits;
  Split<Real> s;
  __builtin_memcpy(&s.power, &bits, sizeof s.power);
  s.fraction = x - (shifted - Numbers::kRounder);
  s.p = 0;
  for (const Real coefficient : Numbers::kCoefficients) s.p = s.p * s.fraction + coefficient;
  s.p = s.p * s.fraction + Numbers::kLastLessHalf;
  return s;
}

template <class Real>
Real exp2_of(Real x) {
  if (x < Exp2<Real>::kLowest) x = Exp2<Real>::kLowest;
  const Split<Real> s = split(x);
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
  const Split<Real> s = split(x);
  const Real growth = s.p * s.fraction + s.fraction / 2;
  const Real e = (s.power - 1) + s.power * growth;
  return static_cast<Real>(__builtin_copysign(e / (e + 2), t));
}

template <class Real>
void softcap(Real* scores, std::size_t keys, Real factor, std::size_t vectors) {
  for (std::size_t i = 0; i < keys * vectors * kLanes<Real>; ++i)
    scores[i] = tanh_of_exponent(scores[i]) * factor;
}

template <class Real>
void alibi(Real* scores, std::size_t keys, const Real* position, const Real* slope,
           std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t j = 0; j < keys; ++j)
    for (std::size_t r = 0; r < pitch; ++r)
      scores[j * pitch + r] -=
          slope[r] * static_cast<Real>(__builtin_fabs(position[r] - static_cast<Real>(j)));
}

template <class Real>
void add_rows(Real* scores, std::size_t keys, const Real* const* rows, std::size_t row_count,
              Real factor, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t j = 0; j < keys; ++j) {
    for (std::size_t r = 0; r < row_count; ++r) {
      Real& score = scores[j * pitch + r];
      Real addend = rows[r][j] * factor;
      if (addend < kNoReference<Real>) addend = kNoReference<Real>;
      score = rows[r][j] == -kInfinity<Real> ? -kInfinity<Real> : score + addend;
    }
  }
}

template <class Real>
void mask_rows(Real* scores, std::size_t keys, const std::uint8_t* const* rows,
               std::size_t row_count, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t j = 0; j < keys; ++j)
    for (std::size_t r = 0; r < row_count; ++r)
      if (rows[r][j] == 0) scores[j * pitch + r] = -kInfinity<Real>;
}

template <class Real>
void mask(Real* scores, std::size_t keys, const Real* first, const Real* limit,
          std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t j = 0; j < keys; ++j) {
    const auto key = static_cast<Real>(j);
    for (std::size_t r = 0; r < pitch; ++r)
      if (key < first[r] || key >= limit[r]) scores[j * pitch + r] = -kInfinity<Real>;
  }
}

/// Moves one row's reference to its new maximum and rescales what it has summed so far, the
/// `pending` weights before these scores included.
template <class Real>
void rescale(Real maximum, Real* scores, const RowState<Real>& rows, std::size_t accumulated,
             std::size_t r, std::size_t pitch, std::size_t pending) {
  if (maximum > kLargest<Real>) maximum = kLargest<Real>;
  const Real factor = exp2_of(rows.reference[r] - maximum);
  rows.reference[r] = maximum;
  rows.sum[r] *= factor;
  for (std::size_t j = 1; j <= pending; ++j) *(scores - j * pitch + r) *= factor;
  if (rows.fresh) return;
  for (std::size_t x = 0; x < accumulated; ++x) rows.accumulators[x * pitch + r] *= factor;
}

/// Calls function(score, r) for the keys that row r's vector needs, in order of keys.
template <class Real, class Function>
void each_score(Real* scores, const KeyRanges& keys, std::size_t vectors, Function&& function) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t w = 0; w < vectors; ++w)
    for (std::size_t j = keys.begin[w]; j < keys.end[w]; ++j)
      for (std::size_t r = w * kLanes<Real>; r < (w + 1) * kLanes<Real>; ++r)
        function(scores[j * pitch + r], r);
}

/// Scores of +inf count as the largest finite number: they share the weight evenly. These weights
/// are summed apart from those before them.
template <class Real>
void add_exponentials(Real* scores, const KeyRanges& keys, const Real* reference, Real* sum,
                      std::size_t vectors) {
  Real apart[kMaxVectors * kLanes<Real>] = {};
  each_score(scores, keys, vectors, [&](Real& score, std::size_t r) {
    if (score > kLargest<Real>) score = kLargest<Real>;
    score = exp2_of(score - reference[r]);
    apart[r] += score;
  });
  for (std::size_t r = 0; r < vectors * kLanes<Real>; ++r) sum[r] += apart[r];
}

template <class Real>
void exponentials(Real* scores, std::size_t keys, const Real* reference, Real* sum,
                  std::size_t vectors) {
  add_exponentials(scores, all_keys(keys), reference, sum, vectors);
}

template <class Real>
void softmax(Real* scores, const KeyRanges& keys, std::size_t pending, const RowState<Real>& rows,
             std::size_t accumulated, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  Real top[kMaxVectors * kLanes<Real>];
  for (Real& most : top) most = kNoReference<Real>;
  each_score(scores, keys, vectors,
             [&](Real score, std::size_t r) { top[r] = top[r] < score ? score : top[r]; });
  for (std::size_t r = 0; r < pitch; ++r)
    if (top[r] > rows.reference[r] + kRescaleThreshold<Real>)
      rescale(top[r], scores, rows, accumulated, r, pitch, pending);
  add_exponentials(scores, keys, rows.reference, rows.sum, vectors);
}

template <class Real>
void hardest(const Real* scores, std::size_t keys, Real* best, Real* index, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t j = 0; j < keys; ++j) {
    for (std::size_t r = 0; r < pitch; ++r) {
      const Real score = scores[j * pitch + r];
      if (score > best[r]) index[r] = static_cast<Real>(j);
      if (score > best[r] || score != score) best[r] = score;
    }
  }
}

template <class Real>
void weights(const MatrixView<Real>& key, std::size_t keys, const Real* panel, std::size_t features,
             Real* out, std::size_t pending, const RowState<Real>& rows, std::size_t accumulated,
             std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t r = 0; r < pitch; r += kLanes<Real>)
    score_keys(key, 0, keys, panel + r, features, out + r, pitch);
  softmax(out, all_keys(keys), pending, rows, accumulated, vectors);
}

template <class Real>
void pack_values(const MatrixView<Real>& value, std::size_t keys, std::size_t features,
                 Real* packed) {
  for (std::size_t x0 = 0; x0 < features; x0 += kValueBlock) {
    for (std::size_t j = 0; j < keys; ++j) {
      const Real* const row = value.data + static_cast<std::ptrdiff_t>(j) * value.row_stride;
      for (std::size_t x = x0; x < x0 + kValueBlock; ++x)
        *packed++ = x < features ? row[static_cast<std::ptrdiff_t>(x) * value.column_stride] : 0;
    }
  }
}

template <class Real>
void accumulate(const ValueView<Real>& value, const KeyRanges& keys, std::size_t first_run,
                const Real* weights, Real* accumulators, std::size_t features, bool fresh,
                std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t x = 0; x < features; ++x) {
    const Real* const column = value.data +
                               static_cast<std::ptrdiff_t>(x / kValueBlock) * value.block_stride +
                               static_cast<std::ptrdiff_t>(x % kValueBlock) * value.feature_stride;
    for (std::size_t w = 0; w < vectors; ++w)
      multiply_row(column, value.key_stride, weights + w * kLanes<Real>, pitch, keys.begin[w],
                   keys.end[w], first_run, accumulators + x * pitch + w * kLanes<Real>, fresh);
  }
}

/// NaN and infinities less themselves are NaN.
template <class Real>
bool all_finite(const Real* numbers, std::size_t count) {
  Real special = 0;
  for (std::size_t i = 0; i < count; ++i) special += numbers[i] - numbers[i];
  return special == 0;
}

template <class Real>
void finish(const Real* accumulators, const Real* sum, std::size_t features, Real* const* out_rows,
            std::size_t row_count, std::ptrdiff_t feature_stride, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t r = 0; r < row_count; ++r) {
    const Real inverse = sum[r] == 0 ? 0 : 1 / sum[r];
    for (std::size_t x = 0; x < features; ++x)
      out_rows[r][static_cast<std::ptrdiff_t>(x) * feature_stride] =
          accumulators[x * pitch + r] * inverse;
  }
}

template <class Real>
void edge_scores(const EdgeRows<Real>& rows, std::size_t edges, const Real* query,
                 std::size_t heads, std::size_t features, bool fresh, Real* tile,
                 std::size_t pitch) {
  for (std::size_t e = 0; e < edges; ++e) {
    const Real* row = rows.data + rows.source[e] * rows.stride;
    for (std::size_t h = 0; h < heads; ++h, row += rows.head_stride) {
      Real sum = 0;
      for (std::size_t x = 0; x < features; ++x) sum += row[x] * query[h * features + x];
      Real& score = tile[e * pitch + h];
      score = fresh ? sum : score + sum;
    }
  }
}

template <class Real>
void edge_values(const EdgeRows<Real>& rows, std::size_t edges, const Real* weights,
                 std::size_t pitch, std::size_t heads, std::size_t features, Real* sums,
                 bool fresh) {
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t x = 0; x < features; ++x) {
      Real sum = 0;
      for (std::size_t e = 0; e < edges; ++e)
        sum +=
            weights[e * pitch + h] * rows.data[rows.source[e] * rows.stride +
                                               static_cast<std::ptrdiff_t>(h) * rows.head_stride +
                                               static_cast<std::ptrdiff_t>(x)];
      Real& to = sums[h * features + x];
      to = fresh ? sum : to + sum;
    }
  }
}

template <class Real>
void normalise(const Real* accumulators, const Real* sum, std::size_t features, Real* to,
               std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes<Real>;
  for (std::size_t r = 0; r < pitch; ++r) {
    const Real inverse = sum[r] == 0 ? 0 : 1 / sum[r];
    for (std::size_t x = 0; x < features; ++x)
      to[x * pitch + r] = accumulators[x * pitch + r] * inverse;
  }
}

template <class Real>
void exp2_array(const Real* x, Real* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = exp2_of(x[i]);
}

template <class Real>
constexpr KernelTable<Real> scalar_table() {
  return {"scalar",           kLanes<Real>,      kMaxVectors,      128,
          pack_query<Real>,   scores<Real>,      softcap<Real>,    alibi<Real>,
          add_rows<Real>,     mask_rows<Real>,   mask<Real>,       softmax<Real>,
          exponentials<Real>, hardest<Real>,     weights<Real>,    pack_values<Real>,
          accumulate<Real>,   all_finite<Real>,  finish<Real>,     normalise<Real>,
          edge_scores<Real>,  edge_values<Real>, exp2_array<Real>, read<Real>,
          write<Real>};
}

}  // namespace

const Kernels kScalarKernels = {scalar_table<float>(), scalar_table<double>()};

}  // namespace heed
