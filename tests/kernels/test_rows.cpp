// row_scores and row_values: rows times a few queries, and weights times rows. edge_scores and
// edge_values: the same of rows that edges point at; activate: tanh or leaky ReLU of such rows and
// a query. Rows are read where they lie, in the type that they are stored in.
#include "tests/kernels/formats.hpp"
#include "tests/kernels/support.hpp"
#include "tests/support/fenced.hpp"

using namespace heed_test;

namespace {

struct RowCase {
  heed::ElementType type;
  std::size_t extra;  ///< features beyond one vector
  std::size_t rows;
  std::size_t queries;
  bool wide;   ///< lanes that belong to no query
  bool pairs;  ///< products of pairs of words, where there are any
  std::uint64_t seed;
  heed::RowOrder order = {};
  std::size_t pitch = 0;

  void fit(std::size_t lanes) {
    order = {lanes, lanes + extra};
    pitch = wide ? round_up(queries + 1, lanes) : queries;
  }
  std::string line() const {
    std::ostringstream text;
    text << name_of(type) << " features " << order.features << " rows " << rows << " queries "
         << queries << " pitch " << pitch << (pairs ? " pairs" : "");
    return text.str();
  }
};

template <class Real>
const heed::RowProducts<Real>& products_of(const Table<Real>& kernels, const RowCase& c) {
  if (c.pairs) return *kernels.row_pairs;
  return kernels.rows;
}

template <class Real>
std::vector<heed::ElementType> stored_types(bool pairs) {
  if (pairs) return {heed::ElementType::kBf16, heed::ElementType::kI8, heed::ElementType::kF8E4M3};
  if constexpr (std::is_same_v<Real, double>) return {heed::ElementType::kF64};
  return {heed::ElementType::kF32, heed::ElementType::kBf16, heed::ElementType::kF16,
          heed::ElementType::kI8, heed::ElementType::kF8E4M3};
}

/// Whole vectors, and last ones that repeat all features but one, or only one, or some; numbers of
/// rows around those that any instruction set takes together; queries in all of their groups.
template <class Real>
std::vector<RowCase> row_sizes(bool pairs) {
  std::vector<RowCase> cases;
  std::size_t index = 0;
  for (const heed::ElementType type : stored_types<Real>(pairs))
    for (const std::size_t extra : {0U, 1U, 3U, 7U, 8U, 15U, 16U, 37U, 48U, 79U, 112U, 133U, 240U})
      for (const std::size_t rows : {1U, 2U, 7U, 15U, 16U, 17U, 63U, 64U})
        for (const std::size_t queries : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 13U, 16U})
          for (const bool wide : {false, true})
            if (keep(index++)) cases.push_back({type, extra, rows, queries, wide, pairs, index});
  return cases;
}

/// Rows in memory, canaries between them: row j is the places[j]-th. The last one in memory ends
/// where none may read on, and so do scales, where there are any.
template <class Real>
class Stored {
 public:
  /// Draws the features of row j by draw(j, x).
  template <class Draw>
  Stored(const Table<Real>& kernels, heed::ElementType type, const std::vector<std::size_t>& places,
         std::size_t features, Draw&& draw)
      : kind_(kind_of(type)),
        stride_((features + 3) * kind_.size()),
        memory_(places.size() * stride_ - 3 * kind_.size(), End::kLast),
        scale_memory_(heed::is_scaled(type) ? places.size() * sizeof(float) : 0, End::kLast) {
    auto* const first = static_cast<unsigned char*>(memory_.get());
    for (std::size_t i = 0; i < memory_.bytes(); i += 2)
      std::memcpy(first + i, &kCanaryBits,
                  std::min<std::size_t>(2, memory_.bytes() - i));  // of every type
    for (std::size_t j = 0; j < places.size(); ++j) {
      unsigned char* const at = first + places[j] * stride_;
      const auto drawn = filled<Real>(features, [&](std::size_t x) { return draw(j, x); });
      if (type == heed::ElementType::kI8)
        kernels.numbers.quantise(drawn.data(), drawn.size(), reinterpret_cast<std::int8_t*>(at),
                                 scales() + j);
      else
        kernels.numbers.write(type, drawn.data(), drawn.size(), at, 1);
      if (type == heed::ElementType::kF8E4M3) scales()[j] = 0.3F * static_cast<float>(j % 5 + 1);
      rows_.push_back(at);
    }
  }

