// The two products of attention where a few queries share rows of keys and values: every row is
// read once, in the type that it is stored in, from wherever it lies. The lanes of a vector are
// features.
//
//   score[row][query]       = sum over features of row[feature] * query[feature]
//   sum[query][feature]    += sum over rows of weight[row][query] * row[feature]
#pragma once

#include "engine/kernels/edges.hpp"
#include "engine/kernels/exp2.hpp"
#include "engine/kernels/operations.hpp"
#include "engine/kernels/read.hpp"
#include "engine/kernels/table.hpp"
#include "engine/kernels/transpose.hpp"

namespace heed {
namespace {

/// Next rows are prefetched beside M vectors of values, in pieces of 256 bytes at least: a part of
/// the piece beside each vector, since many prefetches at once hold up the loads behind them.
template <std::size_t M, std::size_t kVectorBytes>
class NextPieces {
 public:
  /// Vectors from byte `begin` of each row on are read.
  HEED_INLINE NextPieces(const RowRun& run, bool prefetches, std::size_t begin,
                         std::size_t row_bytes)
      : run_(run),
        begin_(begin),
        end_(row_bytes),
        count_(prefetches && begin % kPiece == 0 ? run.next_count : 0) {}
  /// The row that follows row j; if none does, row j, which is at hand.
  HEED_INLINE const char* row(const StoredRows& rows, std::size_t j) const {
    return (j < count_ ? rows.next(run_, j) : rows.row(run_, j)) + begin_;
  }
  /// All of what follows row j, if anything does: where rows are so small that one vector or two is
  /// all there is of them.
  HEED_INLINE void prefetch_row(const StoredRows& rows, std::size_t j) const {
    if (j >= count_) return;
    const char* const next = rows.next(run_, j) + begin_;
    unroll<M>([&](auto m) HEED_INLINE_LAMBDA { prefetch(next, m); });
  }
  /// When vector m is read.
  HEED_INLINE void prefetch(const char* row, std::size_t m) const {
    unroll<kLines>([&](auto l) HEED_INLINE_LAMBDA {
      if (l * M / kLines != m) return;
      if (M * kVectorBytes >= kPiece || begin_ + l * kLine < end_)
        __builtin_prefetch(row + l * kLine, 0, 2);
    });
  }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kPiece = 256;
  static constexpr std::size_t kLines =
      (M * kVectorBytes < kPiece ? kPiece : M * kVectorBytes) / kLine;
  const RowRun& run_;
  std::size_t begin_, end_, count_;
};

/// Adds the products of a vector of K rows with H queries to sums[row][query].
template <std::size_t H, std::size_t K, class V>
HEED_INLINE void add_products(const V (&row)[K], const RealOf<V>* query, std::size_t stride,
                              V* sums) {
  unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
    V q = V::load_unaligned(query + h * stride);
    if constexpr (K > 1) pin(q);
    unroll<K>([&](auto k) HEED_INLINE_LAMBDA {
      sums[k * H + h] = multiply_add(row[k], q, sums[k * H + h]);
    });
  });
}

/// How queries and rows are multiplied, lane by lane: row by row as numbers of the arithmetic.
template <class V, class E>
struct WholeProducts {
  using Element = E;
  using Real = RealOf<V>;
  static constexpr bool kScales = false;  ///< scores, though rows have no scales
  /// More multiply() one after the other are a loop. E4M3 takes so long that loops cost nothing,
  /// and where it takes turns (row_pairs.hpp) nobody is in a hurry with another type.
  static constexpr std::size_t kMostUnrolled = kTakesTurns<V, F8E4M3> ? 2
                                               : kIsAvx512<V> && std::is_same_v<Element, F8E4M3>
                                                   ? 4
                                                   : 16;

  /// Element i: the sum over features of sums[i].
  HEED_INLINE static V total(V (&sums)[kLanes<V>]) { return sum_rows<V>(sums); }

  /// Scores are multiplied with these.
  template <std::size_t H>
  HEED_INLINE static V factors(const Real* /*query*/, const RowOrder& /*order*/) {
    return V(kUnit<Element>);
  }

