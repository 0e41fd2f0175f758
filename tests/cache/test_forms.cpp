// Attention over sequences of a cache has the bits of attention over the same keys and values side
// by side, with every option, whatever the pages they lie in and the portions they came in.
#include <algorithm>

#include "tests/cache/held.hpp"
#include "tests/dense/kinds.hpp"
#include "tests/dense/random_forms.hpp"
#include "tests/support/sweep.hpp"

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
    require_ok(append(cache, sequence, 0, p.key, p.value, 0, 0, 1));
  }
  for (; !all.empty(); all.pop_back()) {
    const auto last = static_cast<Index>(all.size()) - 1;
    std::swap(all[static_cast<std::size_t>(random.integer(0, last))], all.back());
    require_ok(heed_cache_free(cache.get(), all.back()));
  }
}

/// The sequences of a problem's batch, appended in turns.
std::vector<heed_sequence> fill(const Cache& cache, const Problem& p, Index layer, Random& random) {
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
      require_ok(
          append(cache, sequences[b], layer, p.key, p.value, batch, done[b], done[b] + rows));
      done[b] += rows;
      more = more || rows < left;
    }
  }
  return sequences;
}

/// Whether there was something to see.
bool check_cached(Problem& p, std::uint64_t seed) {
  if (p.desc.packed_keys > 0 || is_float64(p.desc) || p.desc.batch == 0) return false;
  Random random(seed);
  const auto dtype = random.pick<std::uint32_t>({HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16});
  Problem q = p;
  q.key = as_stored(p.key, dtype);
  q.value = as_stored(p.value, dtype);
  q.desc.key = q.key.layout();
  q.desc.value = q.value.layout();
  Index longest = 0;
  for (Index b = 0; b < p.desc.batch; ++b) longest = std::max(longest, length_of(p, b));
  const bool told = longest < p.desc.key_length || random.integer(0, 1) == 0;
  const Index page_rows = 16 * random.integer(1, 5);
  const Index pages = p.desc.batch * (p.desc.key_length / page_rows + 1);
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    heed_cache_desc desc = cache_for(p, dtype, page_rows, pages);
    desc.layers = 2;
    const Cache cache = make_cache(plain_contexts()[n], desc);
    if (p.desc.key_length > 0) shuffle_pages(cache, p, random);
    const Index layer = random.integer(0, 1);
    const std::vector<heed_sequence> sequences = fill(cache, p, layer, random);
    const std::string what = IsaContexts::name(n) + (": " + line_of(p));
    const Outputs got = attend(cache, p, sequences, layer, told ? p.desc.key_length : 0);
    if (!check_same(what, got, q.run_all(plain_contexts()[n]))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("keys in a cache have the bits of keys side by side", "[cache][same]") {
  check_drawn<RandomForms>(300, 100, check_cached);
  check_drawn<LongForms>(40, 10, check_cached);
}
