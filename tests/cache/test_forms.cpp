// Attention over sequences of a cache has the bits of attention over the same keys and values side
// by side, with every option, whatever the pages they lie in and the portions they came in.
#include <algorithm>

#include "tests/cache/calls.hpp"
#include "tests/problem/attention.hpp"
#include "tests/problem/random_problems.hpp"
#include "tests/support/checks.hpp"

using namespace heed_test;

namespace {

Index length_of(const Problem& p, Index b) {
  return p.key_lengths.empty() ? p.desc.key_length : p.key_lengths[static_cast<std::size_t>(b)];
}

/// Sequences that end and leave pages free in an odd order.
void shuffle_pages(const Cache& cache, const Problem& p, Random& random) {
  const Index pages = describe(cache).pages;
  std::vector<heed_sequence> all(static_cast<std::size_t>(pages));
  for (heed_sequence& sequence : all) {
    require_ok(heed_cache_sequence_create(cache.get(), &sequence));
    require_ok(append(cache, sequence, Call{}, p.key, p.value, 0, 0, 1));
  }
  for (; !all.empty(); all.pop_back()) {
    const auto last = static_cast<Index>(all.size()) - 1;
    std::swap(all[static_cast<std::size_t>(random.integer(0, last))], all.back());
    require_ok(heed_cache_free(cache.get(), all.back()));
  }
}

/// The sequences of a problem's batch, appended in turns.
std::vector<heed_sequence> fill(const Cache& cache, const Problem& p, const Call& call,
                                Random& random) {
  std::vector<heed_sequence> sequences(static_cast<std::size_t>(p.desc.batch));
  for (heed_sequence& sequence : sequences)
    require_ok(heed_cache_sequence_create(cache.get(), &sequence));
  std::vector<Index> done(sequences.size(), 0);
  const Index most = random.pick<Index>({1, 5, 40, 10000});
  for (bool more = true; more;) {
    more = false;
    for (std::size_t b = 0; b < sequences.size(); ++b) {
      const auto batch = static_cast<Index>(b);
      const Index left = length_of(p, batch) - done[b];
      const Index rows = std::min(left, random.integer(0, most));
      Call portion = call;
      if (!call.positions.empty())
        portion.positions.erase(portion.positions.begin(),
                                portion.positions.begin() + batch * p.desc.key_length + done[b]);
      require_ok(
          append(cache, sequences[b], portion, p.key, p.value, batch, done[b], done[b] + rows));
      done[b] += rows;
      more = more || rows < left;
    }
  }
  return sequences;
}

/// Rotary embedding and where rows stand, if a cache has it: with an offset, or positions of rows
/// of keys, [batch][row], and of queries.
struct Turns {
  heed_rotary rotary = HEED_ROTARY_INIT;
  Index offset = 0;
  std::vector<Index> keys, queries;

  static Turns draw(const Problem& p, Random& random) {
    Turns turns;
    const Index features = p.key.shape()[3];
    if (features < 2 || random.integer(0, 2) == 0) return turns;
    turns.rotary.pairs = random.pick<std::uint32_t>({HEED_ROTARY_HALVES, HEED_ROTARY_INTERLEAVED});
    turns.rotary.features = 2 * random.integer(features % 2, features / 2);
    if (turns.rotary.features == 0 && features % 2 != 0) turns.rotary.features = 2;
    turns.rotary.base = random.pick<double>({0, 500});
    // So that no query stands before 0, however many there are.
    turns.offset = p.desc.query_length + random.integer(0, 9);
    if (random.integer(0, 1) == 0) return turns;
    turns.offset = 0;
    const auto draw_all = [&](std::vector<Index>& all, const Tensor& tensor) {
      all.resize(static_cast<std::size_t>(tensor.shape()[0] * tensor.shape()[2]));
      for (Index& position : all) position = random.integer(0, 5000);
    };
    draw_all(turns.keys, p.key);
    draw_all(turns.queries, p.query);
    return turns;
  }

  bool any() const { return rotary.pairs != HEED_ROTARY_NONE; }

