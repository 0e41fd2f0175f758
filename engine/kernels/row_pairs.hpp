// The products of rows.hpp where rows are of bfloat16 or 8-bit integers, by instructions that
// multiply two pairs of 16-bit words and add both products to a lane:
//
//   score[row][query]       += row[2i] * query[2i] + row[2i + 1] * query[2i + 1]
//   sum[query][feature]     += weight[j] * row j [feature] + weight[j + 1] * row j + 1 [feature]
//
// Rows are paired as they follow each other, from the first one on, wherever runs of them end.
//
// Words are bfloat16, or integers: a query or a block's weights are then multiples of 1 / 32767 of
// the largest. A query that is not bfloat16, or not finite, must not come as one: row_query() of
// integers keeps a copy of the query as it is, and such queries are multiplied as in rows.hpp.
// The same holds for weights of 8-bit rows that are not finite.
//
// Rows of E4M3 are multiplied as in rows.hpp, which reads them faster where it is compiled with
// what is here.
#pragma once

#include <cmath>
#include <limits>

#include "engine/kernels/pairs.hpp"
#include "engine/kernels/rows.hpp"

namespace heed {
namespace {
namespace row_pairs {

/// Words that are loaded at a time.
inline constexpr std::size_t kWords = 32;
inline constexpr float kLargestWord = 32767;
/// Below this the largest number of a row has no inverse, and rows are multiplied as they are.
inline constexpr float kSmallest = 1e-30F;

HEED_INLINE __mmask64 first(std::size_t count) { return count < 64 ? (1ULL << count) - 1 : ~0ULL; }

struct Bf16Words {
  using Element = Bf16;
  using Sum = __m512;
  using AddSums = AddNumbers;
  HEED_INLINE static Sum zero() { return _mm512_setzero_ps(); }
  HEED_INLINE static Sum add(__m512i a, __m512i b, Sum c) {
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
  }
  HEED_INLINE static __m512 real(Sum sum) { return sum; }
  HEED_INLINE static __m512 bits(Sum sum) { return sum; }
  HEED_INLINE static __m512 real_of_bits(__m512 bits) { return bits; }
  HEED_INLINE static __m512i load(const Bf16* from) { return _mm512_loadu_si512(from); }
  HEED_INLINE static __m512i load(const Bf16* from, std::size_t count) {
    return _mm512_maskz_loadu_epi16(static_cast<__mmask32>(first(count)), from);
  }
};

struct I8Words {
  using Element = I8;
  using Sum = __m512i;
  struct AddSums {
    template <class V>
    HEED_INLINE V operator()(V a, V b) const {
      return V(bits(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b))));
    }
  };
  HEED_INLINE static Sum zero() { return _mm512_setzero_si512(); }
  HEED_INLINE static Sum add(__m512i a, __m512i b, Sum c) { return _mm512_dpwssd_epi32(c, a, b); }
  HEED_INLINE static __m512 real(Sum sum) { return _mm512_cvtepi32_ps(sum); }
  HEED_INLINE static __m512 bits(Sum sum) { return _mm512_castsi512_ps(sum); }
  HEED_INLINE static __m512 real_of_bits(__m512 bits) { return real(_mm512_castps_si512(bits)); }
  HEED_INLINE static __m512i load(const I8* from) {
    const void* const at = from;
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(at)));
  }
  HEED_INLINE static __m512i load(const I8* from, std::size_t count) {
    return _mm512_cvtepi8_epi16(
        _mm512_castsi512_si256(_mm512_maskz_loadu_epi8(first(count), from)));
  }
};

/// A query: as row_query() of rows.hpp leaves it, for integers, then its words, then what its
/// scores are multiplied with; that is NaN if it cannot be rounded.
template <class V>
HEED_INLINE const std::uint16_t* words_of(const RealOf<V>* query, const RowOrder& order) {
  const void* const at = query + order.padded();
  return static_cast<const std::uint16_t*>(at);
}
HEED_INLINE std::size_t factor_place(const RowOrder& order) { return 2 * order.padded(); }

template <class V, class Words>
struct Products {
  using Element = typename Words::Element;
  using Real = RealOf<V>;
  static constexpr bool kScales = true;
  static constexpr std::size_t kMostUnrolled = 16;

