// Scores that are no products, and their gradients: activated_scores and activated_gradient. What
// options do to scores: softcap, alibi, add_rows, mask_rows and mask, and argmax, which chooses
// among them. Each score and row follows its definition in a wider type, among numbers of any kind.
#include "tests/kernels/support.hpp"
#include "tests/oracle/activation.hpp"

using namespace heed_test;

namespace {

/// Of ten numbers three are whole, so that sums are exact and scores equal, and one is special.
template <class Real>
Real any_score(Random& random) {
  static const std::vector<Real> special = {0,           Real{-0.0F},    kMax<Real>,
                                            -kMax<Real>, kMax<Real> / 2, -kMax<Real> / 2,
                                            kInf<Real>,  -kInf<Real>,    not_a_number<Real>()};
  const std::int64_t kind = random.integer(0, 9);
  if (kind == 0) return random.pick(special);
  return kind < 4 ? static_cast<Real>(random.integer(-9, 9)) : 20 * random.normal<Real>();
}

/// Whether a number of a wider type is a Real.
template <class Real>
bool is_real(Wide<Real> x) {
  return static_cast<Wide<Real>>(static_cast<Real>(x)) == x;
}

/// Queries among the keys, before and after them, and as far away as whole numbers go.
template <class Real>
Real position_of(std::size_t row, std::size_t keys, Random& random) {
  const auto limit = static_cast<std::int64_t>(2 / std::numeric_limits<Real>::epsilon());
  if (row % 7 == 3) return -static_cast<Real>(random.integer(1, 5000));
  if (row % 7 == 4) return static_cast<Real>(random.integer(1000, 1000000));
  if (row % 7 == 5) return static_cast<Real>(random.integer(-limit, limit));
  return static_cast<Real>(random.integer(0, static_cast<std::int64_t>(keys)));
}

/// Positive as in the paper, a power of two, 0, or negative.
template <class Real>
Real slope_of(std::size_t row, Random& random) {
  if (row % 5 == 2) return std::ldexp(Real{1}, static_cast<int>(random.integer(-8, 0)));
  if (row % 5 == 4) return 0;
  return static_cast<Real>(row % 5 == 3 ? -random.unit() : random.unit());
}

/// Rows of keys, each at the very end of an allocation of its own and so at any alignment: an
/// AddressSanitizer sees who reads past it. Some rows are the same.
template <class Element>
class KeyRows {
 public:
  template <class Next>
  KeyRows(std::size_t row_count, std::size_t keys, Next&& next) {
    for (std::size_t r = 0; r < row_count; ++r) {
      const std::size_t before = (5 * r + keys) % 16;
      storage_.emplace_back(before + keys);
      std::generate(storage_[r].begin() + static_cast<std::ptrdiff_t>(before), storage_[r].end(),
                    next);
      pointers_.push_back(r % 4 == 3 ? pointers_[r - 2] : storage_[r].data() + before);
    }
  }

  const Element* const* data() const { return pointers_.data(); }
  Element at(std::size_t r, std::size_t j) const { return pointers_[r][j]; }

