// Attention over ranks, and its gradients, are those of one process.
#include <cmath>

#include "tests/mpi/ranks.hpp"
#include "tests/oracle/dropout.hpp"
#include "tests/oracle/rounding.hpp"
#include "tests/problem/random_problems.hpp"

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

/// What is off by more than in one process. There a term of the softmax is off by 1 + a_j at most,
/// in numerator and denominator alike (oracle/softmax.hpp); so it is in a part, whose sums are
/// shorter, row_max lower and moves fewer. A part is normalised and rounded, gamma(3), and then
/// multiplied with its own denominator again, which so cancels; every merge rounds once more, to
/// the arithmetic's type, numbers that are at most the largest value. Those in float64, of
/// log-sum-exps, are four a merge.
std::vector<Element> widened(std::vector<Element> elements, double merges, double largest,
                             double unit) {
  for (Element& e : elements)
    if (e.bound > 0) e.bound += (merges + 3) * unit * largest * 1.01;
  return elements;
}

double largest_of(const Tensor& tensor) {
  double largest = 0;
  tensor.each([&](const Axes& at) {
    const double x = std::fabs(tensor.get(at));
    if (std::isfinite(x)) largest = std::max(largest, x);
  });
  return largest;
}

/// Whether a run is made again with threads: always on up to three ranks, every fourth time on
/// more, which share few processors.
bool again_with_threads() {
  static int asked = 0;
  return ranks() <= 3 || asked++ % 4 == 0;
}

/// Bits of NaN and zeros aside: sums over ranks begin as 0, and 0 + -0 is 0.
bool same_numbers(const Numbers& a, const Numbers& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i)
    same = a.bits[i] == b.bits[i] || a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
  return same;
}

/// Whether all ranks have these bits.
bool same_on_all_ranks(const Numbers& numbers) {
  std::string bits;
  for (const std::uint64_t b : numbers.bits) bits += std::to_string(b) + " ";
  return same_everywhere(bits);
}

/// Runs a shard and compares its rows with the oracle's of the whole, which are `expected`.
/// `same_bits`: they must also be those of the whole in one process.
void check_ranks(Problem& whole, const Expected& expected, Shard& shard, std::int64_t head_ranks,
                 bool same_bits, Unspecified unspecified = Unspecified::kForbidden) {
  INFO(shard.line(head_ranks) << line_of(whole));
  const Outputs got = shard.run(plain_context(), head_ranks);
  if (again_with_threads())
    CHECK(heed_test::same_bits(got, shard.run(threaded_context(), head_ranks)));
  const Expected& want = expected.on(isa_names().back());
  auto spans = static_cast<double>(whole.cu_seqlens_k.size());
  for (const std::vector<std::int64_t>& positions : shard.split.keys)
    for (std::size_t i = 0; i < positions.size(); ++i)
      spans += i == 0 || positions[i] != positions[i - 1] + 1 ? 1 : 0;
  const double unit = is_float64(whole.desc) ? 0x1p-53 : kUnit;
  const Axes shape = shard.problem.out.shape();
  check_elements("out", got.out,
                 widened(shard.rows_of(want.out, shape[3]), spans,
                         largest_of(whole.value) / dropout_keeps(whole.desc.dropout), unit),
                 unspecified);
  if (whole.lse) {
    double largest = 1;
    for (const Element& e : want.lse)
      if (std::isfinite(e.value)) largest = std::max(largest, std::fabs(e.value));
    check_elements("lse", got.lse,
                   widened(shard.rows_of(want.lse, 1), 4 * spans, 4 * largest, 0x1p-53),
                   unspecified);
  }
  if (!same_bits) return;
  const Outputs alone = whole.run_all(plain_context());
  CHECK(same_numbers(got.out, {got.out.dtype, shard.rows_of(alone.out.bits, shape[3])}));
  if (!whole.lse) return;
  CHECK(same_numbers(got.lse, {got.lse.dtype, shard.rows_of(alone.lse.bits, 1)}));
}

/// Runs a shard and compares its gradients with the oracle's of the whole, which are `want`.
/// `same_bits`: those of queries, keys and values must be the ones of one process.
///
/// Sums over ranks are sums in some order, whose terms are those of one process; each has been
/// multiplied with its factor before it is added instead of after, one rounding, of the three that
/// the oracle allows to its terms and a run here does not make (oracle/gradient.hpp). What is 0
/// outside a rank's keys adds nothing. So the bounds of one process hold.
void check_backward_ranks(BackwardProblem& whole, const ExpectedGradients& want,
                          BackwardShard& shard, std::int64_t head_ranks, bool same_bits,
                          Unspecified unspecified) {
  INFO(shard.attention.line(head_ranks) << line_of(whole));
  const Gradients got = shard.run(plain_context(), head_ranks);
  if (again_with_threads())
    CHECK(heed_test::same_bits(got, shard.run(threaded_context(), head_ranks)));
  for (const GradientOf of : all_gradients())
    if (shard.problem.gradients[of])
      check_elements(std::string("gradients, gradient of ") + name_of(of), got[of],
                     shard.part_of(of, want.on(isa_names().back())[of]), unspecified);
  for (const GradientOf of : {kGradSinks, kGradSlopes, kGradScale, kGradTemperature})
    CHECK(same_on_all_ranks(got[of]));
  if (shard.attention.split.everywhere) CHECK(same_on_all_ranks(got[kGradQuery]));
  if (shard.attention.split.everywhere ||
      (whole.forward.bias && whole.forward.bias->shape()[2] == 1))
    CHECK(same_on_all_ranks(got[kGradBias]));
  if (!same_bits) return;
  const Gradients alone = whole.run(plain_context());
  for (const GradientOf of : {kGradQuery, kGradKey, kGradValue})
    CHECK(same_numbers(got[of], {alone[of].dtype, shard.part_of(of, alone[of].bits)}));
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
    p.forward.dropout_origin.clear();  // ranks have their own
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