  const void* row(std::size_t j) const { return rows_[j]; }
  const void* begin() const { return memory_.get(); }
  const void* end() const {
    return static_cast<const unsigned char*>(memory_.get()) + memory_.bytes();
  }
  std::ptrdiff_t stride() const { return static_cast<std::ptrdiff_t>(stride_); }
  float* scales() const { return static_cast<float*>(scale_memory_.get()); }
  /// 1 of rows without scales.
  Real scale(std::size_t row) const {
    return heed::is_scaled(kind_.type) ? static_cast<Real>(scales()[row]) : Real{1};
  }
  /// Times its scale.
  Wide<Real> at(std::size_t row, std::size_t x) const {
    const void* const from = static_cast<const unsigned char*>(rows_[row]) + x * kind_.size();
    return static_cast<Wide<Real>>(kind_.value_at(from)) * static_cast<Wide<Real>>(scale(row));
  }

 private:
  Kind kind_;
  std::size_t stride_;
  Fenced memory_, scale_memory_;
  std::vector<const void*> rows_;
};

/// Runs of rows of any length in any order. Rows that are prefetched but not asked for lie where
/// none may be read.
template <class Real>
class Rows : public Stored<Real> {
 public:
  template <class Draw>
  Rows(const Table<Real>& kernels, const RowCase& c, Draw&& draw)
      : Rows(kernels, c, draw_runs(c), draw) {}

  heed::StoredRows from(std::size_t row, std::size_t count) const {
    heed::StoredRows rows = {c_.type,
                             this->stride(),
                             this->stride(),
                             count,
                             c_.order.features,
                             heed::is_scaled(c_.type) ? this->scales() + row : nullptr,
                             0,
                             {}};
    for (std::size_t n = 0; n + 1 < begins_.size(); ++n) {
      const std::size_t j = std::max(begins_[n], row);
      const std::size_t run_end = std::min(begins_[n + 1], row + count);
      if (j < run_end)
        rows.runs[rows.run_count++] = {this->row(j), run_end - j, this->end(),
                                       n % 2 * heed::StoredRows::kRunRows + 3};
    }
    return rows;
  }
  heed::StoredRows all() const { return from(0, c_.rows); }

 private:
  template <class Draw>
  Rows(const Table<Real>& kernels, const RowCase& c, std::vector<std::size_t> begins, Draw&& draw)
      : Stored<Real>(kernels, c.type, places_of(begins), c.order.features, draw),
        c_(c),
        begins_(std::move(begins)) {}

  /// Where runs begin, and the last one ends: every kRunRows rows, or anywhere.
  static std::vector<std::size_t> draw_runs(const RowCase& c) {
    Random random(c.seed);
    const bool anywhere = random.integer(0, 1) == 0;
    const std::size_t step = heed::StoredRows::kRunRows;
    std::vector<std::size_t> begins = {0};
    for (std::size_t j = step; j < c.rows; j += step)
      begins.push_back(anywhere ? 1 + static_cast<std::size_t>(random.bits() % (c.rows - 1)) : j);
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    begins.push_back(c.rows);
    return begins;
  }
  static std::vector<std::size_t> places_of(const std::vector<std::size_t>& begins) {
    std::vector<std::size_t> places(begins.back());
    std::size_t place = 0;
    for (std::size_t n = 0; n + 1 < begins.size(); ++n) {
      const std::size_t run = scattered(n, begins.size() - 1);
      for (std::size_t j = begins[run]; j < begins[run + 1]; ++j) places[j] = place++;
    }
    return places;
  }

  RowCase c_;
  std::vector<std::size_t> begins_;
};

template <class Real>
Real bfloat16_near(Real x) {
  return static_cast<Real>(kBf16.nearest(static_cast<double>(x)));
}

/// What rounding to the integers of pairs is off by at most, of the largest number.
constexpr double kHalfWord = 0.5 / 32767;

/// Queries, laid out for rows, and what row_scores makes of them.
template <class Real>
struct Queries {
  Queries(const Table<Real>& kernels, const RowCase& whole, Random& random)
      : c(whole),
        products(products_of(kernels, c)),
        numbers(normals<Real>(c.queries * c.order.features, random)),
        query(c.queries * c.order.query_numbers()) {
    if (c.pairs && c.type == heed::ElementType::kBf16)
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = bfloat16_near(numbers[i]);
    for (std::size_t h = 0; h < c.queries; ++h)
      products.row_query(c.type, numbers.data() + h * c.order.features, c.order.features, kScale,
                         query.data() + h * c.order.query_numbers());
    CHECK((numbers.intact() && query.intact()));
  }