  /// Where query row i of item b stands.
  std::vector<Index> of_queries(const Problem& p) const {
    if (!queries.empty()) return queries;
    std::vector<Index> all(static_cast<std::size_t>(p.query.shape()[0] * p.query.shape()[2]), 0);
    for (Index b = 0; b < p.desc.batch; ++b) {
      const bool packed = p.desc.packed_queries > 0;
      const auto n = static_cast<std::size_t>(b);
      const Index begin = packed ? p.cu_seqlens_q[n] : b * p.desc.query_length;
      const Index rows = packed ? p.cu_seqlens_q[n + 1] - begin : p.desc.query_length;
      for (Index i = 0; i < rows; ++i)
        all[static_cast<std::size_t>(begin + i)] = length_of(p, b) - rows + i + offset;
    }
    return all;
  }
};

/// A tensor as float32, with its rows turned.
Tensor turned(const Context& context, const Tensor& from, const Turns& turns,
              const std::vector<Index>& positions) {
  Tensor to = placed(from.shape(), Arrangement::kContiguous, HEED_DTYPE_F32, 0);
  heed_rotate_desc desc = HEED_ROTATE_DESC_INIT;
  desc.batch = from.shape()[0];
  desc.heads = from.shape()[1];
  desc.rows = from.shape()[2];
  desc.features = from.shape()[3];
  desc.from = from.layout();
  desc.from.reserved = HEED_STRIDES_EXPLICIT;
  desc.to = to.layout();
  desc.rotary = turns.rotary;
  desc.position = positions.empty() ? turns.offset : 0;
  require_ok(heed_rotate(context.get(), &desc, from.data(),
                         positions.empty() ? nullptr : positions.data(), to.data()));
  return to;
}

/// The problem with the numbers that a cache multiplies.
Problem as_multiplied(const Context& context, const Problem& p, const heed_cache_desc& desc,
                      const Turns& turns) {
  Problem q = p;
  store(q, &Problem::key, turns.any() ? turned(context, p.key, turns, turns.keys) : p.key, desc);
  store(q, &Problem::value, p.value, desc);
  if (!turns.any()) return q;
  q.query = turned(context, p.query, turns, turns.of_queries(p));
  q.desc.query = q.query.layout();
  return q;
}

heed_cache_desc draw_desc(const Problem& p, Random& random) {
  heed_cache_desc desc = HEED_CACHE_DESC_INIT;
  desc.dtype = draw_stored(random);
  if (desc.dtype == HEED_DTYPE_F8_E4M3 && random.integer(0, 1) == 0) {
    desc.key_scale = 0.02;
    desc.value_scale = 0.3;
  }
  desc.layers = 2;
  desc.key_heads = p.key.shape()[1];
  desc.features = p.key.shape()[3];
  desc.value_features = p.value.shape()[3];
  desc.page_rows = 16 * random.integer(1, 5);
  desc.pages = p.desc.batch * (p.desc.key_length / desc.page_rows + 1);
  return desc;
}

/// Whether there was something to see.
bool check_cached(Problem& p, std::uint64_t seed) {
  if (p.desc.packed_keys > 0 || is_float64(p.desc) || p.desc.batch == 0) return false;
  if (p.key_scales || p.value_scales) return false;  // nothing to append
  p = contiguous(p);
  Random random(seed);
  heed_cache_desc desc = draw_desc(p, random);
  const Turns turns = Turns::draw(p, random);
  desc.rotary = turns.rotary;
  Index longest = 0;
  for (Index b = 0; b < p.desc.batch; ++b) longest = std::max(longest, length_of(p, b));
  const bool told = longest < p.desc.key_length || random.integer(0, 1) == 0;
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    const Context& context = plain_contexts()[n];
    const Cache cache = make_cache(context, desc);
    if (p.desc.key_length > 0) shuffle_pages(cache, p, random);
    Call call;
    call.layer = random.integer(0, 1);
    call.key_length = told ? p.desc.key_length : 0;
    call.offset = turns.offset;
    call.positions = turns.keys;
    const std::vector<heed_sequence> sequences = fill(cache, p, call, random);
    const std::string what = IsaContexts::name(n) +
                             (": in " + std::string(name_of_dtype(desc.dtype))) + ": " + line_of(p);
    call.positions = turns.queries;
    const Outputs got = attend(cache, p, sequences, call);
    Problem q = as_multiplied(context, p, desc, turns);
    if (!check_same(what, got, q.run_all(context))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("keys in a cache have the bits of keys side by side", "[cache][same]") {
  check_drawn(300, 100, drawn<Lengths::kAny>, check_cached);
  check_drawn(40, 10, drawn<Lengths::kLong>, check_cached);
  check_drawn(600, 100, drawn<Lengths::kFew>, check_cached);
}
