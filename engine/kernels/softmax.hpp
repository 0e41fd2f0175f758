// Online softmax down the columns of a score tile: query rows lie in the lanes, so maxima and
// sums over keys are plain vertical operations.
#pragma once

#include "engine/kernels/arch.hpp"
#include "engine/kernels/exp2.hpp"
#include "engine/kernels/product.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// How far, in log2 units, a score may outgrow its row's reference before the row is rescaled.
/// Weights are then at most 2^8, far from overflow, and rescaling is rare: after the first
/// step a maximum seldom grows by a factor of 256.
inline constexpr float kRescaleThreshold = 8.0F;

inline constexpr float kLargest = 3.402823466e+38F;
inline constexpr float kInfinity = __builtin_huge_valf();

template <class Arch, std::size_t W>
void mask(float* scores, std::size_t keys, const float* limit) {
  constexpr std::size_t n = kLanes<Arch>;
  const Vec<Arch> excluded(-kInfinity);
  for (std::size_t j = 0; j < keys; ++j) {
    const Vec<Arch> key(static_cast<float>(j));
    unroll<W>([&](auto w) HEED_FLAT {
      float* const at = scores + (j * W + w) * n;
      store(at, xsimd::select(key < load<Arch>(limit + w * n), load<Arch>(at), excluded));
    });
  }
}

/// data[i][w] *= factor[w].
template <class Arch, std::size_t W>
HEED_INLINE void scale_columns(float* data, std::size_t count, const Vec<Arch> (&factor)[W]) {
  for (std::size_t i = 0; i < count; ++i) {
    unroll<W>([&](auto w) HEED_FLAT {
      float* const at = data + (i * W + w) * kLanes<Arch>;
      store(at, load<Arch>(at) * factor[w]);
    });
  }
}

/// Moves the references of the rows whose maximum `top` over these scores has outgrown them, and
/// rescales their sums, their accumulators and the `pending` rows of weights before the scores.
/// The other rows are multiplied by exactly 1.
///
/// A maximum of +inf becomes the largest finite reference, and scores of +inf become the same
/// number: they share the weight evenly, and nothing is inf - inf.
template <class Arch, std::size_t W>
[[gnu::noinline]] void rescale(float* scores, std::size_t keys, const RowState& rows,
                               std::size_t value_features, const float* top, std::size_t pending) {
  constexpr std::size_t n = kLanes<Arch>;
  Vec<Arch> factor[W];
  bool overflow = false;
  unroll<W>([&](auto w) HEED_FLAT {
    const Vec<Arch> old = load<Arch>(rows.reference + w * n);
    const Vec<Arch> maximum = load<Arch>(top + w * n);
    overflow = overflow || xsimd::any(maximum == Vec<Arch>(kInfinity));
    const Vec<Arch> moved = xsimd::select(maximum > old + Vec<Arch>(kRescaleThreshold),
                                          at_most(kLargest, maximum), old);
    factor[w] = exp2(old - moved);
    store(rows.reference + w * n, moved);
    store(rows.sum + w * n, load<Arch>(rows.sum + w * n) * factor[w]);
  });
  if (overflow) {
    for (std::size_t i = 0; i < keys * W * n; i += n)
      store(scores + i, at_most(kLargest, load<Arch>(scores + i)));
  }
  scale_columns<Arch, W>(scores - pending * W * n, pending, factor);
  if (!rows.fresh) scale_columns<Arch, W>(rows.accumulators, value_features, factor);
}

template <class Arch, std::size_t W>
void softmax(float* scores, std::size_t keys, const RowState& rows, std::size_t value_features) {
  constexpr std::size_t n = kLanes<Arch>;
  alignas(kAlignment) float top_of[W * n];
  Vec<Arch> top[W];
  unroll<W>([&](auto w) HEED_FLAT { top[w] = Vec<Arch>(kNoReference); });
  for (std::size_t j = 0; j < keys; ++j)
    unroll<W>([&](auto w)
                  HEED_FLAT { top[w] = xsimd::max(top[w], load<Arch>(scores + (j * W + w) * n)); });

  bool grown = false;
  unroll<W>([&](auto w) HEED_FLAT {
    store(top_of + w * n, top[w]);
    grown = grown ||
            xsimd::any(top[w] > load<Arch>(rows.reference + w * n) + Vec<Arch>(kRescaleThreshold));
  });
  if (grown) rescale<Arch, W>(scores, keys, rows, value_features, top_of, 0);

  Vec<Arch> reference[W];
  Vec<Arch> sum[W];
  unroll<W>([&](auto w) HEED_FLAT {
    reference[w] = load<Arch>(rows.reference + w * n);
    sum[w] = load<Arch>(rows.sum + w * n);
  });
  for (std::size_t j = 0; j < keys; ++j) {
    unroll<W>([&](auto w) HEED_FLAT {
      float* const at = scores + (j * W + w) * n;
      const Vec<Arch> weight = exp2(load<Arch>(at) - reference[w]);
      sum[w] = sum[w] + weight;
      store(at, weight);
    });
  }
  unroll<W>([&](auto w) HEED_FLAT { store(rows.sum + w * n, sum[w]); });
}