  /// Checks all scores, and that nothing is written beside them: error / bound.
  double score(const Table<Real>& kernels, const Rows<Real>& rows) const {
    // Products are summed lane by lane, then over the lanes: by halves, or one after the other.
    const std::size_t lanes = c.order.lanes;
    const auto halvings = static_cast<std::size_t>(std::ilogb(static_cast<double>(lanes)));
    const std::size_t fold = kernels.isa == std::string("scalar") ? lanes - 1 : halvings;
    const std::size_t scaling = heed::is_scaled(c.type) ? 1 : 0;
    const std::size_t rounded_pairs = c.pairs ? 4 : 0;  // their sum, their factor, and the query
    const std::size_t roundings = c.order.padded() / lanes + fold + scaling + rounded_pairs;
    Random random(c.seed);
    const auto before = normals<Real>(c.rows * c.pitch, random);
    auto scores = before;
    products.row_scores(rows.all(), query.data(), c.queries, scores.data(), c.pitch);
    CHECK((scores.intact() && query.intact()));
    return worst_of(c.rows, c.pitch, [&](std::size_t j, std::size_t h) {
      const std::size_t at = j * c.pitch + h;
      if (h >= c.queries) return wrong_unless(same_bits(scores[at], before[at]));
      const Real* const of = numbers.data() + h * c.order.features;
      const bool integers = c.pairs && c.type == heed::ElementType::kI8;
      const Real largest = std::abs(*std::max_element(
          of, of + c.order.features, [](Real a, Real b) { return std::abs(a) < std::abs(b); }));
      Sum<Real> sum;
      for (std::size_t x = 0; x < c.order.features; ++x) {
        sum.add(rows.at(j, x), of[x] * kScale);
        if (integers) sum.slack += std::fabs(rows.at(j, x)) * largest * kScale * kHalfWord;
      }
      return sum.ratio(scores[at], static_cast<Wide<Real>>(roundings));
    });
  }

  static constexpr Real kScale = 0.75;

  RowCase c;
  const heed::RowProducts<Real>& products;
  BasicBuffer<Real> numbers, query;
};

/// Weights, some of which are 0, and what row_values makes of them and of what was there before.
template <class Real>
struct Weights {
  Weights(const Table<Real>& kernels, const RowCase& whole, Random& random)
      : c(whole),
        products(products_of(kernels, c)),
        weights(filled<Real>(
            c.rows * c.pitch,
            [&] { return random.integer(0, 3) == 0 ? Real{0} : random.normal<Real>(); })),
        sums(normals<Real>(c.queries * c.order.padded(), random)),
        totals(normals<Real>(c.queries, random)) {}

  /// Adds the rows for `count` queries from `first` on.
  void add(const Rows<Real>& rows, std::size_t first, std::size_t count) {
    products.row_values(rows.all(), weights.data() + first, c.pitch, count,
                        sums.data() + first * c.order.padded(), totals.data() + first);
    CHECK((weights.intact() && sums.intact() && totals.intact()));
  }
  Real sum(std::size_t h, std::size_t x) const {
    return sums[h * c.order.padded() + c.order.place(x)];
  }

  /// Whether all that counts has the same bits.
  bool same(const Weights& other) const {
    return same_bits(totals, other.totals) &&
           all(c.queries, c.order.features, [&](std::size_t h, std::size_t x) {
             return same_number(sum(h, x), other.sum(h, x));
           });
  }

  /// As products take it.
  Real weight(std::size_t j, std::size_t h) const {
    const Real exact = weights[j * c.pitch + h];
    return c.pairs && c.type == heed::ElementType::kBf16 ? bfloat16_near(exact) : exact;
  }

  /// What rounding of integer weights may add to a sum: for each row half a unit of 1 / 32767 of
  /// the largest scaled weight.
  Wide<Real> slack(const Rows<Real>& rows, std::size_t h, std::size_t x) const {
    if (!c.pairs || c.type != heed::ElementType::kI8) return 0;
    Wide<Real> largest = 0;
    Wide<Real> magnitude = 0;
    for (std::size_t j = 0; j < c.rows; ++j) {
      largest = std::max<Wide<Real>>(largest, std::fabs(weight(j, h) * rows.scale(j)));
      magnitude += std::fabs(rows.at(j, x) / rows.scale(j));
    }
    return largest * kHalfWord * magnitude;
  }

  /// Checks all sums and totals: error / bound. Rows are summed apart, one after the other, and
  /// then added, so that each sees as many roundings as there are terms.
  double add_all(const Rows<Real>& rows) const {
    Weights after = *this;
    after.add(rows, 0, c.queries);
    const double values = worst_of(c.queries, c.order.features, [&](std::size_t h, std::size_t x) {
      Sum<Real> want = {sum(h, x)};
      for (std::size_t j = 0; j < c.rows; ++j) want.add(weight(j, h), rows.at(j, x));
      want.slack = slack(rows, h, x);
      const int scaling = heed::is_scaled(c.type) ? 1 : 0;  // of the weight
      const int rounded_pairs = c.pairs ? 4 : 0;  // the multiple, the sum and the unit, and a zero
      return want.ratio(after.sum(h, x), want.terms + scaling + rounded_pairs);
    });
    return std::max(values, worst_of(c.queries, 1, [&](std::size_t h, std::size_t) {
                      Sum<Real> want = {totals[h]};
                      for (std::size_t j = 0; j < c.rows; ++j) want.add(weight(j, h), 1);
                      return want.ratio(after.totals[h]);
                    }));
  }

