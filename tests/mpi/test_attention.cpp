// Attention over ranks, and its gradients, are those of one process.
#include <cmath>

#include "tests/mpi/ranks.hpp"
#include "tests/problem/random_forms.hpp"

using namespace heed_test;

namespace {

/// Whether all scores are finite, and so near 0 that the log-sum-exps of ranks, which results are
/// merged by, have digits enough.
bool is_near(const Problem& p) {
  const double most = is_float64(p.desc) ? 100 : 1000;
  bool near = true;
  const auto add = [&](double x, double limit) { near = near && std::fabs(x) <= limit; };
  for (const double x : p.sinks.numbers) add(x == -kInfinity ? 0 : x, most);
  // Rows may stand far from all keys.
  const auto far =
      static_cast<double>(p.desc.causal_offset) + static_cast<double>(p.desc.alignment_offset);
  for (const double x : p.slopes.numbers) add(x * std::max(1.0, std::fabs(far)), most);
  if (p.bias)
    p.bias->each([&](const Axes& at) {
      const double x = p.bias->get(at);
      add(x == -kInfinity ? 0 : x, most);
    });
  for (const Tensor* const tensor : {&p.query, &p.key, &p.value})
    tensor->each([&](const Axes& at) { add(tensor->get(at), 1e38); });
  return near;
}

/// What attention over ranks does not have, and what the random problems have.
bool over_ranks(const Problem& p) {
  const heed_attention_desc& d = p.desc;
  const bool bottom_right =
      d.causal == HEED_CAUSAL_BOTTOM_RIGHT || d.alignment == HEED_ALIGNMENT_BOTTOM_RIGHT;
  const std::vector<std::int32_t>& q = p.cu_seqlens_q;
  const std::vector<std::int32_t>& k = p.cu_seqlens_k;
  if (q.empty() != k.empty() || p.function.call != nullptr || !is_near(p)) return false;
  for (const IndexList& list : kIndexLists)
    if (list.says_attended && !(p.*list.indices).empty()) return false;
  if (bottom_right && !p.key_lengths.empty()) return false;
  if (q.empty()) return true;
  const auto all_rows = [](const std::vector<std::int32_t>& begins, std::int64_t rows) {
    return begins.front() == 0 && begins.back() == rows;
  };
  return all_rows(q, d.packed_queries) && all_rows(k, d.packed_keys) && !p.mask && !p.bias;
}

/// Attention and its gradients, around the ring (0: as the plan chooses) and over heads, of a shard
/// of `split`; where that says the same as `whole` in other words, it is split itself.
void check_all(BackwardProblem& whole, BackwardProblem& split, const Split& by,
               Unspecified unspecified = Unspecified::kForbidden) {
  whole.attend(plain_context());
  split.forward.out.assign(whole.forward.out);
  split.forward.lse->assign(*whole.forward.lse);
  const Expected out = whole.forward.expected();
  const ExpectedGradients gradients = whole.expected();
  const std::int64_t key_heads = whole.forward.key.shape()[1];
  for (std::int64_t heads = 0; heads <= ranks(); ++heads) {
    if (heads > 0 && (by.everywhere || key_heads == 0)) break;
    if (heads > 0 && (key_heads % heads != 0 || ranks() % heads != 0)) continue;
    // All keys of a head on one rank, in order.
    const bool alone = heads == ranks() && split.forward.cu_seqlens_q.empty() &&
                       (ranks() > 1 || by.placement == HEED_MPI_CONTIGUOUS);
    Shard shard(split.forward, by);
    check_ranks(whole.forward, out, shard, heads, alone, unspecified);
    BackwardShard backward(split, by);
    check_backward_ranks(whole, gradients, backward, heads, alone, unspecified);
  }
}

void check_all(BackwardProblem& p, const Split& split) { check_all(p, p, split); }

BackwardProblem with_all_gradients(const Sizes& sizes) {
  Problem problem(sizes);
  problem.fill(3);
  BackwardProblem p(std::move(problem), 4);
  p.want_all();
  return p;
}

}  // namespace

