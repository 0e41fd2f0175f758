// Attention over ranks is attention in one process.
#include "tests/mpi/cases.hpp"

using namespace heed_test;

namespace {

/// Small sweeps keep every seventh split, of another kind for each problem.
bool keep_of_small(std::size_t index) { return !small() || index % 7 == 0; }

}  // namespace

TEST_CASE("every option, split every way, around the ring and over heads") {
  std::uint64_t seed = 0;
  std::size_t index = 0;
  for (const Case& c : cases()) {
    INFO(c.name);
    Problem p = made(c, ++seed);
    const Expected expected = p.expected_all();
    for (const Split& split : all_splits(p.query.shape()[2], p.key.shape()[2], seed)) {
      if (!keep_of_small(index++)) continue;
      const bool one =
          split.placement == HEED_MPI_CONTIGUOUS && ranks() == 1 && p.cu_seqlens_q.empty();
      check_ranks(p, expected, split, split.everywhere ? 0 : 1, one);
      for (std::int64_t by = 2; by <= ranks() && !split.everywhere; ++by)
        if (heads_may_be_shared(p, by))
          check_ranks(p, expected, split, by, by == ranks() && p.cu_seqlens_q.empty());
    }
  }
}

TEST_CASE("the plan's own choice") {
  std::size_t index = 0;
  for (const Case& c : cases()) {
    if (!keep_of_small(index++)) continue;
    INFO(c.name);
    Problem p = made(c, 5);
    check_ranks(p, p.expected_all(),
                even_split(HEED_MPI_ZIGZAG, p.query.shape()[2], p.key.shape()[2]), 0, false);
  }
}

TEST_CASE("masks and biases of packed rows") {
  TwoWords p = packed_and_masked(6);
  const Expected expected = p.masked.expected_all();
  for (const Split& split : all_splits(60, 64, 6)) {
    Shard shard(p.packed, split);
    check_shard(p.masked, expected, shard, split, split.everywhere ? 0 : 1);
    for (std::int64_t by = 2; by <= ranks() && !split.everywhere; ++by)
      if (heads_may_be_shared(p.packed, by)) check_shard(p.masked, expected, shard, split, by);
  }
}

TEST_CASE("more rows than a slice has") {
  Problem p = made({"", causal({2500, 2500, 8, 8, 1, 1, 1}, HEED_CAUSAL_TOP_LEFT)}, 3);
  check_ranks(p, p.expected_all(), even_split(HEED_MPI_ZIGZAG, 2500, 2500), 1, false);
}

TEST_CASE("NaN in keys and values that a row may not attend does not reach it") {
  Problem p = made({"", causal({77, 77, 16, 16, 1, 2, 2}, HEED_CAUSAL_TOP_LEFT)}, 4);
  for (Tensor* const tensor : {&p.key, &p.value})
    tensor->set_where([](const Axes& at) { return at[2] >= 70; }, kNaN);
  for (const std::uint32_t placement : {HEED_MPI_CONTIGUOUS, HEED_MPI_ZIGZAG})
    check_ranks(p, p.expected_all(), even_split(placement, 77, 77), 1, false);
}