 private:
  std::vector<std::vector<Element>> storage_;
  std::vector<const Element*> pointers_;  // exactly row_count of them
};

/// Bounds of every kind: none, all, before the first key, past the end, and each number between.
template <class Real>
Real bound_of(std::size_t kind, std::size_t keys, Random& random) {
  if (kind % 5 == 0) return 0;
  if (kind % 5 == 1) return static_cast<Real>(keys);
  if (kind % 5 == 2) return static_cast<Real>(keys + 100);
  if (kind % 5 == 3) return -static_cast<Real>(random.integer(1, 1000000));
  return static_cast<Real>(random.integer(0, static_cast<std::int64_t>(keys)));
}

/// Whether a score is what a mask leaves: the same bits, or -inf.
template <class Real>
double check_masked(Real before, Real after, bool kept) {
  return wrong_unless(same_bits(after, kept ? before : -kInf<Real>));
}

/// Of a sum, what is finite and past the largest number stays finite, and below what stands for
/// +inf.
template <class Real>
Wide<Real> held(Wide<Real> x, bool finite) {
  if (!finite || !std::isinf(static_cast<Real>(x))) return x;
  return x < 0 ? -kMax<Real> : std::nextafter(kMax<Real>, Real{0});
}

/// The score sees one rounding, the addend that of its product and the sum; where the product is
/// exact, the sum is rounded once.
template <class Real>
double check_added(Real before, Real after, Real addend, Real factor) {
  if (addend == -kInf<Real>) return wrong_unless(same_bits(after, addend));
  if (!std::isfinite(factor)) return 0;
  const bool finite = std::isfinite(addend);
  const Wide<Real> score = before;
  const Wide<Real> product = held<Real>(static_cast<Wide<Real>>(addend) * factor, finite);
  const Wide<Real> sum = held<Real>(score + product, finite && std::isfinite(before));
  if (is_real<Real>(product) && is_real<Real>(sum))
    return wrong_unless(after == static_cast<Real>(sum));
  return error_ratio<Real>(after, sum,
                           gamma_of<Real>(1) * std::fabs(score) +
                               gamma_of<Real>(2) * std::fabs(product) + kUnderflowOf<Real>);
}

constexpr long double kHalfLn2 = 0.346573590279972654708616060729088284L;

/// Error / bound, which is 4 ULP of factor * tanh(x) of t as given: x = t / (2 log2(e)) is rounded
/// to the wider type alone. Where tanh(x) itself is subnormal, an ULP is the spacing of subnormals,
/// times the factor that follows. Infinities, 0 and NaN have no error.
template <class Real>
double check_capped(Real t, Real factor, Real got) {
  const Wide<Real> exact = factor * std::tanh(t * static_cast<Wide<Real>>(kHalfLn2));
  if (std::isinf(t) || t == 0) return wrong_unless(got == exact);
  const Wide<Real> ulp = std::max(ulp_of<Real>(exact), factor * ulp_of<Real>(0));
  return error_ratio(got, exact, 4 * ulp);
}

/// Of any magnitude, subnormal numbers included, and most of them where a cap bends.
template <class Real>
Real any_magnitude(Random& random) {
  const std::int64_t kind = random.integer(0, 7);
  if (kind == 0) return any_score<Real>(random);
  if (kind < 5) {
    const double range = kind < 2 ? 1 : kind < 4 ? 8 : 150;
    return static_cast<Real>((2 * random.unit() - 1) * range);
  }
  const int lowest = kSmallestExponentOf<Real> - std::numeric_limits<Real>::digits;
  const int highest = std::numeric_limits<Real>::max_exponent - 1;
  const auto mantissa = static_cast<Real>(1 + random.unit());
  return std::ldexp(
      random.integer(0, 1) == 0 ? mantissa : -mantissa,
      static_cast<int>(kind == 5 ? random.integer(-64, 8) : random.integer(lowest, highest)));
}

/// A panel of queries and weights of features, its keys, and act().
template <class Real>
struct ActivatedScores {
  ActivatedScores(const Case& c, Random& random)
      : pitch(c.pitch),
        query(normals<Real>(c.features * c.pitch, random)),
        weights(normals<Real>(c.features * c.pitch, random)),
        key(c.keys, c.features, c.unit, random, 1),
        activation(static_cast<std::uint32_t>(random.integer(0, 2))),
        slope(activation == HEED_ACTIVATION_LEAKY_RELU ? 0.2 : 0),
        act(activation, slope),
        panel{query.data(),
              weights.data(),
              c.features,
              {activation == HEED_ACTIVATION_TANH,
               activation == HEED_ACTIVATION_LEAKY_RELU ? static_cast<Real>(slope) : Real{1}}} {}

  using Number = Bounded<Wide<Real>>;
  Number weight(std::size_t x, std::size_t r) const {
    return exact<Wide<Real>>(weights[x * pitch + r]);
  }
  /// What act() is of.
  Number sum_of(std::size_t x, std::size_t j, std::size_t r) const {
    return sum<Real>(exact<Wide<Real>>(query[x * pitch + r]), exact<Wide<Real>>(key.at(j, x)));
  }

  std::size_t pitch;
  BasicBuffer<Real> query, weights;
  Matrix<Real> key;
  std::uint32_t activation;
  double slope;
  OracleActivation<Real> act;
  heed::ActivatedPanel<Real> panel;
};

/// Error / bound of a sum, and of what was there, 1.
template <class Real>
double check_sum(BoundedSum<Real> sum, Real got, bool grows = false) {
  if (grows) sum.add(exact<Wide<Real>>(1));
  const auto want = sum.result(1);
  return error_ratio<Real>(got, want.value, want.bound);
}

}  // namespace

