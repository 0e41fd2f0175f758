// The kernels as plain loops: the readable statement of what every other instruction set
// computes, and the fallback for processors without any. No vector types; a compiler may
// still vectorise the loops over `kLanes`.
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

constexpr std::size_t kLanes = 8;  // query rows side by side, as in a vector
constexpr std::size_t kMaxVectors = 3;
constexpr float kInfinity = __builtin_huge_valf();
constexpr float kLargest = 3.402823466e+38F;
constexpr float kRescaleThreshold = 8.0F;  // log2 units, as in softmax.hpp

void pack_query(const float* const* rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                std::size_t features, float scale, float* panel, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes;
  for (std::size_t r = 0; r < pitch; ++r) {
    for (std::size_t x = 0; x < features; ++x) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(x) * feature_stride;
      panel[x * pitch + r] = r < row_count ? rows[r][at] * scale : 0.0F;
    }
  }
}

/// out[r] (+)= sum over k < count of row[k * step] * panel[k][r], for the rows of one vector.
void multiply_row(const float* row, std::ptrdiff_t step, const float* panel, std::size_t pitch,
                  std::size_t count, float* out, bool fresh) {
  float sum[kLanes];
  for (std::size_t r = 0; r < kLanes; ++r) sum[r] = fresh ? 0.0F : out[r];
  for (std::size_t k = 0; k < count; ++k) {
    const float a = row[static_cast<std::ptrdiff_t>(k) * step];
    for (std::size_t r = 0; r < kLanes; ++r) sum[r] += a * panel[k * pitch + r];
  }
  for (std::size_t r = 0; r < kLanes; ++r) out[r] = sum[r];
}

void scores(const MatrixView& key, std::size_t keys, const float* panel, std::size_t features,
            float* out, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes;
  for (std::size_t j = 0; j < keys; ++j) {
    const float* const row = key.data + static_cast<std::ptrdiff_t>(j) * key.row_stride;
    for (std::size_t r = 0; r < pitch; r += kLanes)
      multiply_row(row, key.column_stride, panel + r, pitch, features, out + j * pitch + r, true);
  }
}

void mask(float* scores, std::size_t keys, const float* limit, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes;
  for (std::size_t j = 0; j < keys; ++j)
    for (std::size_t r = 0; r < pitch; ++r)
      if (static_cast<float>(j) >= limit[r]) scores[j * pitch + r] = -kInfinity;
}

/// As exp2.hpp without a fused multiply-add, one number at a time.
float exp2_of(float x) {
  if (x < -127.0F) x = -127.0F;
  const float rounder = 12582912.0F + 127.0F;
  const float shifted = x + rounder;
  const float f = x - (shifted - rounder);
  float p = 1.535336188319500e-4F;
  p = p * f + 1.339887440266574e-3F;
  p = p * f + 9.618437357674640e-3F;
  p = p * f + 5.550332471162809e-2F;
  p = p * f + 2.402264791363012e-1F;
  p = p * f + 1.931472028550421e-1F;
  const float half = f * 0.5F;
  const float sum = half + 1.0F;
  const float lost = half - (sum - 1.0F);
  p = sum + (p * f + lost);
  std::uint32_t bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits <<= 23;
  float power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return p * power;
}

/// Moves one row's reference to its new maximum and rescales what it has summed so far, the
/// `pending` weights before these scores included.
void rescale(float maximum, float* scores, std::size_t keys, const RowState& rows,
             std::size_t value_features, std::size_t r, std::size_t pitch, std::size_t pending) {
  if (maximum == kInfinity) {  // scores of +inf share the weight evenly
    maximum = kLargest;
    for (std::size_t j = 0; j < keys; ++j)
      if (scores[j * pitch + r] == kInfinity) scores[j * pitch + r] = kLargest;
  }
  const float factor = exp2_of(rows.reference[r] - maximum);
  rows.reference[r] = maximum;
  rows.sum[r] *= factor;
  for (std::size_t j = 1; j <= pending; ++j) *(scores - j * pitch + r) *= factor;
  if (rows.fresh) return;
  for (std::size_t x = 0; x < value_features; ++x) rows.accumulators[x * pitch + r] *= factor;
}

