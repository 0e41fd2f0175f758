// Dropout of weights: the generator, how often pairs fall and how independently, and the mask that
// a call shows. That results are right beside all other options, also gradients, the sweeps say.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/oracle/dropout.hpp"
#include "tests/problem/attention.hpp"

using namespace heed_test;

namespace {

constexpr std::uint64_t kSeed = 0x123456789abcdef0, kOffset = 77;

std::vector<std::uint8_t> mask_of(double dropout, Index batch, Index head, Index row, Index keys,
                                  Index first = 0) {
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(keys), 9);
  REQUIRE(heed_dropout_mask(dropout, kSeed, kOffset, batch, head, row, first, keys, kept.data()) ==
          HEED_STATUS_OK);
  return kept;
}

/// Of n trials of probability p; six standard deviations, which chance reaches once in 10^9.
bool is_binomial(double hits, double n, double p) {
  return std::fabs(hits - n * p) <= 6 * std::sqrt(n * p * (1 - p));
}

/// One feature for each key: out is a row of weights that dropout has seen.
Problem shown(std::uint32_t dtype, Index rows, Index keys) {
  Sizes sizes = {rows, keys, 8, keys, 2, 4, 2};
  sizes.types = {dtype, dtype, dtype, dtype};
  Problem p(sizes);
  p.fill(1);
  p.value.fill([](const Axes& at) { return at[2] == at[3] ? 1.0 : 0.0; });
  p.desc.dropout = 0.3;
  p.dropout_seed = kSeed;
  p.dropout_offset = kOffset;
  return p;
}

}  // namespace

// Random123's known answers.
TEST_CASE("the oracle's generator is Philox4x32-10", "[dropout]") {
  constexpr std::uint32_t kOnes = 0xffffffffU;
  CHECK(philox4x32_10({0, 0, 0, 0}, 0, 0) ==
        PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, kOnes, kOnes) ==
        PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0) ==
        PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("heed_dropout_mask is what its description says, from any key on", "[dropout]") {
  for (const double dropout : {0.0, 1e-9, 0.1, 0.5, 0.999})
    for (const Index first : {0, 1, 15, 16, 1000003}) {
      const auto kept = mask_of(dropout, 3, 2, 70000, 100, first);
      for (std::size_t j = 0; j < kept.size(); ++j)
        CHECK(kept[j] != static_cast<std::uint8_t>(is_dropped(dropout, kSeed, kOffset, 3, 2, 70000,
                                                              first + static_cast<Index>(j))));
    }
}

TEST_CASE("pairs fall as often as asked, and no pair tells of another", "[dropout]") {
  constexpr Index kRows = 64, kKeys = 4096, kHeads = 4;
  const double p = std::round(0.1 * 256) / 256;
  const double all = double{kRows} * kKeys * kHeads;
  double dropped = 0, with_key = 0, with_row = 0, with_head = 0;
  std::vector<double> by_key(16);
  std::vector<std::vector<std::uint8_t>> heads;
  for (Index row = 0; row < kRows; ++row) {
    std::vector<std::uint8_t> before;
    for (Index head = 0; head < kHeads; ++head) {
      const auto kept = mask_of(0.1, 0, head, row, kKeys);
      const auto above = mask_of(0.1, 0, head, row + 1, kKeys);
      for (std::size_t j = 0; j < kept.size(); ++j) {
        const bool falls = kept[j] == 0;
        dropped += falls;
        by_key[j % 16] += falls;
        with_key += falls && kept[(j + 1) % kept.size()] == 0;
        with_row += falls && above[j] == 0;
        with_head += falls && !before.empty() && before[j] == 0;
      }
      before = kept;
    }
  }
  CHECK(is_binomial(dropped, all, p));
  for (const double of : by_key) CHECK(is_binomial(of, all / 16, p));
  CHECK(is_binomial(with_key, all, p * p));
  CHECK(is_binomial(with_row, all, p * p));
  CHECK(is_binomial(with_head, all * (kHeads - 1) / kHeads, p * p));
}

TEST_CASE("a call drops the pairs of the mask, few rows or many, on every instruction set",
          "[dropout]") {
  // Of a problem of its own, and of a part of a larger one, whose first key shares a counter.
  const std::vector<std::int64_t> origins[] = {{0, 0, 0, 0}, {3, 5, 1000003, 70021}};
  for (const Index rows : {1, 3, 50})
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16})
      for (const char* const isa : isa_names()) {
        const auto& first = origins[rows == 3 || dtype == HEED_DTYPE_F32 ? 1 : 0];
        INFO(isa << ", rows " << rows << ", type " << dtype << ", first key " << first[3]);
        Problem p = shown(dtype, rows, 200);
        if (first[3] > 0) p.dropout_origin = first;
        p.run_all(isa);
        p.out.each([&](const Axes& at) {
          const bool falls = is_dropped(0.3, kSeed, kOffset, first[0] + at[0], first[1] + at[1],
                                        first[2] + at[2], first[3] + at[3]);
          if ((p.out.get(at) == 0) != falls)
            FAIL("batch " << at[0] << " head " << at[1] << " row " << at[2] << " key " << at[3]);
        });
      }
}

TEST_CASE("a dropout that keeps nothing of a row leaves 0, and its lse", "[dropout]") {
  Problem p(Sizes{40, 1, 8, 8, 1, 1, 1});
  p.fill(2);
  p.desc.dropout = 0.999;
  p.want_lse();
  for (const char* const isa : isa_names()) {
    p.run_all(isa);
    std::size_t zeros = 0;
    for (Index i = 0; i < 40; ++i) {
      const bool falls = is_dropped(0.999, 0, 0, 0, 0, i, 0);
      zeros += falls ? 1 : 0;
      if (falls) CHECK(p.out.get({0, 0, i, 0}) == 0);
      CHECK(std::isfinite(p.lse->get({0, 0, i, 0})));
    }
    CHECK(zeros > 35);
  }
}