TEMPLATE_TEST_CASE("activated_scores sums weights of features times act(query + key)",
                   "[activated]", float, double) {
  using Real = TestType;
  for_each_case<Real>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const ActivatedScores<Real> of(c, random);
    const heed::KeyRanges needed = draw_ranges(c.keys, c.vectors, random);
    return change_scores<Real>(
        c, [] { return Real{1}; },
        [&](Real* scores) {
          kernels.panels.activated_scores(c.vectors, of.key.rows(), needed, of.panel, scores);
        },
        [&](Real, Real after, std::size_t j, std::size_t r) {
          if (!needs(needed, r / kernels.panels.lanes, j)) return wrong_unless(after == 1);
          BoundedSum<Real> score;
          for (std::size_t x = 0; x < c.features; ++x)
            score.add(product<Real>(of.weight(x, r), of.act.value(of.sum_of(x, j, r))));
          return check_sum(score, after);
        },
        of.query, of.weights);
  });
}

// A gradient of 0 adds nothing, though its query is NaN and its weight infinite.
TEMPLATE_TEST_CASE("activated_gradient adds what queries, weights and keys have of scores",
                   "[activated]", float, double) {
  using Real = TestType;
  for_each_case<Real>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    ActivatedScores<Real> of(c, random);
    const auto gradients = filled<Real>(c.keys * c.pitch, [&](std::size_t i) {
      return i % c.pitch == 0 || random.integer(0, 3) == 0 ? Real{0} : random.normal<Real>();
    });
    of.query[0] = not_a_number<Real>();
    of.weights[0] = kInf<Real>;
    const auto ones = [](std::size_t count) { return filled<Real>(count, [] { return Real{1}; }); };
    auto query = ones(c.features * c.pitch);
    auto weights = ones(c.features * c.pitch);
    auto key = ones(c.keys * (c.features + 3));
    kernels.panels.activated_gradient(c.vectors, of.key.rows(), c.keys, of.panel, gradients.data(),
                                      {query.data(), weights.data(), key.data(), c.features + 3});
    CHECK((query.intact() && weights.intact() && key.intact() && gradients.intact()));
    std::vector<BoundedSum<Real>> of_key(c.keys);
    double worst = 0;
    for (std::size_t x = 0; x < c.features; ++x) {
      of_key.assign(c.keys, BoundedSum<Real>());
      for (std::size_t r = 0; r < c.pitch; ++r) {
        BoundedSum<Real> of_query, of_weight;
        for (std::size_t j = 0; j < c.keys; ++j) {
          const auto gradient = exact<Wide<Real>>(gradients[j * c.pitch + r]);
          if (gradient.value == 0) continue;
          const auto z = of.sum_of(x, j, r);
          const auto moved =
              product<Real>(product<Real>(gradient, of.act.slope(z)), of.weight(x, r));
          of_query.add(moved);
          of_weight.add(product<Real>(gradient, of.act.value(z)));
          of_key[j].add(moved);
        }
        worst = std::max({worst, check_sum(of_query, query[x * c.pitch + r], true),
                          check_sum(of_weight, weights[x * c.pitch + r], true)});
      }
      for (std::size_t j = 0; j < c.keys; ++j)
        worst = std::max(worst, check_sum(of_key[j], key[j * (c.features + 3) + x], true));
    }
    for (std::size_t j = 0; j < c.keys; ++j)
      for (std::size_t x = c.features; x < c.features + 3; ++x)
        worst = std::max(worst, wrong_unless(key[j * (c.features + 3) + x] == 1));
    return worst;
  });
}

// As accurate next to 0, where exp2(t) is next to 1, as where it saturates.
TEMPLATE_TEST_CASE("softcap is within 4 ULP of factor * tanh(x)", "[softcap]", float, double) {
  // As models have them, in log2 units, and a few that nobody has.
  const TestType factors[] = {1, static_cast<TestType>(30 * kLog2E),
                              static_cast<TestType>(50 * kLog2E), TestType(0.01F), 12345};
  std::vector<Case> cases = tiles();
  cases.push_back({3, 0, count(5000), true, 1});
  for_each_case<TestType>(cases, [&](const auto& kernels, const Case& c, Random& random) {
    double worst = 0;
    for (const TestType factor : factors)
      worst = std::max(worst, change_scores<TestType>(
                                  c, [&] { return any_magnitude<TestType>(random); },
                                  [&](TestType* scores) {
                                    kernels.panels.softcap(c.vectors, scores, c.keys, factor);
                                  },
                                  [&](TestType before, TestType after, std::size_t, std::size_t) {
                                    return check_capped(before, factor, after);
                                  }));
    return worst;
  });
}

