// argmax: the highest score of each row so far, and which key has it.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// The definition, for one row and one tile. What `index` is in a row with NaN is nobody's
/// business.
template <class Real>
void follow(const BasicBuffer<Real>& scores, std::size_t keys, std::size_t pitch, std::size_t r,
            Real& best, Real& index) {
  for (std::size_t j = 0; j < keys; ++j) {
    const Real score = scores[j * pitch + r];
    if (std::isnan(score)) best = score;
    if (score > best) {
      best = score;
      index = static_cast<Real>(j);
    }
  }
}

/// A row's state before any key: nothing found, at -inf or where softmax starts.
template <class Real>
struct State {
  State(std::size_t pitch, Real lowest) : best(pitch), index(pitch) {
    best.fill([&] { return lowest; });
    index.fill([] { return Real{-1}; });
  }
  bool intact() const { return best.intact() && index.intact(); }

  BasicBuffer<Real> best, index;
};

/// Runs a tile and compares with the definition.
template <class Real>
void check_tile(const Table<Real>& kernels, const BasicBuffer<Real>& scores, std::size_t keys,
                std::size_t vectors, State<Real>& state) {
  const std::size_t pitch = vectors * kernels.panels.lanes;
  State<Real> want = state;
  for (std::size_t r = 0; r < pitch; ++r)
    follow(scores, keys, pitch, r, want.best[r], want.index[r]);
  const BasicBuffer<Real> before = scores;
  kernels.panels.argmax(vectors, scores.data(), keys, state.best.data(), state.index.data());
  bool right = true;
  for (std::size_t r = 0; r < pitch; ++r)
    right = right && same_number(want.best[r], state.best[r]) &&
            (std::isnan(want.best[r]) || same_bits(want.index[r], state.index[r]));
  CHECK(right);
  CHECK(same_bits(before, scores, 0, scores.size()));
  CHECK((scores.intact() && state.intact()));
}

}  // namespace

TEMPLATE_TEST_CASE("argmax finds the first of the highest scores, over several tiles", "[argmax]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    constexpr TestType inf = kInf<TestType>;
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      for (const TestType lowest : {-inf, heed::kNoRowMax<TestType>}) {
        State<TestType> state(vectors * kernels.panels.lanes, lowest);
        for (int tile = 0; tile < 4; ++tile) {
          INFO("lowest " << lowest << " tile " << tile);
          BasicBuffer<TestType> scores(keys * vectors * kernels.panels.lanes);
          // Whole numbers for ties, within a tile and with the best so far.
          scores.fill([&] {
            const std::int64_t kind = random.integer(0, 99);
            if (kind == 0 && tile > 1) return inf;
            if (kind < 30) return -inf;
            if (kind < 50) return 4 * random.normal<TestType>();
            return static_cast<TestType>(random.integer(-5, 2 + tile));
          });
          check_tile(kernels, scores, keys, vectors, state);
        }
      }
    });
  });
}

TEMPLATE_TEST_CASE("argmax: of equal scores the first stays, 0 of either sign included", "[argmax]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (const TestType score : {TestType{7}, TestType{0}, TestType{-0.0F}, kInf<TestType>}) {
      for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
        INFO("score " << score << " vectors " << vectors);
        const std::size_t pitch = vectors * kernels.panels.lanes;
        State<TestType> state(pitch, -kInf<TestType>);
        BasicBuffer<TestType> scores(9 * pitch);
        for (std::size_t i = 0; i < scores.size(); ++i)
          scores[i] = i / pitch < 2                 ? -kInf<TestType>
                      : score == 0 && i / pitch > 2 ? -score
                                                    : score;
        kernels.panels.argmax(vectors, scores.data(), 9, state.best.data(), state.index.data());
        bool right = true;
        for (std::size_t r = 0; r < pitch; ++r)
          right = right && same_bits(state.best[r], score) && state.index[r] == 2;
        CHECK(right);
      }
    }
  });
}

TEMPLATE_TEST_CASE("argmax never chooses -inf", "[argmax]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      const std::size_t pitch = vectors * kernels.panels.lanes;
      State<TestType> state(pitch, -kInf<TestType>);
      BasicBuffer<TestType> scores(5 * pitch);
      scores.fill([] { return -kInf<TestType>; });
      kernels.panels.argmax(vectors, scores.data(), 5, state.best.data(), state.index.data());
      bool right = true;
      for (std::size_t r = 0; r < pitch; ++r)
        right = right && state.best[r] == -kInf<TestType> && state.index[r] == -1;
      CHECK(right);
    }
  });
}

TEMPLATE_TEST_CASE("argmax: NaN in one row stays there, whatever follows", "[argmax]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      const std::size_t pitch = vectors * kernels.panels.lanes;
      for (std::size_t at = 0; at < 7 * pitch; at += small() ? 5 : 1) {
        INFO("vectors " << vectors << " key " << at / pitch << " row " << at % pitch);
        Random random(at + 1);
        State<TestType> state(pitch, -kInf<TestType>);
        BasicBuffer<TestType> scores(7 * pitch);
        for (int tile = 0; tile < 3; ++tile) {
          scores.fill([&] { return static_cast<TestType>(tile + 1) * random.normal<TestType>(); });
          if (tile == 0) scores[at] = not_a_number<TestType>();
          if (tile == 2) scores[at] = kInf<TestType>;
          check_tile(kernels, scores, 7, vectors, state);
          CHECK(std::isnan(state.best[at % pitch]));
        }
      }
    }
  });
}
