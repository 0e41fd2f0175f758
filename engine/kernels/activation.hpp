// Scores that are no products, sums over features of a act(q + k), and their gradients.
#pragma once

#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"
#include "engine/kernels/tanh.hpp"
#include "engine/kernels/transpose.hpp"

namespace heed {
namespace {

template <class V>
struct Activated {
  V value, derivative;
};

/// act(z). Measured of tanh with AVX2: 3.0 ULP over all of float32, 2.9 over some of double.
template <bool kTanh, class V, class Real = RealOf<V>>
HEED_INLINE Activated<V> activated(V z, V slope) {
  const V one(Real{1});
  if constexpr (kTanh) {
    const V value = tanh_of_exponent(z * V(kTwiceLog2E<Real>));
    return {value, (one - value) * (one + value)};
  } else {
    const V derivative = xsimd::select(z > V(Real{0}), one, slope);
    return {z * derivative, derivative};
  }
}

/// So many keys side by side make as many sums that do not wait for each other; of double fewer,
/// for their code.
template <class V>
inline constexpr std::size_t kActivatedKeys = kIsFloat<V> ? 4 : 2;

/// Scores of keys [j, j + n), or of fewer that are `left`, whose last one is repeated.
template <bool kTanh, class V, class Real = RealOf<V>>
HEED_INLINE void score_keys(const RowsView<Real>& key, std::size_t j, std::size_t left,
                            const ActivatedPanel<Real>& panel, std::size_t pitch, Real* scores) {
  constexpr std::size_t n = kActivatedKeys<V>;
  const V slope(panel.act.slope);
  const Real* rows[n];
  V sums[n];
  unroll<n>([&](auto i) HEED_INLINE_LAMBDA {
    const std::size_t at = j + (i < left ? i : left - 1);
    rows[i] = key.data + static_cast<std::ptrdiff_t>(at) * key.row_stride;
    sums[i] = V(Real{0});
  });
  for (std::size_t x = 0; x < panel.features; ++x) {
    const V q = load<V>(panel.query + x * pitch);
    const V a = load<V>(panel.weights + x * pitch);
    unroll<n>([&](auto i) HEED_INLINE_LAMBDA {
      sums[i] = multiply_add(a, activated<kTanh>(q + V(rows[i][x]), slope).value, sums[i]);
    });
  }
  unroll<n>([&](auto i) HEED_INLINE_LAMBDA {
    if (i < left) store<V>(scores + (j + i) * pitch, sums[i]);
  });
}

/// activated_scores() for panels of any width.
template <class V, class Real = RealOf<V>>
[[gnu::noinline]] void score_activated(std::size_t vectors, const RowsView<Real>& key,
                                       const KeyRanges& keys, ActivatedPanel<Real> panel,
                                       Real* scores) {
  const std::size_t pitch = vectors * kLanes<V>;
  for (std::size_t w = 0; w < vectors; ++w) {
    for (std::size_t j = keys.begin[w]; j < keys.end[w]; j += kActivatedKeys<V>) {
      if (panel.act.tanh)
        score_keys<true, V>(key, j, keys.end[w] - j, panel, pitch, scores);
      else
        score_keys<false, V>(key, j, keys.end[w] - j, panel, pitch, scores);
    }
    panel.query += kLanes<V>;
    panel.weights += kLanes<V>;
    scores += kLanes<V>;
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void activated_scores(const RowsView<Real>& key, const KeyRanges& keys,
                      const ActivatedPanel<Real>& panel, Real* scores) {
  score_activated<V>(W, key, keys, panel, scores);
}

/// The share of one feature of a vector of rows. A gradient of 0 adds nothing, whatever it meets.
template <bool kTanh, class V, class Real = RealOf<V>>
HEED_INLINE void differentiate_feature(const RowsView<Real>& key, std::size_t keys,
                                       const ActivatedPanel<Real>& panel, std::size_t x,
                                       std::size_t pitch, const Real* gradients,
                                       const ActivatedGradient<Real>& to) {
  const V zero(Real{0});
  const V slope(panel.act.slope);
  const V q = load<V>(panel.query + x * pitch);
  const V a = load<V>(panel.weights + x * pitch);
  V of_query = zero;
  V of_weights = zero;
  for (std::size_t first = 0; first < keys; first += kLanes<V>) {
    const std::size_t some = keys - first < kLanes<V> ? keys - first : kLanes<V>;
    V of_keys[kLanes<V>];
    for (std::size_t i = 0; i < kLanes<V>; ++i) of_keys[i] = zero;
    for (std::size_t i = 0; i < some; ++i) {
      const std::size_t j = first + i;
      const V g = load<V>(gradients + j * pitch);
      const V k(key.data[static_cast<std::ptrdiff_t>(j) * key.row_stride +
                         static_cast<std::ptrdiff_t>(x)]);
      const Activated<V> act = activated<kTanh>(q + k, slope);
      const auto none = g == zero;
      const V moved = xsimd::select(none, zero, g * act.derivative);
      of_query = of_query + moved;
      of_weights = of_weights + xsimd::select(none, zero, g * act.value);
      of_keys[i] = xsimd::select(none, zero, moved * a);
    }
    alignas(kAlignment) Real sums[kLanes<V>];
    store<V>(sums, sum_rows<V>(of_keys));
    for (std::size_t i = 0; i < some; ++i) to.key[(first + i) * to.key_pitch + x] += sums[i];
  }
  Real* const query = to.query + x * pitch;
  Real* const weights = to.weights + x * pitch;
  store<V>(query, load<V>(query) + xsimd::select(of_query == zero, zero, a * of_query));
  store<V>(weights, load<V>(weights) + of_weights);
}

/// activated_gradient() for panels of any width.
template <class V, class Real = RealOf<V>>
[[gnu::noinline]] void differentiate_activated(std::size_t vectors, const RowsView<Real>& key,
                                               std::size_t keys, ActivatedPanel<Real> panel,
                                               const Real* gradients, ActivatedGradient<Real> to) {
  const std::size_t pitch = vectors * kLanes<V>;
  for (std::size_t w = 0; w < vectors; ++w) {
    for (std::size_t x = 0; x < panel.features; ++x) {
      if (panel.act.tanh)
        differentiate_feature<true, V>(key, keys, panel, x, pitch, gradients, to);
      else
        differentiate_feature<false, V>(key, keys, panel, x, pitch, gradients, to);
    }
    panel.query += kLanes<V>;
    panel.weights += kLanes<V>;
    gradients += kLanes<V>;
    to.query += kLanes<V>;
    to.weights += kLanes<V>;
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void activated_gradient(const RowsView<Real>& key, std::size_t keys,
                        const ActivatedPanel<Real>& panel, const Real* gradients,
                        const ActivatedGradient<Real>& to) {
  differentiate_activated<V>(W, key, keys, panel, gradients, to);
}

}  // namespace
}  // namespace heed
