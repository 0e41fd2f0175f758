// argmax: the highest score of each row, and which key has it.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// A row's state before any key: nothing found, at -inf or where softmax starts.
template <class Real>
struct State {
  explicit State(const Case& whole, Real lowest = -kInf<Real>)
      : c(whole),
        best(filled<Real>(c.pitch, [&] { return lowest; })),
        index(filled<Real>(c.pitch, [] { return Real{-1}; })) {}

  /// The definition, for one row and one tile.
  void follow(const BasicBuffer<Real>& scores, std::size_t r) {
    for (std::size_t j = 0; j < c.keys; ++j) {
      const Real score = scores[j * c.pitch + r];
      if (score > best[r]) index[r] = static_cast<Real>(j);
      if (score > best[r] || std::isnan(score)) best[r] = score;
    }
  }

  Case c;
  BasicBuffer<Real> best, index;
};

/// Runs a tile and compares with the definition. What the index is in a row with NaN is nobody's
/// business.
template <class Real>
void check_tile(const Table<Real>& kernels, const BasicBuffer<Real>& scores, State<Real>& state) {
  const Case& c = state.c;
  State<Real> want = state;
  const BasicBuffer<Real> before = scores;
  kernels.panels.argmax(c.vectors, scores.data(), c.keys, state.best.data(), state.index.data());
  CHECK(all(c.pitch, [&](std::size_t r) {
    want.follow(scores, r);
    return same_number(want.best[r], state.best[r]) &&
           (std::isnan(want.best[r]) || same_bits(want.index[r], state.index[r]));
  }));
  CHECK(same_bits(before, scores));
  CHECK((scores.intact() && state.best.intact() && state.index.intact()));
}

}  // namespace

TEMPLATE_TEST_CASE("argmax finds the first of the highest scores, over several tiles", "[argmax]",
                   float, double) {
  constexpr TestType inf = kInf<TestType>;
  for_each_case<TestType>(tiles(), [&](const auto& kernels, const Case& c, Random& random) {
    for (const TestType lowest : {-inf, heed::kNoRowMax<TestType>}) {
      State<TestType> state(c, lowest);
      for (int tile = 0; tile < 4; ++tile) {
        INFO("lowest " << lowest << " tile " << tile);
        // Whole numbers for ties, within a tile and with the best so far.
        const auto scores = filled<TestType>(c.keys * c.pitch, [&] {
          const std::int64_t kind = random.integer(0, 99);
          if (kind == 0 && tile > 1) return inf;
          if (kind < 30) return -inf;
          if (kind < 50) return 4 * random.normal<TestType>();
          return static_cast<TestType>(random.integer(-5, 2 + tile));
        });
        check_tile(kernels, scores, state);
      }
    }
  });
}

TEMPLATE_TEST_CASE(
    "argmax: of equal scores the first stays, 0 of either sign included; none is -inf", "[argmax]",
    float, double) {
  constexpr TestType inf = kInf<TestType>;
  for_each_case<TestType>(panels(0, 9), [](const auto& kernels, const Case& c, Random&) {
    for (const TestType score : {TestType{7}, TestType{0}, TestType{-0.0F}, inf, -inf}) {
      INFO("score " << score);
      State<TestType> state(c);
      const auto scores = filled<TestType>(c.keys * c.pitch, [&](std::size_t i) {
        const std::size_t key = i / c.pitch;
        return key < 2 ? -inf : score == 0 && key > 2 ? -score : score;
      });
      check_tile(kernels, scores, state);
      CHECK(all(c.pitch, [&](std::size_t r) {
        return same_bits(state.best[r], score) && state.index[r] == (score == -inf ? -1 : 2);
      }));
    }
  });
}

TEMPLATE_TEST_CASE("argmax: NaN in one row stays there, whatever follows", "[argmax]", float,
                   double) {
  for_each_case<TestType>(panels(0, 7), [](const auto& kernels, const Case& c, Random& random) {
    for (std::size_t at = 0; at < c.keys * c.pitch; at += small() ? 5 : 1) {
      INFO("key " << at / c.pitch << " row " << at % c.pitch);
      State<TestType> state(c);
      for (int tile = 0; tile < 3; ++tile) {
        auto scores = filled<TestType>(c.keys * c.pitch, [&] {
          return static_cast<TestType>(tile + 1) * random.normal<TestType>();
        });
        if (tile == 0) scores[at] = not_a_number<TestType>();
        if (tile == 2) scores[at] = kInf<TestType>;
        check_tile(kernels, scores, state);
        CHECK(std::isnan(state.best[at % c.pitch]));
      }
    }
  });
}
