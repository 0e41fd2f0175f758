// Random lives of sequences, which also move as bytes: what they attend is what they should hold,
// at any time.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/cache/calls.hpp"
#include "tests/support/checks.hpp"

using namespace heed_test;

namespace {

std::size_t histories() {
  const char* const wanted = std::getenv("HEED_TEST_HISTORIES");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : count(400);
}

/// A cache, and the rows that its sequences should have.
struct Held {
  struct Sequence {
    heed_sequence id;
    std::vector<std::vector<double>> keys;  ///< given, of each layer, [row][head][feature]
    std::vector<std::vector<double>> values;
  };

  Index rows(const Sequence& s, Index layer) const {
    return static_cast<Index>(s.keys[static_cast<std::size_t>(layer)].size()) /
           (desc.key_heads * desc.features);
  }

  void create() {
    Sequence made;
    require_ok(heed_cache_sequence_create(cache.get(), &made.id));
    made.keys.resize(static_cast<std::size_t>(desc.layers));
    made.values.resize(static_cast<std::size_t>(desc.layers));
    sequences.push_back(made);
  }

  void fork(std::size_t i) {
    Sequence made = sequences[i];
    require_ok(heed_cache_fork(cache.get(), sequences[i].id, &made.id));
    sequences.push_back(made);
  }

  void free(std::size_t i) {
    require_ok(heed_cache_free(cache.get(), sequences[i].id));
    sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void truncate(std::size_t i, Index length) {
    require_ok(heed_cache_truncate(cache.get(), sequences[i].id, length));
    const auto resize = [&](std::vector<double>& all, Index features) {
      all.resize(static_cast<std::size_t>(length * desc.key_heads * features));
    };
    for (auto& keys : sequences[i].keys) resize(keys, desc.features);
    for (auto& values : sequences[i].values) resize(values, desc.value_features);
  }

  /// Appends random rows; false: the cache has no room.
  bool append(std::size_t i, Index layer, Index rows, Random& random) {
    const auto draw = [&](Index features) {
      const auto dtype =
          random.pick<std::uint32_t>({HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16});
      const auto arrangement =
          static_cast<Arrangement>(random.integer(1, static_cast<Index>(Arrangement::kCount) - 1));
      Tensor tensor = placed({1, desc.key_heads, rows, features}, arrangement, dtype, 0);
      tensor.fill([&] { return random.normal(); });
      return tensor;
    };
    const Tensor key = draw(desc.features);
    const Tensor value = draw(desc.value_features);
    const heed_status status =
        heed_test::append(cache, sequences[i].id, {layer}, key, value, 0, 0, rows);
    if (status == HEED_STATUS_OUT_OF_MEMORY) return false;
    require_ok(status);
    const auto hold = [&](std::vector<double>& all, const Tensor& given) {
      for (Index row = 0; row < rows; ++row)
        for (Index head = 0; head < desc.key_heads; ++head)
          for (Index x = 0; x < given.shape()[3]; ++x) all.push_back(given.get({0, head, row, x}));
    };
    hold(sequences[i].keys[static_cast<std::size_t>(layer)], key);
    hold(sequences[i].values[static_cast<std::size_t>(layer)], value);
    return true;
  }

  /// Random queries, `query_length` for each of some sequences, over what they should hold.
  Problem problem(const std::vector<std::size_t>& of, Index layer, Index query_length,
                  Index query_heads, Random& random) const {
    Index longest = 0;
    std::vector<std::int32_t> lengths;
    for (const std::size_t i : of) {
      lengths.push_back(static_cast<std::int32_t>(rows(sequences[i], layer)));
      longest = std::max<Index>(longest, lengths.back());
    }
    Sizes sizes = {query_length,
                   longest,
                   desc.features,
                   desc.value_features,
                   static_cast<Index>(of.size()),
                   query_heads,
                   desc.key_heads};
    sizes.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    Problem p(sizes);
    p.query.fill([&] { return random.normal(); });
    p.key_lengths = lengths;
    const auto hold = [&](Tensor Problem::*tensor,
                          std::vector<std::vector<double>> Sequence::*numbers) {
      Tensor given = p.*tensor;
      given.fill([&](const Axes& at) {
        const auto b = static_cast<std::size_t>(at[0]);
        if (at[2] >= lengths[b]) return 0.0;
        const auto& all = (sequences[of[b]].*numbers)[static_cast<std::size_t>(layer)];
        const Index place = (at[2] * desc.key_heads + at[1]) * given.shape()[3] + at[3];
        return all[static_cast<std::size_t>(place)];
      });
      store(p, tensor, given, desc);
    };
    hold(&Problem::key, &Sequence::keys);
    hold(&Problem::value, &Sequence::values);
    return p;
  }

  heed_cache_desc desc;
  Cache cache;
  std::vector<Sequence> sequences = {};
};

class History {
 public:
  History(const Context& context, std::uint64_t seed)
      : context_(context), random_(seed), held_(begun()) {
    for (Index i = random_.integer(1, 3); i-- > 0;) held_.create();
  }

  void live() {
    for (int step = 0; step < 24; ++step) {
      take_step();
      if (random_.integer(0, 2) == 0) look();
    }
    look();
    while (!held_.sequences.empty()) held_.free(draw_sequence());
    const heed_cache_info info = describe(held_.cache);
    CHECK(info.pages_used == 0);
    CHECK(info.pages_shared == 0);
    CHECK(info.sequences == 0);
  }

 private:
  Held begun() {
    const heed_cache_desc desc = draw_desc();
    return {desc, make_cache(context_, desc)};
  }