/// Scores the keys of one group whose maximum has outgrown a reference, from the start, and
/// rescales what came before; leaves the plain scores in `out`.
template <class Arch, std::size_t W, std::size_t R>
[[gnu::noinline]] void rescore(const MatrixView& key, const float* panel, std::size_t features,
                               float* out, std::size_t pending, const RowState& rows,
                               std::size_t value_features) {
  constexpr std::size_t n = kLanes<Arch>;
  scores<Arch, W>(key, R, panel, features, out);
  alignas(kAlignment) float top_of[W * n];
  unroll<W>([&](auto w) HEED_FLAT {
    Vec<Arch> top(kNoReference);
    unroll<R>([&](auto r) HEED_FLAT { top = xsimd::max(top, load<Arch>(out + (r * W + w) * n)); });
    store(top_of + w * n, top);
  });
  rescale<Arch, W>(out, R, rows, value_features, top_of, pending);
}

/// Scores and softmax in one: each group of scores becomes weights while it is still in
/// registers, and the exponentials of one group overlap with the products of the next. The
/// products start from the negative reference, which makes the subtraction free.
template <class Arch, std::size_t W>
void weights(const MatrixView& key, std::size_t keys, const float* panel, std::size_t features,
             float* out, std::size_t pending, const RowState& rows, std::size_t value_features) {
  constexpr std::size_t n = kLanes<Arch>;
  constexpr std::size_t group = kGroup<Arch, W>;
  static_assert(kRowPadding % group == 0);
  for (std::size_t j = 0; j < keys; j += group) {
    float* const at = out + j * W * n;
    const MatrixView here = {key.data + static_cast<std::ptrdiff_t>(j) * key.row_stride,
                             key.row_stride, key.column_stride};
    const float* row[group];
    Vec<Arch> sums[group][W];
    unroll<group>([&](auto r) HEED_FLAT {
      row[r] = here.data + static_cast<std::ptrdiff_t>(r) * key.row_stride;
      unroll<W>([&](auto w) HEED_FLAT {
        sums[r][w] = Vec<Arch>(0.0F) - load<Arch>(rows.reference + w * n);
      });
    });
    multiply_rows<Arch>(row, key.column_stride, panel, features, sums);

    // Row by row: a NaN hides what its own row does, which no longer matters, and nothing else.
    auto grown = sums[0][0] > Vec<Arch>(kRescaleThreshold);
    unroll<W>([&](auto w) HEED_FLAT {
      Vec<Arch> top = sums[0][w];
      unroll<group - 1>([&](auto r) HEED_FLAT { top = xsimd::max(top, sums[r + 1][w]); });
      grown = grown | (top > Vec<Arch>(kRescaleThreshold));
    });
    if (__builtin_expect(xsimd::any(grown), false)) {
      rescore<Arch, W, group>(here, panel, features, at, pending + j, rows, value_features);
      unroll<group>([&](auto r) HEED_FLAT {
        unroll<W>([&](auto w) HEED_FLAT {
          sums[r][w] = load<Arch>(at + (r * W + w) * n) - load<Arch>(rows.reference + w * n);
        });
      });
    }

    unroll<W>([&](auto w) HEED_FLAT {
      Vec<Arch> sum = load<Arch>(rows.sum + w * n);
      unroll<group>([&](auto r) HEED_FLAT {
        const Vec<Arch> weight = exp2(sums[r][w]);
        sum = sum + weight;
        store(at + (r * W + w) * n, weight);
      });
      store(rows.sum + w * n, sum);
    });
  }
}

}  // namespace
}  // namespace heed