// The score sees one rounding, the bias that of its product and the sum, and of the distance where
// that is not a Real. Nothing is rounded where nothing has to be.
TEMPLATE_TEST_CASE("alibi takes slope times distance off every score", "[alibi]", float, double) {
  using Real = TestType;
  for_each_case<Real>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    const auto position =
        filled<Real>(c.pitch, [&](std::size_t r) { return position_of<Real>(r, c.keys, random); });
    const auto slope =
        filled<Real>(c.pitch, [&](std::size_t r) { return slope_of<Real>(r, random); });
    return change_scores<Real>(
        c, [&] { return any_score<Real>(random); },
        [&](Real* scores) {
          kernels.panels.alibi(c.vectors, scores, c.keys, position.data(), slope.data());
        },
        [&](Real before, Real after, std::size_t j, std::size_t r) {
          if (slope[r] == 0 && !std::isnan(before)) return wrong_unless(before == after);
          const Wide<Real> score = before;
          const Wide<Real> distance =
              std::fabs(static_cast<Wide<Real>>(position[r]) - static_cast<Wide<Real>>(j));
          const Wide<Real> bias = slope[r] * distance;
          const bool whole = is_real<Real>(distance);
          if (whole && is_real<Real>(bias) && is_real<Real>(score - bias))
            return wrong_unless(after == score - bias);
          return error_ratio<Real>(after, score - bias,
                                   gamma_of<Real>(1) * std::fabs(score) +
                                       gamma_of<Real>(whole ? 2 : 3) * std::fabs(bias) +
                                       kUnderflowOf<Real>);
        },
        position, slope);
  });
}

TEMPLATE_TEST_CASE(
    "add_rows adds rows times a factor: -inf masks, and what is finite stays it, where rows are",
    "[add_rows]", float, double) {
  using Real = TestType;
  const std::vector<Real> factors = {
      static_cast<Real>(kLog2E), 1, Real(0.25F), Real(0.3F), 7, 0, kInf<Real>,
      not_a_number<Real>()};
  for_each_case<Real>(tiles(), [&](const auto& kernels, const Case& c, Random& random) {
    const auto next = [&] { return any_score<Real>(random); };
    double worst = 0;
    for (const Real factor : factors)
      for (const std::size_t rows : row_counts(c)) {
        INFO(rows << " rows, factor " << factor);
        const KeyRows<Real> addends(rows, c.keys, next);
        const double ratio = change_scores<Real>(
            c, next,
            [&](Real* scores) {
              kernels.panels.add_rows(c.vectors, scores, c.keys, addends.data(), rows, factor);
            },
            [&](Real before, Real after, std::size_t j, std::size_t r) {
              return r < rows ? check_added(before, after, addends.at(r, j), factor)
                              : wrong_unless(same_number(before, after));
            });
        CHECK(ratio <= 1);
        worst = std::max(worst, ratio);
      }
    return worst;
  });
}

TEMPLATE_TEST_CASE("lay_rows leaves what add_rows adds, and tells whether it may overflow sums",
                   "[add_rows]", float, double) {
  using Real = TestType;
  for_each_case<Real>(tiles(), [&](const auto& kernels, const Case& c, Random& random) {
    const bool near = random.integer(0, 1) == 1;
    const auto next = [&] {
      if (near && random.integer(0, 9) == 0) return -kInf<Real>;
      return near ? random.normal<Real>() : any_score<Real>(random);
    };
    double worst = 0;
    for (const std::size_t rows : row_counts(c)) {
      INFO(rows << " rows");
      const auto factor = random.pick<Real>({static_cast<Real>(kLog2E), 1, Real(0.3F), 0});
      const KeyRows<Real> addends(rows, c.keys, next);
      bool fits = false;
      const double ratio = change_scores<Real>(
          c, next,
          [&](Real* to) {
            fits = kernels.panels.lay_rows(c.vectors, to, c.keys, addends.data(), rows, factor);
          },
          [&](Real, Real after, std::size_t j, std::size_t r) {
            if (!fits) return 0.0;
            if (r >= rows) return wrong_unless(same_bits(after, Real(-0.0F)));
            // Half an ULP of the largest number does not move it.
            if (std::fabs(after) > kMax<Real> * std::numeric_limits<Real>::epsilon() / 4)
              return wrong_unless(after == -kInf<Real> && addends.at(r, j) == after);
            return check_added(Real(-0.0F), after, addends.at(r, j), factor);
          });
      CHECK(ratio <= 1);
      CHECK((fits || !near || factor == 0));
      worst = std::max(worst, ratio);
    }
    return worst;
  });
}