void softmax_after(float* scores, std::size_t keys, const RowState& rows,
                   std::size_t value_features, std::size_t vectors, std::size_t pending) {
  const std::size_t pitch = vectors * kLanes;
  float top[kMaxVectors * kLanes];
  for (std::size_t r = 0; r < pitch; ++r) top[r] = kNoReference;
  for (std::size_t j = 0; j < keys; ++j)
    for (std::size_t r = 0; r < pitch; ++r)
      top[r] = top[r] < scores[j * pitch + r] ? scores[j * pitch + r] : top[r];
  for (std::size_t r = 0; r < pitch; ++r)
    if (top[r] > rows.reference[r] + kRescaleThreshold)
      rescale(top[r], scores, keys, rows, value_features, r, pitch, pending);
  for (std::size_t j = 0; j < keys; ++j) {
    for (std::size_t r = 0; r < pitch; ++r) {
      float& score = scores[j * pitch + r];
      score = exp2_of(score - rows.reference[r]);
      rows.sum[r] += score;
    }
  }
}

void softmax(float* scores, std::size_t keys, const RowState& rows, std::size_t value_features,
             std::size_t vectors) {
  softmax_after(scores, keys, rows, value_features, vectors, 0);
}

void weights(const MatrixView& key, std::size_t keys, const float* panel, std::size_t features,
             float* out, std::size_t pending, const RowState& rows, std::size_t value_features,
             std::size_t vectors) {
  scores(key, keys, panel, features, out, vectors);
  softmax_after(out, keys, rows, value_features, vectors, pending);
}

void pack_values(const MatrixView& value, std::size_t keys, std::size_t features, float* packed) {
  for (std::size_t x0 = 0; x0 < features; x0 += kValueBlock) {
    for (std::size_t j = 0; j < keys; ++j) {
      const float* const row = value.data + static_cast<std::ptrdiff_t>(j) * value.row_stride;
      for (std::size_t x = x0; x < x0 + kValueBlock; ++x)
        *packed++ = x < features ? row[static_cast<std::ptrdiff_t>(x) * value.column_stride] : 0.0F;
    }
  }
}

void accumulate(const ValueView& value, std::size_t keys, const float* weights, float* accumulators,
                std::size_t features, bool fresh, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes;
  for (std::size_t x = 0; x < features; ++x) {
    const float* const column = value.data +
                                static_cast<std::ptrdiff_t>(x / kValueBlock) * value.block_stride +
                                static_cast<std::ptrdiff_t>(x % kValueBlock) * value.feature_stride;
    for (std::size_t r = 0; r < pitch; r += kLanes)
      multiply_row(column, value.key_stride, weights + r, pitch, keys, accumulators + x * pitch + r,
                   fresh);
  }
}

void finish(float* accumulators, const float* sum, std::size_t features, float* const* out_rows,
            std::size_t row_count, std::ptrdiff_t feature_stride, std::size_t vectors) {
  const std::size_t pitch = vectors * kLanes;
  for (std::size_t r = 0; r < row_count; ++r) {
    const float inverse = sum[r] == 0.0F ? 0.0F : 1.0F / sum[r];
    for (std::size_t x = 0; x < features; ++x)
      out_rows[r][static_cast<std::ptrdiff_t>(x) * feature_stride] =
          accumulators[x * pitch + r] * inverse;
  }
}

void exp2_array(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = exp2_of(x[i]);
}

}  // namespace

const KernelTable kScalarKernels = {"scalar",   kLanes, kMaxVectors, 128,     pack_query,
                                    scores,     mask,   softmax,     weights, pack_values,
                                    accumulate, finish, exp2_array};

}  // namespace heed