  /// K rows against H queries.
  template <std::size_t H, std::size_t K>
  HEED_INLINE static void multiply(const char* const (&rows)[K], const RowOrder& order,
                                   const Real* query, V* sums, const char* const (&next)[K]) {
    constexpr std::size_t n = kLanes<V>;
    const std::size_t features = order.features;
    const std::size_t stride = order.query_numbers();
    const Element* at[K];
    unroll<K>([&](auto k) HEED_INLINE_LAMBDA {
      at[k] = reinterpret_cast<const Element*>(rows[k]);
      unroll<H>([&](auto h) HEED_INLINE_LAMBDA { sums[k * H + h] = V(Real{0}); });
    });
    V row[K];
    std::size_t x = 0;
    const auto add = [&](std::size_t from) HEED_INLINE_LAMBDA {
      unroll<K>([&](auto k) HEED_INLINE_LAMBDA { row[k] = read_vector<V>(at[k] + from); });
      add_products<H, K>(row, query + from, stride, sums);
    };
    constexpr std::size_t step = sizeof(V) / (n * sizeof(Element));  // vectors that share a line
    for (; x + step * n <= features; x += step * n) {
      unroll<K>([&](auto k) HEED_INLINE_LAMBDA {
        __builtin_prefetch(next[k] + x * sizeof(Element), 0, 2);
      });
      if constexpr (kTakesTurns<V, Element>) {
        V line[K][step];
        unroll<K>([&](auto k) HEED_INLINE_LAMBDA { read_line(at[k] + x, line[k]); });
        unroll<step>([&](auto i) HEED_INLINE_LAMBDA {
          unroll<K>([&](auto k) HEED_INLINE_LAMBDA { row[k] = line[k][i]; });
          add_products<H, K>(row, query + x + i * n, stride, sums);
        });
      } else {
        unroll<step>([&](auto i) HEED_INLINE_LAMBDA { add(x + i * n); });
      }
    }
    for (; step > 1 && x + n <= features; x += n) add(x);
    if (x == features) return;
    // Repeated features meet zeros in the queries, which infinities and NaN must not.
    alignas(kAlignment) Real counted[n];
    const std::size_t begin = features - n;
    for (std::size_t i = 0; i < n; ++i) counted[i] = begin + i < x ? Real{0} : Real{1};
    const auto counts = load<V>(counted) == V(Real{1});
    unroll<K>([&](auto k) HEED_INLINE_LAMBDA {
      row[k] = xsimd::select(counts, read_vector<V>(at[k] + begin), V(Real{0}));
    });
    add_products<H, K>(row, query + x, stride, sums);
  }
};

/// The scores of H queries, where H divides the lanes: takes so many rows at once that their sums
/// over features fill one vector, kSideBySide of them side by side, because more would wait for
/// each other, and everything for them.
template <class V, class Products, std::size_t H, std::size_t kSideBySide = 2,
          class Real = RealOf<V>>
void score_queries(const StoredRows& rows, const Real* query, bool prefetches, Real* scores,
                   std::size_t pitch) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t together = n / H;
  constexpr std::size_t K = together < kSideBySide ? together : kSideBySide;
  constexpr bool scaled = kIsScaled<typename Products::Element>;
  const RowOrder order{n, rows.features};
  const V factors = Products::template factors<H>(query, order);
  std::size_t first = 0;
  for (std::size_t r = 0; r < rows.run_count; ++r) {
    const RowRun& run = rows.runs[r];
    const std::size_t next_count = prefetches ? run.next_count : 0;
    for (std::size_t j = 0; j < run.count; j += together) {
      const std::size_t count = run.count - j < together ? run.count - j : together;
      V sums[n];
      const auto multiply = [&](auto i) HEED_INLINE_LAMBDA {
        const char* at[K];
        const char* next[K];
        unroll<K>([&](auto k) HEED_INLINE_LAMBDA {
          const std::size_t place = i * K + k;
          // The last row stands in for missing ones.
          const std::size_t index = j + (place < count ? place : count - 1);
          at[k] = rows.row(run, index);
          next[k] = index < next_count ? rows.next(run, index) : at[k];
        });
        Products::template multiply<H, K>(at, order, query, sums + i * K * H, next);
      };
      if constexpr (together / K > Products::kMostUnrolled) {
#pragma GCC unroll 1
        for (std::size_t i = 0; i < together / K; ++i) multiply(i);
      } else {
        unroll<together / K>(multiply);
      }
      V result = Products::total(sums);
      if constexpr (scaled || Products::kScales) result = result * factors;
      if constexpr (scaled) result = result * repeated_scales<V, H>(rows.scales + first + j, count);
      Real* const to = scores + (first + j) * pitch;
      if (count == together && pitch == H) {
        result.store_unaligned(to);
      } else {
        alignas(kAlignment) Real each[n];
        store<V>(each, result);
        for (std::size_t i = 0; i < count; ++i)
          for (std::size_t h = 0; h < H; ++h) to[i * pitch + h] = each[i * H + h];
      }
    }
    first += run.count;
  }
}

