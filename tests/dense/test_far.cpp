// Offsets and windows as far away as their type goes.
#include "tests/dense/kinds.hpp"
#include "tests/support/isas.hpp"

using namespace heed_test;

namespace {

/// Distances about which something rounds, clamps or wraps.
const std::vector<Index>& far() {
  static const std::vector<Index> all = {0,
                                         2,
                                         Index{1} << 24,
                                         (Index{1} << 31) - 1,
                                         Index{1} << 41,
                                         Index{1} << 42,
                                         (Index{1} << 53) + 1,
                                         Index{1} << 62,
                                         INT64_MAX - 3,
                                         INT64_MAX};
  return all;
}

std::vector<Index> offsets() {
  std::vector<Index> all;
  for (const Index distance : far()) {
    all.push_back(distance);
    all.push_back(-distance);
  }
  all.push_back(INT64_MIN);
  return all;
}

void align(Problem& p, Index offset) {
  p.desc.alignment = HEED_ALIGNMENT_OFFSET;
  p.desc.alignment_offset = offset;
}

}  // namespace

TEST_CASE("a window far away leaves the keys that it says", "[far]") {
  struct Case {
    bool causal;
    Index offset, left, right, first, end;
  };
  const Index far = Index{1} << 42;
  for (const Case& c : {Case{true, far, far - 2, -1, 2, 4}, Case{false, -far, -1, far + 1, 0, 2},
                        Case{false, INT64_MIN, -1, INT64_MAX, 0, 0},
                        Case{false, INT64_MIN + 1, -1, INT64_MAX, 0, 1},
                        Case{false, INT64_MAX, INT64_MAX, -1, 0, 4},
                        Case{false, INT64_MAX, INT64_MAX - 3, -1, 3, 4}}) {
    Problem p = filled(sizes_of(1, 4), 61);
    set_window(p, c.left, c.right, c.offset);
    if (c.causal) {
      std::swap(p.desc.causal, p.desc.alignment);
      std::swap(p.desc.causal_offset, p.desc.alignment_offset);
    }
    p.want_weights(HEED_WEIGHTS_PROBABILITIES);
    on_every_isa(p, [&](const Outputs& got) {
      for (Index j = 0; j < 4; ++j)
        CHECK((got.weights[static_cast<std::size_t>(j)] > 0) == (j >= c.first && j < c.end));
    });
  }
}

TEST_CASE("weights of more keys than a thread keeps", "[far]") {
  // 4 MiB hold the probabilities of 21845 keys on AVX-512, 43690 on AVX2, 87381 on SSE2. Scores
  // that grow move row_max in between.
  for (const Index keys : {21845, 21846, 90000}) {
    const auto are_more = [=](Index lanes) { return keys > (Index{1} << 20) / 3 / lanes; };
    if (brief() && !any_lanes(are_more)) continue;
    Problem p = filled({9, keys, 1, 1}, 63);
    p.key.fill([](const Axes& at) { return static_cast<double>(at[2] % 30000) / 1000; });
    p.want_weights(HEED_WEIGHTS_PROBABILITIES);
    check_problem(p);
    if (brief()) break;
  }
}

TEST_CASE("ALiBi over distances that float64 tells apart", "[far][alibi]") {
  Report report("far slopes");
  const Types float64 = all_of(HEED_DTYPE_F64);
  for (const Index distance : {Index{1} << 41, Index{1} << 42, (Index{1} << 52) + 5})
    for (const Index offset : {distance, -distance}) {
      Problem p = filled(sizes_of(5, 150, float64), 62);
      align(p, offset);
      p.slopes.numbers = {std::ldexp(1.0, -40)};
      p.sinks.numbers = {-1};
      want_all(p, HEED_WEIGHTS_MASKED);
      check_problem(p, &report);
    }
}

TEST_CASE("ALiBi over distances that are rounded", "[far][alibi]") {
  for (const bool float64 : {false, true})
    for (const Index offset : offsets()) {
      Problem p(sizes_of(5, 140, float64 ? all_of(HEED_DTYPE_F64) : Types{}));
      p.query.fill([] { return 0; });
      p.key.fill([] { return 1; });
      p.value.fill([] { return 1; });
      align(p, offset);
      const double slope = std::ldexp(1.0, -30);
      p.slopes.numbers = {slope};
      p.want_weights(HEED_WEIGHTS_MASKED);
      on_every_isa(p, [&](const Outputs& got) {
        double worst = 0;
        for (Index i = 0; i < 5; ++i)
          for (Index j = 0; j < 140; ++j) {
            const double far = std::fabs(static_cast<double>(offset) + static_cast<double>(i - j));
            const double score = got.weights[static_cast<std::size_t>(i * 140 + j)];
            worst = std::max(worst, std::fabs(score / slope + far) / std::max(far, 1.0));
          }
        CHECK(worst <= std::ldexp(1.0, float64 ? -50 : -21));
      });
    }
}