  /// Sums words as they are, not yet as numbers: sums of 32 bits have room for all features.
  HEED_INLINE static V total(V (&sums)[kLanes<V>]) {
    return V(Words::real_of_bits(sum_rows<V>(sums, typename Words::AddSums{})));
  }

  template <std::size_t H>
  HEED_INLINE static V factors(const Real* query, const RowOrder& order) {
    alignas(kAlignment) Real lanes[kLanes<V>];
    for (std::size_t i = 0; i < kLanes<V>; ++i)
      lanes[i] = query[i % H * order.query_numbers() + factor_place(order)];
    return load<V>(lanes);
  }

  template <std::size_t H, std::size_t K>
  HEED_INLINE static void multiply(const char* const (&rows)[K], const RowOrder& order,
                                   const Real* query, V* sums, const char* const (&next)[K]) {
    const Element* at[K];
    typename Words::Sum sum[K * H];
    unroll<K>([&](auto k) HEED_INLINE_LAMBDA {
      at[k] = reinterpret_cast<const Element*>(rows[k]);
      unroll<H>([&](auto h) HEED_INLINE_LAMBDA { sum[k * H + h] = Words::zero(); });
    });
    const auto add = [&](const __m512i(&row)[K], std::size_t x) HEED_INLINE_LAMBDA {
      unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
        const __m512i q =
            _mm512_loadu_si512(words_of<V>(query + h * order.query_numbers(), order) + x);
        unroll<K>([&](auto k) HEED_INLINE_LAMBDA {
          sum[k * H + h] = Words::add(row[k], q, sum[k * H + h]);
        });
      });
    };
    __m512i row[K];
    std::size_t x = 0;
    for (; x + kWords <= order.features; x += kWords) {
      unroll<K>([&](auto k) HEED_INLINE_LAMBDA {
        __builtin_prefetch(next[k] + x * sizeof(Element), 0, 2);
        row[k] = Words::load(at[k] + x);
      });
      add(row, x);
    }
    if (x < order.features) {
      unroll<K>([&](auto k)
                    HEED_INLINE_LAMBDA { row[k] = Words::load(at[k] + x, order.features - x); });
      add(row, x);
    }
    unroll<K * H>([&](auto i) HEED_INLINE_LAMBDA { sums[i] = V(Words::bits(sum[i])); });
  }
};

template <class V, class Real = RealOf<V>>
void row_query(ElementType type, const Real* query, std::size_t features, Real scale, Real* to) {
  const RowOrder order{kLanes<V>, features};
  auto* const words = const_cast<std::uint16_t*>(words_of<V>(to, order));
  const auto numbers = [&](std::size_t x) HEED_INLINE_LAMBDA {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>(x < features ? first(features - x) : 0),
                                 query + x);
  };
  if (type == ElementType::kBf16) {
    for (std::size_t x = 0; x < features; x += kWords)
      _mm512_storeu_si512(words + x, _mm512_castps_si512(pairs::round_side_by_side(
                                         V(numbers(x)), V(numbers(x + kLanes<V>)))));
    to[factor_place(order)] = scale;
    return;
  }
  heed::row_query<V>(type, query, features, scale, to);
  if (type == ElementType::kF8E4M3) return;
  Real largest = 0;
  Real sum = 0;  // is not finite if a number is not
  for (std::size_t x = 0; x < order.padded(); ++x) {
    const Real size = std::fabs(to[x]);
    largest = largest < size ? size : largest;
    sum += size;
  }
  const bool rounds = sum <= std::numeric_limits<Real>::max() && (sum == 0 || largest > kSmallest);
  to[factor_place(order)] =
      rounds ? largest / kLargestWord : std::numeric_limits<Real>::quiet_NaN();
  const __m512 multiple = _mm512_set1_ps(rounds && sum > 0 ? kLargestWord / largest : 0);
  const auto rounded = [&](std::size_t x) HEED_INLINE_LAMBDA {
    const __m512 scaled = _mm512_mul_ps(numbers(x), _mm512_set1_ps(scale));
    return _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(scaled, multiple)));
  };
  for (std::size_t x = 0; x < features; x += kWords)
    _mm512_storeu_si512(words + x, _mm512_inserti64x4(_mm512_castsi256_si512(rounded(x)),
                                                      rounded(x + kLanes<V>), 1));
}