  heed_cache_desc draw_desc() {
    heed_cache_desc desc = HEED_CACHE_DESC_INIT;
    desc.dtype = draw_stored(random_);
    desc.layers = random_.integer(1, 3);
    desc.key_heads = random_.integer(1, 3);
    desc.features = random_.integer(1, 10);
    desc.value_features = random_.integer(1, 10);
    desc.page_rows = 16 * random_.integer(1, 2);
    desc.pages = random_.integer(4, 14);
    desc.sequences = 8;
    if (desc.dtype == HEED_DTYPE_F8_E4M3) desc.key_scale = 0.25, desc.value_scale = 3;
    return desc;
  }

  std::size_t draw_sequence() {
    return static_cast<std::size_t>(
        random_.integer(0, static_cast<Index>(held_.sequences.size()) - 1));
  }

  void take_step() {
    const Index kind = random_.integer(0, 9);
    const Index alive = static_cast<Index>(held_.sequences.size());
    if (alive == 0 || (kind == 0 && alive < held_.desc.sequences)) return held_.create();
    const std::size_t i = draw_sequence();
    if (kind == 1) return held_.free(i);
    if (kind <= 3 && alive < held_.desc.sequences) return held_.fork(i);
    if (kind == 4) return held_.truncate(i, random_.integer(0, shortest(i)));
    if (kind == 5) return move(i);
    append(i);
  }

  Index shortest(std::size_t i) const {
    Index shortest = INT64_MAX;
    for (Index layer = 0; layer < held_.desc.layers; ++layer)
      shortest = std::min(shortest, held_.rows(held_.sequences[i], layer));
    return shortest;
  }

  /// Saved, loaded into a cache of other pages, saved there, and loaded again beside what it was,
  /// where there is room. Only a sequence of equally long layers can be saved.
  void move(std::size_t i) {
    held_.truncate(i, shortest(i));
    const heed_sequence old = held_.sequences[i].id;
    const std::string bytes = saved(held_.cache, old);
    heed_cache_desc desc = held_.desc;
    desc.page_rows = 16 * random_.integer(1, 4);
    desc.pages = held_.desc.pages * 2;
    const Cache other = make_cache(context_, desc);
    heed_sequence there = 0;
    require_ok(heed_cache_load(other.get(), bytes.data(), bytes.size(), &there));
    CHECK((saved(other, there) == bytes));
    CHECK(describe(other).pages_used == (shortest(i) + desc.page_rows - 1) / desc.page_rows);
    const std::string more = bytes + "what lies behind does not matter";
    heed_sequence again = 0;
    const heed_status status = heed_cache_load(held_.cache.get(), more.data(), more.size(), &again);
    if (status == HEED_STATUS_OUT_OF_MEMORY) return;
    require_ok(status);
    require_ok(heed_cache_free(held_.cache.get(), old));
    held_.sequences[i].id = again;
  }

  /// To all layers alike, as models do, or to one alone.
  void append(std::size_t i) {
    const Index rows = random_.integer(0, random_.integer(0, 1) == 0 ? 3 : 50);
    if (random_.integer(0, 2) == 0)
      return append(i, random_.integer(0, held_.desc.layers - 1), rows);
    for (Index layer = 0; layer < held_.desc.layers; ++layer) append(i, layer, rows);
  }

  void append(std::size_t i, Index layer, Index rows) {
    const heed_cache_info before = describe(held_.cache);
    const Index page_rows = held_.desc.page_rows;
    const Index first = held_.rows(held_.sequences[i], layer) / page_rows;
    Index most = 0;  // pages of the sequence, before or after
    for (Index l = 0; l < held_.desc.layers; ++l)
      most = std::max(most, held_.rows(held_.sequences[i], l) + (l == layer ? rows : 0));
    most = (most + page_rows - 1) / page_rows;
    if (held_.append(i, layer, rows, random_)) return;
    const heed_cache_info after = describe(held_.cache);
    CHECK(after.pages_used == before.pages_used);
    CHECK(after.pages_shared == before.pages_shared);
    CHECK(before.pages - before.pages_used < most - first);  // or there was room
  }

  /// What some sequences attend, and what all have.
  void look() {
    const heed_cache_info info = describe(held_.cache);
    CHECK(info.sequences == static_cast<Index>(held_.sequences.size()));
    if (info.sequences < 2) CHECK(info.pages_shared == 0);
    for (const Held::Sequence& s : held_.sequences)
      for (Index layer = 0; layer < held_.desc.layers; ++layer) {
        Index length = -1;
        require_ok(heed_cache_length(held_.cache.get(), s.id, layer, &length));
        CHECK(length == held_.rows(s, layer));
      }
    if (held_.sequences.empty()) return;
    std::vector<std::size_t> of;
    for (Index n = random_.integer(1, 4); n-- > 0;) of.push_back(draw_sequence());
    const Index layer = random_.integer(0, held_.desc.layers - 1);
    const Index query_heads = held_.desc.key_heads * random_.integer(1, 2);
    Problem p = held_.problem(of, layer, random_.integer(1, 3), query_heads, random_);
    std::vector<heed_sequence> ids;
    for (const std::size_t i : of) ids.push_back(held_.sequences[i].id);
    check_same(line_of(p), attend(held_.cache, p, ids, {layer}), p.run_all(context_));
  }

  const Context& context_;
  Random random_;
  Held held_;
};

}  // namespace

TEST_CASE("sequences hold what they should, whatever becomes of others", "[cache]") {
  for (std::uint64_t seed = 1; seed <= histories(); ++seed) {
    INFO("seed " << seed);
    History(plain_contexts()[seed % plain_contexts().size()], seed).live();
  }
}