/// Calls function(H, h) for the queries from h on, H of them: 4, 2 or 1; of float64, which takes
/// half the lanes and is rare, 2 or 1.
template <class V, class Function>
HEED_INLINE void each_queries(std::size_t queries, Function&& function) {
  if constexpr (kIsFloat<V>) {
    in_sizes<4, 2, 1>(queries, function);
  } else {
    in_sizes<2, 1>(queries, function);
  }
}

template <class V, class Products, class Real = RealOf<V>>
void score_all(const StoredRows& rows, const Real* query, std::size_t queries, Real* scores,
               std::size_t pitch) {
  HEED_CONTRACT(rows.hold_for(kLanes<V>) && pitch >= queries);
  const std::size_t stride = RowOrder{kLanes<V>, rows.features}.query_numbers();
  each_queries<V>(queries, [&](auto some, std::size_t h) HEED_INLINE_LAMBDA {
    score_queries<V, Products, some>(rows, query + h * stride, h == 0, scores + h, pitch);
  });
}

template <class V, class Real = RealOf<V>>
void row_query([[maybe_unused]] ElementType type, const Real* query, std::size_t features,
               Real scale, Real* to) {
  const RowOrder order{kLanes<V>, features};
  std::size_t begin = 0;
  if constexpr (kTakesTurns<V, F8E4M3>)
    for (; type == ElementType::kF8E4M3 && begin + 64 <= features; begin += 64)
      for (std::size_t x = 0; x < 64; ++x)
        to[begin + x] = query[begin + x % 16 / 4 * 16 + line_place(x % 4, x / 16)] * scale;
  for (std::size_t x = begin; x < order.whole(); ++x) to[x] = query[x] * scale;
  for (std::size_t x = order.whole(); x < order.rest(); ++x) to[x] = 0;
  for (std::size_t x = order.whole(); x < features; ++x) to[order.place(x)] = query[x] * scale;
}

template <class V, class Real = RealOf<V>>
void row_scores(const StoredRows& rows, const Real* query, std::size_t queries, Real* scores,
                std::size_t pitch) {
  with_stored_element<Real>(rows.type, [&](auto element) HEED_INLINE_LAMBDA {
    score_all<V, WholeProducts<V, decltype(element)>>(rows, query, queries, scores, pitch);
  });
}

/// Sorts the elements of four vectors that took turns.
template <class V>
HEED_INLINE void end_turns(V* line) {
  if constexpr (kLanes<V> == 16) {
    const V rows[] = {interleave<false>(line[0], line[1]), interleave<true>(line[0], line[1]),
                      interleave<false>(line[2], line[3]), interleave<true>(line[2], line[3])};
    transpose_quarters(rows[0], rows[1], rows[2], rows[3], line);
  }
}

/// Sums the features [x, x + M vectors) of all rows for H queries, apart from what is there, and
/// the weights, unless `totals` is nullptr. Sums of queries lie `stride` apart.
template <class V, class Element, std::size_t H, std::size_t M, class Real = RealOf<V>>
void sum_features(const StoredRows& rows, std::size_t x, const Real* weights, std::size_t pitch,
                  bool prefetches, Real* sums_of, std::size_t stride, Real* totals) {
  constexpr std::size_t n = kLanes<V>;
  constexpr bool turns = kTakesTurns<V, Element> && M % 4 == 0;
  V sums[H][M];
  V total[H];
  unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
    total[h] = V(Real{0});
    unroll<M>([&](auto m) HEED_INLINE_LAMBDA { sums[h][m] = V(Real{0}); });
  });
  std::size_t first = 0;
  for (std::size_t r = 0; r < rows.run_count; ++r) {
    const RowRun& run = rows.runs[r];
    const NextPieces<M, n * sizeof(Element)> next(run, prefetches, x * sizeof(Element),
                                                  rows.features * sizeof(Element));
    for (std::size_t j = 0; j < run.count; ++j) {
      const Element* const row = reinterpret_cast<const Element*>(rows.row(run, j)) + x;
      const char* const next_row = next.row(rows, j);
      V weight[H];
      unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
        weight[h] = V(weights[(first + j) * pitch + h]);
        total[h] = total[h] + weight[h];
        if constexpr (kIsScaled<Element>)
          weight[h] = weight[h] * V(rows.scales[first + j] * kUnit<Element>);
      });
      const auto add = [&](auto m, V part) HEED_INLINE_LAMBDA {
        next.prefetch(next_row, m);
        unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
          sums[h][m] = multiply_add(weight[h], part, sums[h][m]);
        });
      };
      if constexpr (turns) {
        unroll<M / 4>([&](auto l) HEED_INLINE_LAMBDA {
          V line[4];
          read_line(row + l * 4 * n, line);
          unroll<4>([&](auto i) HEED_INLINE_LAMBDA {
            add(std::integral_constant<std::size_t, l * 4 + i>{}, line[i]);
          });
        });
      } else {
        unroll<M>([&](auto m) HEED_INLINE_LAMBDA { add(m, read_vector<V>(row + m * n)); });
      }
    }
    first += run.count;
  }
  unroll<H>([&](auto h) HEED_INLINE_LAMBDA {
    if (totals != nullptr) totals[h] += total[h].get(0);
    if constexpr (turns)
      unroll<M / 4>([&](auto l) HEED_INLINE_LAMBDA { end_turns(sums[h] + l * 4); });
    unroll<M>([&](auto m) HEED_INLINE_LAMBDA {
      Real* const to = sums_of + h * stride + m * n;
      (sums[h][m] + V::load_unaligned(to)).store_unaligned(to);
    });
  });
}