template <class V, class Real = RealOf<V>>
void row_scores(const StoredRows& rows, const Real* query, std::size_t queries, Real* scores,
                std::size_t pitch) {
  if (rows.type == ElementType::kBf16) {
    score_all<V, Products<V, Bf16Words>>(rows, query, queries, scores, pitch);
    return;
  }
  if (rows.type == ElementType::kF8E4M3) {
    score_all<V, WholeProducts<V, F8E4M3>>(rows, query, queries, scores, pitch);
    return;
  }
  score_all<V, Products<V, I8Words>>(rows, query, queries, scores, pitch);
  const RowOrder order{kLanes<V>, rows.features};
  for (std::size_t h = 0; h < queries; ++h, query += order.query_numbers())
    if (std::isnan(query[factor_place(order)]))
      score_queries<V, WholeProducts<V, I8>, 1>(rows, query, false, scores + h, pitch);
}

/// The weights of up to kMostRows rows for H queries, in pairs: of rows 2i and 2i + 1. Lane l
/// of a vector of weights belongs to query l % H; as many rows as it has room for lie side by side.
template <class V, class Words, std::size_t H>
class PairedWeights {
 public:
  using Real = RealOf<V>;

  HEED_INLINE PairedWeights(const StoredRows& rows, const Real* weights, std::size_t pitch)
      : rows_(rows), weights_(weights) {
    if (pitch != H) {
      for (std::size_t j = 0; j < rows.count; ++j)
        for (std::size_t h = 0; h < H; ++h) together_[j * H + h] = weights[j * pitch + h];
      weights_ = together_;
    }
    if constexpr (kIsScaled<typename Words::Element>) {
      round_integers();
    } else {
      const __m512i ones = _mm512_set1_epi32(0x3f803f80);  // pairs of 1
      Total total;
      each_pairs([&](std::size_t j) HEED_INLINE_LAMBDA { return line(j); },
                 [&](__m512 even, __m512 odd) HEED_INLINE_LAMBDA {
                   const __m512i pairs =
                       _mm512_castps_si512(pairs::round_to_pairs(V(even), V(odd)));
                   total.add(V(Words::add(pairs, ones, Words::zero())));
                   return pairs;
                 });
      _mm512_store_ps(totals_, total.end());
    }
  }
  PairedWeights(const PairedWeights&) = delete;
  PairedWeights& operator=(const PairedWeights&) = delete;

  HEED_INLINE __m512i pair(std::size_t line, std::size_t h) const {
    return _mm512_set1_epi32(pairs_[line * H + h]);
  }
  HEED_INLINE Real total(std::size_t h) const { return totals_[h]; }
  /// Sums are multiplied with this in the end.
  HEED_INLINE Real unit(std::size_t h) const {
    return kIsScaled<typename Words::Element> ? units_[h] : 1;
  }
  /// Whether a query's weights are pairs; else they and their total are 0 here.
  HEED_INLINE bool rounds(std::size_t h) const {
    return !kIsScaled<typename Words::Element> || (rounds_ >> h & 1U) != 0;
  }

 private:
  static constexpr std::size_t n = kLanes<V>;
  static constexpr std::size_t kRows = n / H;  ///< in a vector