TEMPLATE_TEST_CASE("mask_rows excludes a key where the row's byte is 0", "[mask_rows]", float,
                   double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const auto count =
        static_cast<std::size_t>(random.integer(1, static_cast<std::int64_t>(c.pitch)));
    // Half of them 0, the others any.
    const KeyRows<std::uint8_t> rows(count, c.keys, [&] {
      return static_cast<std::uint8_t>(random.integer(0, 1) * random.integer(1, 255));
    });
    const bool fresh = random.integer(0, 1) == 1;
    return change_scores<TestType>(
        c, [&] { return any_score<TestType>(random); },
        [&](TestType* scores) {
          kernels.panels.mask_rows(c.vectors, scores, c.keys, rows.data(), count, fresh);
        },
        [&](TestType before, TestType after, std::size_t j, std::size_t r) {
          return check_masked(fresh ? 0 : before, after, r >= count || rows.at(r, j) != 0);
        });
  });
}

TEMPLATE_TEST_CASE("mask excludes the keys before each row's first and from its limit on", "[mask]",
                   float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const auto limit = filled<TestType>(
        c.pitch, [&](std::size_t r) { return bound_of<TestType>(r, c.keys, random); });
    // Every pair of kinds: empty ranges, and whole ones.
    const auto first = filled<TestType>(c.pitch, [&](std::size_t r) {
      return r % 11 == 10 ? limit[r] : bound_of<TestType>(c.features + r / 5, c.keys, random);
    });
    return change_scores<TestType>(
        c, [&] { return any_score<TestType>(random); },
        [&](TestType* scores) {
          kernels.panels.mask(c.vectors, scores, c.keys, first.data(), limit.data());
        },
        [&](TestType before, TestType after, std::size_t j, std::size_t r) {
          const auto key = static_cast<TestType>(j);
          return check_masked(before, after, first[r] <= key && key < limit[r]);
        },
        first, limit);
  });
}

// What the index is in a row with NaN is nobody's business. The first tiles are without NaN and
// +inf, which nothing exceeds.
TEMPLATE_TEST_CASE("argmax finds the first of the highest scores, over several tiles", "[argmax]",
                   float, double) {
  for_each_case<TestType>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    for (const TestType lowest : {-kInf<TestType>, heed::kNoRowMax<TestType>}) {
      auto best = filled<TestType>(c.pitch, [&] { return lowest; });
      auto index = filled<TestType>(c.pitch, [] { return TestType{-1}; });
      auto want_best = best, want_index = index;
      for (int tile = 0; tile < 5; ++tile) {
        INFO("lowest " << lowest << " tile " << tile);
        const auto scores = filled<TestType>(c.keys * c.pitch, [&] {
          // Whole numbers for ties, within a tile and with the best so far; 0 of either sign is
          // one.
          const std::int64_t kind = random.integer(0, 99);
          if (kind == 0 && tile > 2) return any_score<TestType>(random);
          if (kind < 30) return -kInf<TestType>;
          if (kind < 50) return 4 * random.normal<TestType>() + static_cast<TestType>(tile - 12);
          const auto whole = static_cast<TestType>(random.integer(-9, tile - 2));
          return whole == 0 && kind % 2 == 0 ? -whole : whole;
        });
        const auto before = scores;
        kernels.panels.argmax(c.vectors, scores.data(), c.keys, best.data(), index.data());
        CHECK(all(c.pitch, [&](std::size_t r) {
          for (std::size_t j = 0; j < c.keys; ++j) {
            const TestType score = scores[j * c.pitch + r];
            if (score > want_best[r]) want_index[r] = static_cast<TestType>(j);
            if (score > want_best[r] || std::isnan(score)) want_best[r] = score;
          }
          return same_number(want_best[r], best[r]) &&
                 (std::isnan(best[r]) || same_bits(want_index[r], index[r]));
        }));
        CHECK((same_bits(before, scores) && scores.intact() && best.intact() && index.intact()));
      }
    }
  });
}
