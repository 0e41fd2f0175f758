// Gradients over ranks are those of one process.
#include <cmath>

#include "tests/mpi/backward_ranks.hpp"
#include "tests/mpi/cases.hpp"
#include "tests/problem/random_backward.hpp"

using namespace heed_test;

namespace {

/// All gradients of a case; odd seeds add to what is there, and give a gradient of lse.
BackwardProblem gradients_of(const Case& c, std::uint64_t seed) {
  BackwardProblem p(made(c, seed), seed);
  p.want_all();
  if (seed % 2 == 1) p.give_grad_lse(seed + 7);
  if (seed % 2 == 1) p.accumulate(seed + 8);
  p.attend(plain_context());
  return p;
}

/// Small sweeps keep every eleventh split, of another kind for each problem.
bool keep_of_small(std::size_t index) { return !small() || index % 11 == 0; }

std::vector<Split> splits_of(const Problem& p, std::uint64_t seed) {
  return all_splits(p.query.shape()[2], p.key.shape()[2], seed);
}

/// Whether lse is float32 and too far from 0 for the keys of a rank, which are a part of its own.
bool lacks_digits(const Problem& p) {
  bool far = false;
  if (p.bias)
    p.bias->each([&](const Axes& at) {
      const double x = std::fabs(p.bias->get(at));
      far = far || (x > 1e5 && std::isfinite(x));
    });
  for (const double x : p.sinks.numbers) far = far || (std::fabs(x) > 1e5 && std::isfinite(x));
  return far && p.lse->dtype() == HEED_DTYPE_F32;
}

/// What gradients over ranks do not have, and what the random problems have.
bool over_ranks(const BackwardProblem& p) {
  const heed_attention_desc& d = p.forward.desc;
  const bool bottom_right =
      d.causal == HEED_CAUSAL_BOTTOM_RIGHT || d.alignment == HEED_ALIGNMENT_BOTTOM_RIGHT;
  const std::vector<std::int32_t>& q = p.forward.cu_seqlens_q;
  const std::vector<std::int32_t>& k = p.forward.cu_seqlens_k;
  if (q.empty() != k.empty() || p.forward.function.call != nullptr) return false;
  if (bottom_right && !p.forward.key_lengths.empty()) return false;
  if (lacks_digits(p.forward)) return false;
  if (q.empty()) return true;
  const auto all_rows = [](const std::vector<std::int32_t>& begins, std::int64_t rows) {
    return begins.front() == 0 && begins.back() == rows;
  };
  return all_rows(q, d.packed_queries) && all_rows(k, d.packed_keys) && !p.forward.mask &&
         !p.forward.bias;
}

}  // namespace

TEST_CASE("gradients of every option, split every way, around the ring and over heads") {
  std::uint64_t seed = 0;
  std::size_t index = 0;
  for (const Case& c : cases()) {
    INFO(c.name);
    BackwardProblem p = gradients_of(c, ++seed);
    const ExpectedGradients want = p.expected();
    for (const Split& split : splits_of(p.forward, seed)) {
      if (!keep_of_small(index++)) continue;
      check_backward_ranks(
          p, want, split, split.everywhere ? 0 : 1,
          ranks() == 1 && split.placement == HEED_MPI_CONTIGUOUS && p.forward.cu_seqlens_q.empty());
      for (std::int64_t by = 2; by <= ranks() && !split.everywhere; ++by)
        if (heads_may_be_shared(p.forward, by))
          check_backward_ranks(p, want, split, by, by == ranks() && p.forward.cu_seqlens_q.empty());
    }
  }
}

TEST_CASE("each gradient alone") {
  for (const GradientOf of : all_gradients()) {
    Problem problem(causal({50, 77, 8, 12, 1, 4, 2}, HEED_CAUSAL_OFFSET, 20));
    problem.fill(of);
    problem.slopes.numbers = {0.03, 0.1, 0.5, 0};
    problem.sinks.numbers = {1, 5, -2, 0};
    problem.add_bias({1, 4, 1, 77}).fill([](const Axes& x) { return x[3] % 5; });
    BackwardProblem p(std::move(problem), 3);
    p.want(of);
    p.attend(plain_context());
    check_backward_ranks(p, p.expected(), even_split(HEED_MPI_ZIGZAG, 50, 77), 0, false);
  }
}

TEST_CASE("gradients of masks and biases of packed rows") {
  TwoWords both = packed_and_masked(7);
  BackwardProblem p(std::move(both.masked), 8);
  p.want_all();
  p.attend(plain_context());
  BackwardProblem packed = p;
  packed.forward.mask->assign(*both.packed.mask);
  packed.forward.cu_seqlens_q = both.packed.cu_seqlens_q;
  packed.forward.cu_seqlens_k = both.packed.cu_seqlens_k;
  const ExpectedGradients want = p.expected();
  for (const Split& split : all_splits(60, 64, 7)) {
    BackwardShard shard(packed, split);
    check_backward_shard(p, shard, want, split, split.everywhere ? 0 : 1);
    for (std::int64_t by = 2; by <= ranks() && !split.everywhere; ++by)
      if (heads_may_be_shared(packed.forward, by)) check_backward_shard(p, shard, want, split, by);
  }
}

TEST_CASE("gradients of more rows than a slice has") {
  BackwardProblem p =
      gradients_of({"", causal({1100, 600, 8, 8, 1, 1, 1}, HEED_CAUSAL_OFFSET, -250)}, 3);
  check_backward_ranks(p, p.expected(), even_split(HEED_MPI_ZIGZAG, 1100, 600), 1, false);
}

TEST_CASE("gradients of random problems, split anyhow") {
  Random random(17);
  const std::size_t problems = count_forms(200);
  for (std::uint64_t seed = 0, checked = 0; checked < problems; ++seed) {
    BackwardProblem p = draw_backward(seed);
    if (!over_ranks(p)) continue;
    ++checked;
    INFO("seed " << seed);
    p.attend(plain_context());
    const std::vector<Split> all = splits_of(p.forward, seed);
    const Split& split =
        all[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(all.size()) - 1))];
    check_backward_ranks(p, p.expected(), split, 0, false, Unspecified::kAllowed);
  }
}