  /// Weights of kRows rows from row j on, 0 past the last row.
  HEED_INLINE __m512 line(std::size_t j) const {
    const std::size_t left = j < rows_.count ? (rows_.count - j) * H : 0;
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>(first(left)), weights_ + j * H);
  }

  /// Calls function(even, odd) for the lines of kRows rows with even numbers, and the odd ones
  /// after them, and keeps what it returns.
  template <class Line, class Function>
  HEED_INLINE void each_pairs(Line&& line, Function&& function) {
    for (std::size_t j = 0; j < rows_.count; j += 2 * kRows) {
      const V a(line(j));
      const V b(line(j + kRows));
      const V even = pick_lanes(a, b, [](std::size_t lane) { return lane / H * 2 * H + lane % H; });
      const V odd =
          pick_lanes(a, b, [](std::size_t lane) { return (lane / H * 2 + 1) * H + lane % H; });
      _mm512_store_si512(pairs_ + j / 2 * H, function(even, odd));
    }
  }

  /// Lane h, of a query, gets what `add` makes of all lanes of the query.
  template <class Add>
  HEED_INLINE static V over_rows(V all, Add add) {
    unroll<log2_of(kRows)>([&](auto i) HEED_INLINE_LAMBDA {
      constexpr std::size_t distance = H << i;
      all = add(all, pick_lanes(all, all, [](std::size_t lane) { return (lane + distance) % n; }));
    });
    return all;
  }

  /// The totals of queries. H vectors take turns, so that a total's bits do not depend on H.
  class Total {
   public:
    HEED_INLINE Total() {
      for (V& part : parts_) part = V(Real{0});
    }
    HEED_INLINE void add(V part) {
      parts_[next_ % H] = parts_[next_ % H] + part;
      ++next_;
    }
    HEED_INLINE V end() {
      for (V& part : parts_) part = over_rows(part, AddNumbers{});
      for (std::size_t step = 1; step < H; step *= 2)
        for (std::size_t i = 0; i < H; i += 2 * step) parts_[i] = parts_[i] + parts_[i + step];
      return parts_[0];
    }

   private:
    V parts_[H];
    std::size_t next_ = 0;
  };

  HEED_INLINE void round_integers() {
    const auto scaled = [&](std::size_t j) HEED_INLINE_LAMBDA {
      const std::size_t left = j < rows_.count ? rows_.count - j : 0;
      const V scales(_mm512_maskz_loadu_ps(
          static_cast<__mmask16>(first(left < kRows ? left : kRows)), rows_.scales + j));
      const auto row = [](std::size_t lane) { return lane / H; };
      return _mm512_mul_ps(line(j), pick_lanes(scales, scales, row));
    };
    V largest(Real{0});
    unsigned special = 0;  // lanes with weights that are not finite
    Total total;
    for (std::size_t j = 0; j < rows_.count; j += kRows) {
      const __m512 size = _mm512_abs_ps(scaled(j));
      special |=
          _mm512_cmp_ps_mask(size, _mm512_set1_ps(std::numeric_limits<Real>::max()), _CMP_NLE_UQ);
      largest = _mm512_max_ps(size, largest);
      total.add(V(line(j)));
    }
    largest = over_rows(largest, [](V a, V b) HEED_INLINE_LAMBDA { return xsimd::max(a, b); });
    largest = pick_lanes(largest, largest, [](std::size_t lane) { return lane % H; });
    const __mmask16 zero = _mm512_cmp_ps_mask(largest, _mm512_setzero_ps(), _CMP_EQ_OQ);
    const __mmask16 divides = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(kSmallest), _CMP_GT_OQ);
    for (std::size_t step = n / 2; step >= H; step /= 2) special |= special >> step;
    for (std::size_t step = H; step < n; step *= 2) special |= special << step;
    const auto finite = static_cast<__mmask16>(~special);
    const __mmask16 some = finite & divides;
    const __m512 most = _mm512_set1_ps(kLargestWord);
    const __m512 multiple = _mm512_maskz_div_ps(some, most, largest);
    each_pairs(scaled, [&](__m512 even, __m512 odd) HEED_INLINE_LAMBDA {
      const auto rounded = [&](__m512 numbers) HEED_INLINE_LAMBDA {
        return _mm512_maskz_cvtps_epi32(some, _mm512_mul_ps(numbers, multiple));
      };
      return _mm512_mask_blend_epi16(0xaaaaaaaaU, rounded(even),
                                     _mm512_slli_epi32(rounded(odd), 16));
    });
    rounds_ = some | (finite & zero);
    _mm512_store_ps(totals_, _mm512_maskz_mov_ps(rounds_, total.end()));
    _mm512_store_ps(units_, _mm512_maskz_div_ps(some, largest, most));
  }

  alignas(kAlignment) std::int32_t pairs_[StoredRows::kMostRows * H / 2 + n];
  alignas(kAlignment) Real totals_[n];
  alignas(kAlignment) Real units_[n];
  alignas(kAlignment) Real together_[StoredRows::kMostRows * H];
  const StoredRows& rows_;
  const Real* weights_;  ///< [row][H]
  __mmask16 rounds_ = 0;
};