  RowCase c;
  const heed::RowProducts<Real>& products;
  BasicBuffer<Real> weights, sums, totals;
};

/// Runs function(kernels, case, generator) for all sizes, those of pairs too.
template <class Real, class Sizes, class Function>
void for_each_row_case(Sizes&& sizes, Function&& function) {
  for_each_case<Real>(sizes(false), function);
  if constexpr (std::is_same_v<Real, float>) for_each_row_pair_case(sizes(true), function);
}

/// Runs function(kernels, case, rows, generator) for all sizes. Numbers are random; in every third
/// case one of each row is not finite, which counts where it is, and not where it is repeated.
template <class Real, class Function>
void for_each_size(Function&& function) {
  const std::vector<Real> special = {kInf<Real>, -kInf<Real>, not_a_number<Real>()};
  for_each_row_case<Real>(
      row_sizes<Real>, [&](const Table<Real>& kernels, const RowCase& c, Random& random) {
        const std::size_t first = random.bits() % c.order.features;
        const auto draw = [&](std::size_t j, std::size_t x) {
          const bool odd = c.seed % 3 == 0 && x == (first + j) % c.order.features;
          return odd ? random.pick(special) : random.normal<Real>();
        };
        return function(kernels, c, Rows<Real>(kernels, c, draw), random);
      });
}

}  // namespace

TEMPLATE_TEST_CASE("row_scores multiplies scattered rows by queries, each row and query by itself",
                   "[rows]", float, double) {
  for_each_size<TestType>(
      [](const auto& kernels, const RowCase& c, const auto& rows, Random& random) {
        const Queries<TestType> q(kernels, c, random);
        BasicBuffer<TestType> together(c.rows * c.pitch);
        q.products.row_scores(rows.all(), q.query.data(), c.queries, together.data(), c.pitch);
        CHECK(all(c.rows, c.queries, [&](std::size_t j, std::size_t h) {
          TestType alone = 0;
          q.products.row_scores(rows.from(j, 1), q.query.data() + h * c.order.query_numbers(), 1,
                                &alone, 1);
          return same_number(alone, together[j * c.pitch + h]);
        }));
        return q.score(kernels, rows);
      });
}

TEMPLATE_TEST_CASE("row_values adds weighted scattered rows, and the weights, query by query",
                   "[rows]", float, double) {
  for_each_size<TestType>(
      [](const auto& kernels, const RowCase& c, const auto& rows, Random& random) {
        const Weights<TestType> before(kernels, c, random);
        Weights<TestType> together = before, alone = before, fresh = before;
        together.add(rows, 0, c.queries);
        for (std::size_t h = 0; h < c.queries; ++h) alone.add(rows, h, 1);
        CHECK(together.same(alone));
        // What is summed is added to what is there, bit for bit.
        for (auto* const numbers : {&fresh.sums, &fresh.totals}) numbers->fill([] { return 0; });
        fresh.add(rows, 0, c.queries);
        for (std::size_t i = 0; i < fresh.sums.size(); ++i) fresh.sums[i] += before.sums[i];
        for (std::size_t h = 0; h < c.queries; ++h) fresh.totals[h] += before.totals[h];
        CHECK(together.same(fresh));
        return before.add_all(rows);
      });
}

namespace {

/// Some rows of softmax on their way, and how row_attend's parts take them on.
template <class Real>
struct Attended {
  Attended(const RowCase& whole, const heed::RowProducts<Real>& of)
      : c(whole),
        products(of),
        row_max(c.queries, heed::kNoRowMax<Real>),
        row_sum(c.queries, 0),
        sums(c.queries * c.order.padded()) {
    sums.fill([] { return 0; });
  }

  void attend(const heed::StoredRows& keys, const heed::StoredRows& values, const Real* query,
              std::size_t turn) {
    products.row_attend(keys, values, query, c.queries, turn, row_max.data(), row_sum.data(),
                        sums.data());
    CHECK(sums.intact());
  }