/// row_values() of H queries, whose sums lie `stride` apart.
template <class V, class Element, std::size_t H, class Real = RealOf<V>>
HEED_INLINE void sum_queries(const StoredRows& rows, const Real* weights, std::size_t pitch,
                             bool prefetches, Real* sums, std::size_t stride, Real* totals) {
  constexpr std::size_t n = kLanes<V>;
  // As many sums as registers have room for beside the weights.
  constexpr std::size_t registers = kIsAvx512<V> ? 16 : 8;
  constexpr std::size_t M = H == 1 ? 8 : registers / H;
  const auto sum = [&](auto m, std::size_t x, std::size_t place) HEED_INLINE_LAMBDA {
    sum_features<V, Element, H, m>(rows, x, weights, pitch, prefetches, sums + place, stride,
                                   place == 0 ? totals : nullptr);
  };
  const auto some = [&](auto m, std::size_t v) HEED_INLINE_LAMBDA { sum(m, v * n, v * n); };
  if constexpr (kTakesTurns<V, Element>)
    in_sizes<4, 1>(rows.features / n, some);
  else
    in_sizes<M, (M > 2 ? M / 2 : 1), 1>(rows.features / n, some);
  if (rows.features % n != 0)
    sum(std::integral_constant<std::size_t, 1>{}, rows.features - n, stride - n);
}

template <class V, class Element, class Real = RealOf<V>>
HEED_INLINE void values_of(const StoredRows& rows, const Real* weights, std::size_t pitch,
                           std::size_t queries, Real* sums, Real* totals) {
  HEED_CONTRACT(rows.hold_for(kLanes<V>) && pitch >= queries);
  const std::size_t stride = RowOrder{kLanes<V>, rows.features}.padded();
  each_queries<V>(queries, [&](auto some, std::size_t h) HEED_INLINE_LAMBDA {
    sum_queries<V, Element, some>(rows, weights + h, pitch, h == 0, sums + h * stride, stride,
                                  totals + h);
  });
}

template <class V, class Real = RealOf<V>>
void row_values(const StoredRows& rows, const Real* weights, std::size_t pitch, std::size_t queries,
                Real* sums, Real* totals) {
  with_stored_element<Real>(rows.type, [&](auto element) HEED_INLINE_LAMBDA {
    values_of<V, decltype(element)>(rows, weights, pitch, queries, sums, totals);
  });
}

/// Where the largest of a query's scores, NaN passed over, has outgrown *row_max, that becomes it,
/// and what was relative to it is rescaled. Scores lie `pitch` apart.
template <class V, class Real = RealOf<V>>
[[gnu::noinline]] void move_row_max(const Real* scores, std::size_t count, std::size_t pitch,
                                    Real* row_max, Real* row_sum, Real* sums, std::size_t padded) {
  Real most = *row_max;
  for (std::size_t j = 0; j < count; ++j)
    most = scores[j * pitch] > most ? scores[j * pitch] : most;
  if (!(most > *row_max + kRescaleThreshold<Real>)) return;
  most = most < kLargest<Real> ? most : kLargest<Real>;
  const V factor = exp2_of(V(*row_max - most));
  *row_max = most;
  *row_sum *= factor.get(0);
  for (std::size_t x = 0; x < padded; x += kLanes<V>)
    (V::load_unaligned(sums + x) * factor).store_unaligned(sums + x);
}