/// The sums of H queries over one vector of words per row: two vectors, whose lanes take turns of
/// four features.
template <class Words, std::size_t H>
struct WordSums {
  typename Words::Sum lower[H], upper[H];
};

/// Adds `count` features from x on to where they lie.
template <class V, class Words>
HEED_INLINE void add_features(typename Words::Sum lower, typename Words::Sum upper, float unit,
                              std::size_t x, std::size_t count, const RowOrder& order,
                              RealOf<V>* sums) {
  constexpr std::size_t n = kLanes<V>;
  const __m512d low = _mm512_castps_pd(Words::real(lower));
  const __m512d up = _mm512_castps_pd(Words::real(upper));
  const auto add = [&](std::size_t at, __m512d pick, std::size_t features) HEED_INLINE_LAMBDA {
    const __m512 sum = _mm512_castpd_ps(_mm512_permutex2var_pd(low, _mm512_castpd_si512(pick), up));
    const auto mask = static_cast<__mmask16>(first(features < n ? features : n));
    const std::size_t place = features < n ? order.rest() : at;
    _mm512_mask_storeu_ps(sums + place, mask,
                          _mm512_add_ps(_mm512_mul_ps(sum, _mm512_set1_ps(unit)),
                                        _mm512_maskz_loadu_ps(mask, sums + place)));
  };
  add(x, _mm512_castsi512_pd(_mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11)), count);
  if (count > n)
    add(x + n, _mm512_castsi512_pd(_mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15)), count - n);
}

/// Sums the features of M vectors of words from x on, or, if M is 0, the last ones, fewer than a
/// vector.
template <class V, class Words, std::size_t H, std::size_t M>
void sum_words(const StoredRows& rows, std::size_t x, const PairedWeights<V, Words, H>& weights,
               bool prefetches, RealOf<V>* sums_of) {
  using Element = typename Words::Element;
  constexpr std::size_t vectors = M == 0 ? 1 : M;
  const RowOrder order{kLanes<V>, rows.features};
  const std::size_t count = M == 0 ? rows.features - x : vectors * kWords;
  WordSums<Words, H> sums[vectors];
  unroll<vectors>([&](auto m) HEED_INLINE_LAMBDA {
    unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
      sums[m].lower[h] = Words::zero();
      sums[m].upper[h] = Words::zero();
    });
  });
  const auto words = [&](const char* row, std::size_t m) HEED_INLINE_LAMBDA {
    const Element* const at = reinterpret_cast<const Element*>(row) + x + m * kWords;
    if constexpr (M == 0) return Words::load(at, count);
    return Words::load(at);
  };
  const auto add = [&](std::size_t line, const char* row, auto&& second) HEED_INLINE_LAMBDA {
    __m512i weight[H];
    unroll<H>([&](auto h) HEED_INLINE_LAMBDA { weight[h] = weights.pair(line, h); });
    unroll<vectors>([&](auto m) HEED_INLINE_LAMBDA {
      const __m512i even = words(row, m);
      const __m512i odd = second(m);
      const __m512i lower = _mm512_unpacklo_epi16(even, odd);
      const __m512i upper = _mm512_unpackhi_epi16(even, odd);
      unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
        sums[m].lower[h] = Words::add(lower, weight[h], sums[m].lower[h]);
        sums[m].upper[h] = Words::add(upper, weight[h], sums[m].upper[h]);
      });
    });
  };
  std::size_t line = 0;
  std::size_t j = 0;  // of a run
  for (std::size_t r = 0; r < rows.run_count; ++r) {
    const RowRun& run = rows.runs[r];
    const NextPieces<vectors, kWords * sizeof(Element)> next(run, prefetches, x * sizeof(Element),
                                                             rows.features * sizeof(Element));
    for (; j + 2 <= run.count; j += 2, ++line) {
      next.prefetch_row(rows, j);
      next.prefetch_row(rows, j + 1);
      const char* const odd = rows.row(run, j + 1);
      add(line, rows.row(run, j), [&](std::size_t m) HEED_INLINE_LAMBDA { return words(odd, m); });
    }
    if (j == run.count) {
      j = 0;
      continue;
    }
    // The last row of a run is paired with the first of the next one, or with none.
    const bool paired = r + 1 < rows.run_count;
    const char* const even = rows.row(run, j);
    const char* const odd = paired ? rows.row(rows.runs[r + 1], 0) : even;
    const auto present = static_cast<__mmask32>(paired ? ~0U : 0U);
    add(line++, even, [&](std::size_t m) HEED_INLINE_LAMBDA {
      return _mm512_maskz_mov_epi16(present, words(odd, m));
    });
    j = 1;
  }
  unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
    unroll<vectors>([&](auto m) HEED_INLINE_LAMBDA {
      add_features<V, Words>(sums[m].lower[h], sums[m].upper[h], weights.unit(h), x + m * kWords,
                             M == 0 ? count : kWords, order, sums_of + h * order.padded());
    });
  });
}