  /// One turn.
  void attend_in_parts(const Table<Real>& kernels, const heed::StoredRows& keys,
                       const heed::StoredRows& values, const Real* query) {
    const std::size_t lanes = kernels.panels.lanes;
    BasicBuffer<Real> scores(round_up(keys.count * c.pitch, std::max(c.pitch, lanes)));
    scores.fill([] { return 0; });
    products.row_scores(keys, query, c.queries, scores.data(), c.pitch);
    if (c.pitch % lanes == 0 || lanes % c.pitch == 0) {
      kernels.rows.row_probs(keys.count, c.pitch, c.queries, scores.data(), row_max.data(),
                             row_sum.data(), sums.data(), c.order.padded());
      CHECK(all(keys.count * c.pitch,
                [&](std::size_t i) { return i % c.pitch < c.queries || scores[i] == 0; }));
    } else {
      for (std::size_t h = 0; h < c.queries; ++h) weigh(kernels, scores, keys.count, h);
    }
    products.row_values(values, scores.data(), c.pitch, c.queries, sums.data(), row_sum.data());
  }

  /// What row_probs does, step by step.
  void weigh(const Table<Real>& kernels, BasicBuffer<Real>& scores, std::size_t keys,
             std::size_t h) {
    const auto score = [&](std::size_t j) -> Real& { return scores[j * c.pitch + h]; };
    Real most = row_max[h];
    for (std::size_t j = 0; j < keys; ++j) most = score(j) > most ? score(j) : most;
    if (most > row_max[h] + heed::kRescaleThreshold<Real>) {
      most = std::min(most, -heed::kNoRowMax<Real>);
      Real factor = row_max[h] - most;
      kernels.numbers.exp2(&factor, &factor, 1);
      for (std::size_t x = 0; x < c.order.padded(); ++x) sums[h * c.order.padded() + x] *= factor;
      row_sum[h] *= factor;
      row_max[h] = most;
    }
    for (std::size_t j = 0; j < keys; ++j) {
      score(j) = (score(j) == kInf<Real> ? -heed::kNoRowMax<Real> : score(j)) - row_max[h];
      kernels.numbers.exp2(&score(j), &score(j), 1);
    }
  }

  bool same(const Attended& other) const {
    return all(c.queries, c.order.features, [&](std::size_t h, std::size_t x) {
      const std::size_t at = h * c.order.padded() + c.order.place(x);
      return same_number(row_max[h], other.row_max[h]) &&
             same_number(row_sum[h], other.row_sum[h]) && same_number(sums[at], other.sums[at]);
    });
  }

  RowCase c;
  const heed::RowProducts<Real>& products;
  std::vector<Real> row_max, row_sum;
  BasicBuffer<Real> sums;
};

}  // namespace

TEMPLATE_TEST_CASE("row_attend is its parts in turns, however calls divide the rows", "[rows]",
                   float, double) {
  const auto attended = [](bool pairs) {
    std::vector<RowCase> cases;
    for (const RowCase& c : row_sizes<TestType>(pairs))
      if (c.queries <= heed::kAttendQueries) cases.push_back(c);
    return cases;
  };
  for_each_row_case<TestType>(attended, [](const auto& kernels, const RowCase& c, Random& random) {
    constexpr TestType inf = kInf<TestType>;
    const std::size_t turn = heed::StoredRows::kRunRows << random.integer(0, 2);
    for (const TestType special : {TestType{0}, inf, -inf, not_a_number<TestType>()}) {
      // Later keys are larger, so that the maximum moves.
      const std::size_t odd = static_cast<std::size_t>(random.bits() % c.rows);
      const Rows<TestType> keys(kernels, c, [&](std::size_t j, std::size_t x) {
        if (j == odd && x == 0 && special != 0) return special;
        return random.normal<TestType>() * static_cast<TestType>(j + 1) / 4;
      });
      const Rows<TestType> values(
          kernels, c, [&](std::size_t, std::size_t) { return random.normal<TestType>(); });
      const Queries<TestType> q(kernels, c, random);
      Attended<TestType> whole(c, q.products);
      Attended<TestType> divided(c, q.products);
      Attended<TestType> parts(c, q.products);
      whole.attend(keys.all(), values.all(), q.query.data(), turn);
      for (std::size_t j = 0; j < c.rows; j += turn) {
        const std::size_t count = std::min(turn, c.rows - j);
        divided.attend(keys.from(j, count), values.from(j, count), q.query.data(), turn);
        parts.attend_in_parts(kernels, keys.from(j, count), values.from(j, count), q.query.data());
      }
      CHECK(whole.same(divided));
      CHECK(whole.same(parts));
    }
  });
}