/// Lanes of no query get probabilities of 0 whatever their scores.
template <class V, class Real = RealOf<V>>
void row_probs(std::size_t keys, std::size_t pitch, std::size_t queries, Real* scores,
               Real* row_max, Real* row_sum, Real* sums, std::size_t padded) {
  constexpr std::size_t n = kLanes<V>;
  HEED_CONTRACT(keys > 0 && pitch >= queries && pitch <= kMaxPanel);
  HEED_CONTRACT(pitch % n == 0 || n % pitch == 0);
  const std::size_t width = pitch < n ? n : pitch;
  const std::size_t whole = (keys * pitch + n - 1) / n * n;
  for (std::size_t i = keys * pitch; i < whole; ++i) scores[i] = -kInfinity<Real>;  // count nowhere
  alignas(kAlignment) Real most[kMaxPanel];
  for (std::size_t h = 0; h < pitch; ++h)
    for (std::size_t l = h; l < width; l += pitch)
      most[l] = h < queries ? row_max[h] : kLargest<Real>;
  bool moves = false;
  for (std::size_t l = 0; l < width; l += n) {
    const V outgrown = load<V>(most + l) + V(kRescaleThreshold<Real>);
    auto exceeds = load<V>(scores + l) > outgrown;
    for (std::size_t i = l + width; i < whole; i += width)
      exceeds = exceeds | (load<V>(scores + i) > outgrown);
    moves = moves || xsimd::any(exceeds);
  }
  for (std::size_t h = 0; moves && h < queries; ++h) {
    move_row_max<V>(scores + h, keys, pitch, row_max + h, row_sum + h, sums + h * padded, padded);
    for (std::size_t l = h; l < width; l += pitch) most[l] = row_max[h];
  }
  for (std::size_t l = 0; l < width; l += n) {
    const V top = load<V>(most + l);
    for (std::size_t i = l; i < whole; i += width)
      store<V>(scores + i, exp2_of(at_most(kLargest<Real>, load<V>(scores + i)) - top));
  }
}

/// One for rows of all types: score_rows and sum_rows are row_scores and row_values.
template <class V, class Score, class Sum, class Real = RealOf<V>>
[[gnu::noinline]] void attend_all(const StoredRows& keys, const StoredRows& values,
                                  const Real* query, std::size_t queries, std::size_t turn,
                                  Real* row_max, Real* row_sum, Real* sums, Score score_rows,
                                  Sum sum_rows) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t most = StoredRows::kMostRows;
  static_assert(most % n == 0);
  HEED_CONTRACT(keys.count == values.count && queries <= kAttendQueries);
  HEED_CONTRACT(turn % StoredRows::kRunRows == 0 && turn <= most);
  const std::size_t stride = RowOrder{n, keys.features}.query_numbers();
  const std::size_t padded = RowOrder{n, values.features}.padded();
  alignas(kAlignment) Real scores[kAttendQueries * most];
  RowGroups key_groups(keys, turn);
  RowGroups value_groups(values, turn);
  // Only the first queries of a turn prefetch.
  const auto be_fetched = [](StoredRows& rows) {
    for (std::size_t r = 0; r < rows.run_count; ++r) rows.runs[r].next_count = 0;
  };
  for (std::size_t first = 0; first < keys.count; first += turn) {
    StoredRows key_group = key_groups.next();
    each_queries<V>(queries, [&](auto some, std::size_t h) HEED_INLINE_LAMBDA {
      Real* const these = scores + h * most;
      score_rows(key_group, query + h * stride, some, these, some);
      be_fetched(key_group);
      row_probs<V>(key_group.count, some, some, these, row_max + h, row_sum + h, sums + h * padded,
                   padded);
    });
    StoredRows value_group = value_groups.next();
    each_queries<V>(queries, [&](auto some, std::size_t h) HEED_INLINE_LAMBDA {
      sum_rows(value_group, scores + h * most, some, some, sums + h * padded, row_sum + h);
      be_fetched(value_group);
    });
  }
}

/// Rows come from memory. Rows as wide as the arithmetic keep it busiest one after the other.
template <class V, class Real = RealOf<V>>
void score_alone(const StoredRows& rows, const Real* query, std::size_t queries, Real* scores,
                 std::size_t pitch) {
  if (rows.type == kTypeOf<Real>)
    score_queries<V, WholeProducts<V, Real>, 1, 1>(rows, query, true, scores, pitch);
  else
    row_scores<V>(rows, query, queries, scores, pitch);
}

template <class V, class Real = RealOf<V>>
void row_attend(const StoredRows& keys, const StoredRows& values, const Real* query,
                std::size_t queries, std::size_t turn, Real* row_max, Real* row_sum, Real* sums) {
  attend_all<V>(keys, values, query, queries, turn, row_max, row_sum, sums,
                queries == 1 ? score_alone<V, Real> : row_scores<V, Real>, row_values<V, Real>);
}

}  // namespace
}  // namespace heed