/// Sums rows of integers for a query whose weights cannot be rounded.
template <class V, class Real = RealOf<V>>
[[gnu::noinline]] void sum_as_they_are(const StoredRows& rows, const Real* weights,
                                       std::size_t pitch, Real* sums, Real* totals) {
  const RowOrder order{kLanes<V>, rows.features};
  sum_queries<V, I8, 1>(rows, weights, pitch, true, sums, order.padded(), totals);
}

template <class V, class Words, class Real = RealOf<V>>
void sum_rows_of(const StoredRows& rows, const Real* weights, std::size_t pitch,
                 std::size_t queries, Real* sums, Real* totals) {
  HEED_CONTRACT(rows.hold_for(kLanes<V>) && rows.count <= StoredRows::kMostRows);
  const RowOrder order{kLanes<V>, rows.features};
  each_queries<V>(queries, [&](auto some, std::size_t h) HEED_INLINE_LAMBDA {
    constexpr std::size_t H = some;
    constexpr std::size_t M = 8 / H;  // 16 sums
    const PairedWeights<V, Words, H> paired(rows, weights + h, pitch);
    Real* const to = sums + h * order.padded();
    in_sizes<M, (M > 2 ? M / 2 : 1), 1>(
        rows.features / kWords, [&](auto m, std::size_t v) HEED_INLINE_LAMBDA {
          sum_words<V, Words, H, m>(rows, v * kWords, paired, h == 0, to);
        });
    if (rows.features % kWords != 0)
      sum_words<V, Words, H, 0>(rows, rows.features / kWords * kWords, paired, h == 0, to);
    for (std::size_t i = 0; i < H; ++i) {
      totals[h + i] += paired.total(i);
      if (!paired.rounds(i))
        sum_as_they_are<V>(rows, weights + h + i, pitch, to + i * order.padded(), totals + h + i);
    }
  });
}

template <class V, class Real = RealOf<V>>
void row_values(const StoredRows& rows, const Real* weights, std::size_t pitch, std::size_t queries,
                Real* sums, Real* totals) {
  if (rows.type == ElementType::kBf16)
    sum_rows_of<V, Bf16Words>(rows, weights, pitch, queries, sums, totals);
  else if (rows.type == ElementType::kF8E4M3)
    values_of<V, F8E4M3>(rows, weights, pitch, queries, sums, totals);
  else
    sum_rows_of<V, I8Words>(rows, weights, pitch, queries, sums, totals);
}

template <class V, class Real = RealOf<V>>
void row_attend(const StoredRows& keys, const StoredRows& values, const Real* query,
                std::size_t queries, std::size_t turn, Real* row_max, Real* row_sum, Real* sums) {
  attend_all<V>(keys, values, query, queries, turn, row_max, row_sum, sums, row_scores<V, Real>,
                row_values<V, Real>);
}

}  // namespace row_pairs

template <class V>
constexpr RowProducts<RealOf<V>> row_pair_products() {
  RowProducts<RealOf<V>> products{};
#define HEED_ROW_KERNEL(result, name, parameters)
#define HEED_ROW_PRODUCT(result, name, parameters) products.name = row_pairs::name<V>;
#include "engine/kernels/list.hpp"
  return products;
}

}  // namespace
}  // namespace heed