TEST_CASE("pairs: a query that is not finite has the scores of rows of its own", "[rows]") {
  std::vector<RowCase> cases;
  for (const std::size_t extra : {0U, 3U, 37U})
    for (const std::size_t queries : {1U, 3U, 4U})
      cases.push_back({heed::ElementType::kI8, extra, 17, queries, false, true, cases.size()});
  for_each_row_pair_case(cases, [](const auto& kernels, const RowCase& c, Random& random) {
    const Rows<float> rows(kernels, c,
                           [&](std::size_t, std::size_t) { return random.normal<float>(); });
    for (const float special : {kInf<float>, -kInf<float>, not_a_number<float>(), 3e38F, 1e-38F}) {
      Queries<float> finite(kernels, c, random);
      auto numbers = finite.numbers;
      const std::size_t last = c.order.features - 1;
      if (special == 1e-38F) std::fill_n(numbers.data(), c.order.features, special);
      numbers[last] = special;  // of the first query
      BasicBuffer<float> scores[2] = {BasicBuffer<float>(c.rows * c.pitch),
                                      BasicBuffer<float>(c.rows * c.pitch)};
      const auto run = [&](const heed::RowProducts<float>& products, auto& query, auto& to) {
        products.row_query(c.type, numbers.data(), c.order.features, 1, query.data());
        products.row_scores(rows.all(), query.data(), c.queries, to.data(), c.pitch);
      };
      Queries<float> plain = finite;
      run(finite.products, finite.query, scores[0]);
      run(kernels.rows, plain.query, scores[1]);
      CHECK(all(c.rows, [&](std::size_t j) {
        return same_number(scores[0][j * c.pitch], scores[1][j * c.pitch]);
      }));
    }
  });
}

TEST_CASE("rows of 8 bits: every code in every lane is its number times the scale", "[rows]") {
  constexpr float scale = 0.75F;  // products with it are exact
  for_each_table<float>([&](const Table<float>& kernels) {
    for (const heed::ElementType type : {heed::ElementType::kI8, heed::ElementType::kF8E4M3})
      for (std::size_t shift = 0; shift < 16; ++shift) {
        constexpr std::size_t kCodes = 256;
        std::vector<std::uint8_t> codes(kCodes);
        const auto code_at = [&](std::size_t x) { return (x + shift) % kCodes; };
        for (std::size_t x = 0; x < kCodes; ++x) codes[x] = static_cast<std::uint8_t>(code_at(x));
        const heed::StoredRows rows = {type,   0,      0, 1,
                                       kCodes, &scale, 1, {{codes.data(), 1, nullptr, 0}}};
        BasicBuffer<float> sums(kCodes);
        sums.fill([] { return 0; });
        float weight = 1;
        float total = 0;
        kernels.rows.row_values(rows, &weight, 1, 1, sums.data(), &total);
        CHECK((total == 1 && sums.intact()));
        CHECK(all(kCodes, [&](std::size_t x) {
          const std::size_t code = code_at(x);
          const double integer = static_cast<double>(code) - (code < 128 ? 0 : 256);
          const double number = type == heed::ElementType::kI8 ? integer : decode(kF8.dtype, code);
          return same_number(sums[x] + 0.0F, static_cast<float>(number * 0.75) + 0.0F);
        }));
      }
  });
}

namespace {

/// How the heads of a row follow each other.
enum class Heads { kSideBySide, kApart, kShared };

struct EdgeCase {
  heed::ElementType type;
  std::size_t heads;
  std::size_t features;
  std::size_t edges;
  Heads layout;
  std::uint64_t seed;
  std::size_t pitch = 0;

  void fit(std::size_t lanes) { pitch = round_up(heads, lanes); }
  std::string line() const {
    const char* const names[] = {"side by side", "apart", "shared"};
    std::ostringstream text;
    text << name_of(type) << " heads " << heads << " features " << features << " edges " << edges
         << " " << names[static_cast<int>(layout)];
    return text.str();
  }
  std::size_t head_stride() const {
    return layout == Heads::kShared ? 0 : features + (layout == Heads::kApart ? 5 : 0);
  }
  std::size_t row_features() const { return (heads - 1) * head_stride() + features; }
};

/// Every power of two that heads are taken in, and what is left of it; features that fill vectors
/// of 64, 32 and 16 bytes.
template <class Real>
std::vector<EdgeCase> edge_sizes() {
  std::vector<EdgeCase> cases;
  std::size_t index = 0;
  for (const heed::ElementType type : stored_types<Real>(false))
    for (const std::size_t heads : {1U, 2U, 3U, 4U, 5U, 8U, 13U, 16U, 24U})
      for (const std::size_t features : {4U, 8U, 12U, 16U, 20U, 32U, 40U, 64U, 80U, 128U, 256U})
        for (const std::size_t edges : {1U, 2U, 3U, 7U, 8U, 9U, 16U, 31U, 32U})
          for (const Heads layout : {Heads::kSideBySide, Heads::kApart, Heads::kShared})
            if (!heed::is_scaled(type) && keep(index++))
              cases.push_back({type, heads, features, edges, layout, index});
  return cases;
}

/// Rows of some nodes, and edges that point at them, some at the same.
template <class Real>
class Edges {
 public:
  Edges(const Table<Real>& kernels, const EdgeCase& c, Random& random)
      : c_(c),
        nodes_(kernels, c.type, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, c.row_features(),
               [&](std::size_t, std::size_t) { return random.normal<Real>(); }) {
    for (std::size_t e = 0; e < c.edges; ++e)
      source_.push_back(static_cast<std::int32_t>(random.integer(0, 10)));
  }