TEST_CASE("random problems, split anyhow, around the ring and over heads") {
  Random random(17);
  const std::size_t problems = count_forms(640);
  for (std::uint64_t seed = 0, checked = 0; checked < problems; ++seed) {
    BackwardProblem p = draw_backward(seed, seed % 2 == 0 ? Lengths::kAny : Lengths::kShared);
    if (!over_ranks(p.forward)) continue;
    // Few are packed in queries and keys, so every fourth must be, and every eighth have lengths.
    const std::vector<std::int32_t>& begins = p.forward.cu_seqlens_k;
    if (checked % 4 == 3 && begins.empty()) continue;
    if (checked % 8 == 7 && p.forward.key_lengths.empty())
      for (std::size_t b = 0; b + 1 < begins.size(); ++b)
        p.forward.key_lengths.push_back(
            static_cast<std::int32_t>(random.integer(0, begins[b + 1] - begins[b])));
    if (!over_ranks(p.forward)) continue;  // with bottom-right positions no lengths may be
    ++checked;
    INFO("seed " << seed);
    const std::vector<Split> all =
        all_splits(p.forward.query.shape()[2], p.forward.key.shape()[2], seed);
    check_all(p, p, random.pick(all), Unspecified::kAllowed);
  }
}

TEST_CASE("nothing to attend, on any rank") {
  for (const Sizes& sizes : {Sizes{0, 23, 8, 8, 1, 2, 2}, Sizes{23, 0, 8, 8, 1, 2, 2},
                             Sizes{23, 23, 8, 8, 1, 0, 0}, Sizes{1, 1, 8, 8, 1, 2, 2}}) {
    Problem problem(sizes);
    problem.fill(3);
    problem.add_bias(problem.pairs());
    problem.sinks.numbers.assign(static_cast<std::size_t>(sizes.query_heads), 0.5);
    BackwardProblem p(std::move(problem), 4);
    p.want_all();
    for (const Split& split : all_splits(sizes.query_length, sizes.key_length, 1))
      check_all(p, split);
  }
}

TEST_CASE("NaN in keys and values that a row may not attend does not reach it") {
  BackwardProblem p = with_all_gradients({77, 77, 16, 16, 1, 2, 2, HEED_CAUSAL_TOP_LEFT});
  for (Tensor* const tensor : {&p.forward.key, &p.forward.value})
    tensor->set_where([](const Axes& at) { return at[2] >= 70; }, kNaN);
  for (const std::uint32_t placement : {HEED_MPI_CONTIGUOUS, HEED_MPI_ZIGZAG})
    check_all(p, even_split(placement, 77, 77));
}

TEST_CASE("masks and biases of packed rows") {
  // Two sequences, in two words: as rows whose mask keeps them apart, and as a packed batch with
  // the rest of the mask.
  Problem both({60, 64, 16, 12, 1, 4, 2});
  both.fill(6);
  Random random(6);
  both.add_mask(both.pairs()).fill([&] { return random.integer(0, 3) > 0; });
  both.add_bias({1, 4, 60, 64}).fill([&] { return random.normal(); });
  BackwardProblem masked(std::move(both), 8);
  masked.want_all();
  BackwardProblem packed = masked;
  masked.forward.mask->set_where([](const Axes& x) { return (x[2] < 25) != (x[3] < 30); }, 0);
  packed.forward.cu_seqlens_q = {0, 25, 60};
  packed.forward.cu_seqlens_k = {0, 30, 64};
  for (const Split& split : all_splits(60, 64, 6)) check_all(masked, packed, split);
}

TEST_CASE("dropout goes by places in the whole, packed or not") {
  Sizes sizes = {35, 34, 16, 12, 2, 4, 2};
  for (const bool packed : {false, true}) {
    if (packed) sizes.queries = {{0, 25, 60}}, sizes.keys = {{0, 30, 64}};
    Problem problem(sizes);
    problem.fill(6);
    problem.desc.dropout = 0.3;
    problem.dropout_seed = 7;
    problem.dropout_offset = 8;
    BackwardProblem p(std::move(problem), 8);
    p.want_all();
    for (const Split& split : all_splits(packed ? 60 : 35, packed ? 64 : 34, 6))
      check_all(p, split);
  }
}

TEST_CASE("more rows than a slice has") {
  Sizes sizes = {1100, 600, 8, 8};
  sizes.causal = HEED_CAUSAL_OFFSET;
  sizes.causal_offset = -250;
  BackwardProblem gradients = with_all_gradients(sizes);
  check_all(gradients, even_split(HEED_MPI_ZIGZAG, 1100, 600));
  Problem p({2500, 2500, 8, 8, 1, 1, 1, HEED_CAUSAL_TOP_LEFT});
  p.fill(3);
  p.want_lse();
  Shard shard(p, even_split(HEED_MPI_ZIGZAG, 2500, 2500));
  check_ranks(p, p.expected(), shard, 1, false);
}