  heed::EdgeRows from(std::size_t edge) const {
    return {c_.type, nodes_.begin(), source_.data() + edge, nodes_.stride(),
            static_cast<std::ptrdiff_t>(c_.head_stride()) * heed::bytes_of(c_.type)};
  }
  Wide<Real> at(std::size_t edge, std::size_t head, std::size_t x) const {
    return nodes_.at(static_cast<std::size_t>(source_[edge]), head * c_.head_stride() + x);
  }

 private:
  EdgeCase c_;
  Stored<Real> nodes_;
  std::vector<std::int32_t> source_;
};

}  // namespace

TEMPLATE_TEST_CASE("edge_scores multiplies gathered rows by queries, each edge and head by itself",
                   "[edges]", float, double) {
  using Real = TestType;
  for_each_case<Real>(edge_sizes<Real>(), [](const auto& kernels, const EdgeCase& c,
                                             Random& random) {
    const Edges<Real> edges(kernels, c, random);
    const auto query = normals<Real>(c.heads * c.features, random);
    const auto before = normals<Real>(c.edges * c.pitch, random);
    const auto score = [&](std::size_t first, std::size_t count, bool fresh, auto& to,
                           std::size_t pitch) {
      kernels.rows.edge_scores(edges.from(first), count, query.data(), c.heads, c.features, fresh,
                               to.data() + first * pitch, pitch);
    };
    BasicBuffer<Real> alone(c.edges * c.heads);
    for (std::size_t e = 0; e < c.edges; ++e) score(e, 1, true, alone, c.heads);
    BasicBuffer<Real> narrow(c.edges * c.heads);  // without lanes that belong to no head
    score(0, c.edges, true, narrow, c.heads);
    CHECK((alone.intact() && same_bits(narrow, alone)));
    auto fresh = before, added = before;
    score(0, c.edges, true, fresh, c.pitch);
    score(0, c.edges, false, added, c.pitch);
    CHECK((fresh.intact() && added.intact()));
    return worst_of(c.edges, c.pitch, [&](std::size_t e, std::size_t h) {
      const std::size_t at = e * c.pitch + h;
      if (h >= c.heads)
        return wrong_unless(same_bits(fresh[at], before[at]) && same_bits(added[at], before[at]));
      if (!same_bits(fresh[at], alone[e * c.heads + h])) return HUGE_VAL;
      Sum<Real> sum, sum_added = {before[at]};
      for (std::size_t x = 0; x < c.features; ++x)
        for (Sum<Real>* const to : {&sum, &sum_added})
          to->add(edges.at(e, h, x), query[h * c.features + x]);
      return std::max(sum.ratio(fresh[at]), sum_added.ratio(added[at]));
    });
  });
}

TEMPLATE_TEST_CASE("activate sums a query and gathered rows, and has the slope where it acts",
                   "[activate]", float, double) {
  using Real = TestType;
  for_each_case<Real>(
      edge_sizes<Real>(), [](const auto& kernels, const EdgeCase& c, Random& random) {
        if (c.type != heed::kTypeOf<Real>) return 0.0;
        const Edges<Real> edges(kernels, c, random);
        const std::size_t width = c.heads * c.features;
        auto query = normals<Real>(2 * width, random);
        std::vector<std::int32_t> index(c.edges);
        for (std::int32_t& of_edge : index)
          of_edge = static_cast<std::int32_t>(random.integer(0, 1));
        index[0] = 0;
        const heed::OwnRows<Real> own = {{query.data(), static_cast<std::ptrdiff_t>(width)},
                                         index.data()};
        query[0] = -static_cast<Real>(edges.at(0, 0, 0));  // a sum of 0
        if (c.seed % 5 == 0) query[1] = random.pick<Real>({kInf<Real>, -kInf<Real>, kMax<Real>});
        if (c.seed % 5 == 1) query[1] = not_a_number<Real>();
        const bool tanh = c.seed % 2 == 0;
        const heed::Activation<Real> act = {tanh, random.pick<Real>({Real{0.2F}, 0, 1, -3})};
        const std::size_t size = c.edges * c.heads * c.features;
        BasicBuffer<Real> values(size), slopes(size), alone(size);
        kernels.rows.activate(edges.from(0), c.edges, own, c.heads, c.features, act, values.data(),
                              slopes.data());
        kernels.rows.activate(edges.from(0), c.edges, own, c.heads, c.features, act, alone.data(),
                              nullptr);
        CHECK((values.intact() && slopes.intact() && alone.intact() && same_bits(values, alone)));
        return worst_of(c.edges * c.heads, c.features, [&](std::size_t row, std::size_t x) {
          const std::size_t h = row % c.heads, at = row * c.features + x;
          const std::size_t e = row / c.heads, at_own = static_cast<std::size_t>(index[e]) * width;
          const Real z = query[at_own + h * c.features + x] + static_cast<Real>(edges.at(e, h, x));
          const Real value = values[at], slope = slopes[at];
          if (std::isnan(z)) return wrong_unless(std::isnan(value) && (!tanh || std::isnan(slope)));
          if (!tanh)
            return wrong_unless(same_bits(slope, z > 0 ? Real{1} : act.slope) &&
                                (same_bits(value, z * slope) || std::isnan(z * slope)));
          if (!same_bits(slope, (1 - value) * (1 + value))) return HUGE_VAL;
          const Wide<Real> exact = std::tanh(static_cast<Wide<Real>>(z));
          if (std::isinf(z) || z == 0) return wrong_unless(value == static_cast<Real>(exact));
          return error_ratio(value, exact, 6 * ulp_of<Real>(exact));
        });
      });
}

// All of float32 up to where it is 1, in the long tests; of either sign, which changes nothing
// else.
TEMPLATE_TEST_CASE("tanh is within 6 ULP wherever it is a normal number", "[activate]", float,
                   double) {
  using Real = TestType;
  using Integer = std::conditional_t<std::is_same_v<Real, float>, std::uint32_t, std::uint64_t>;
  constexpr std::size_t kMost = 4096;
  const Integer last = bits_of(Real{20});
  const bool all_of_them = size_is("full") && std::is_same_v<Real, float>;
  const Integer stride = all_of_them ? 1 : last / static_cast<Integer>(count(2000000)) | 1;
  for_each_table<Real>([&](const Table<Real>& kernels) {
    BasicBuffer<Real> z(kMost), query(kMost), values(kMost);
    query.fill([] { return Real{0}; });
    const std::int32_t source = 0;
    const heed::EdgeRows rows = {heed::kTypeOf<Real>, z.data(), &source, 0, 0};
    double worst = 0;
    Integer next = bits_of(std::numeric_limits<Real>::min());
    for (bool negative = false; next <= last; negative = !negative) {
      for (std::size_t i = 0; i < kMost; ++i, next = next <= last ? next + stride : next)
        z[i] = negative ? -real_of<Real>(next) : real_of<Real>(next);
      kernels.rows.activate(rows, 1, {{query.data(), 0}, &source}, 1, kMost, {true, 0},
                            values.data(), nullptr);
      for (std::size_t i = 0; i < kMost; ++i) {
        const Wide<Real> exact = std::tanh(static_cast<Wide<Real>>(z[i]));
        worst = std::max(worst,
                         static_cast<double>(std::fabs(values[i] - exact) / ulp_of<Real>(exact)));
      }
    }
    CHECK(worst <= 6);
    report("tanh in ULP", kernels.isa, worst);
  });
}

TEMPLATE_TEST_CASE("edge_values adds weighted gathered rows to what is there, head by head",
                   "[edges]", float, double) {
  using Real = TestType;
  for_each_case<Real>(edge_sizes<Real>(),
                      [](const auto& kernels, const EdgeCase& c, Random& random) {
                        const Edges<Real> edges(kernels, c, random);
                        const auto weights = normals<Real>(c.edges * c.pitch, random);
                        const auto before = normals<Real>(c.heads * c.features, random);
                        auto added = before;
                        BasicBuffer<Real> sums(before.size());  // canaries: never read
                        for (auto* const to : {&sums, &added})
                          kernels.rows.edge_values(edges.from(0), c.edges, weights.data(), c.pitch,
                                                   c.heads, c.features, to->data(), to == &sums);
                        CHECK((sums.intact() && added.intact()));
                        return worst_of(c.heads, c.features, [&](std::size_t h, std::size_t x) {
                          const std::size_t at = h * c.features + x;
                          if (!same_bits<Real>(added[at], before[at] + sums[at])) return HUGE_VAL;
                          Sum<Real> sum;
                          for (std::size_t e = 0; e < c.edges; ++e)
                            sum.add(edges.at(e, h, x), weights[e * c.pitch + h]);
                          return sum.ratio(sums[at]);
                        });
                      });
}
