// What is not finite in keys and values that a row may not attend does not reach it, whatever keeps
// the row from them and whatever the types.
#include <functional>

#include "tests/dense/kinds.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

constexpr Index kQueries = 21;
constexpr Index kKeys = 300;  // more than two steps

/// Where something that is not finite is put: rows of the keys and values.
constexpr Index kPlaces[] = {2, 131, 290};

/// Something that keeps rows from keys. Row i of item b of the query tensor attends row j of item
/// key_b of the key tensor iff attends(b, h, i, key_b, j); where sequences are packed, b is 0.
struct Way {
  const char* name;
  Problem (*make)(const Types&);
  bool (*attends)(Index b, Index h, Index i, Index key_b, Index j);
};

Sizes sizes_of(const Types& types) {
  Sizes sizes = {kQueries, kKeys, 9, 11};
  sizes.batch = 2;
  sizes.query_heads = 2;
  sizes.types = types;
  return sizes;
}

/// Blocks of rows and keys, with holes in them.
bool in_pattern(Index h, Index i, Index j) {
  return (i / 5 + h + j / 130) % 2 == 0 && j % 7 != i % 7;
}

Problem masked(const Types& types) {
  Problem p(sizes_of(types));
  Tensor& mask = p.add_mask({1, 2, kQueries, kKeys});
  mask.each([&](const Axes& at) { mask.set(at, in_pattern(at[1], at[2], at[3]) ? 1 : 0); });
  return p;
}

Problem biased(const Types& types) {
  Problem p(sizes_of(types));
  Tensor& bias = p.add_bias({1, 2, kQueries, kKeys});
  bias.each(
      [&](const Axes& at) { bias.set(at, in_pattern(at[1], at[2], at[3]) ? 0.25 : -kInfinity); });
  return p;
}

Problem windowed(const Types& types) {
  Problem p(sizes_of(types));
  p.desc.window = 1;
  p.desc.window_left = 3;
  p.desc.window_right = 2;
  p.desc.alignment = HEED_ALIGNMENT_OFFSET;
  p.desc.alignment_offset = 125;
  return p;
}

Problem causal(const Types& types) {
  Sizes sizes = sizes_of(types);
  sizes.causal = HEED_CAUSAL_OFFSET;
  sizes.causal_offset = 120;
  return Problem(sizes);
}

Problem shortened(const Types& types) {
  Problem p(sizes_of(types));
  p.key_lengths = {2, 200};
  return p;
}

/// Two sequences, and rows around them that belong to neither.
constexpr std::int32_t kFirstQueries[] = {0, 9, 20};
constexpr std::int32_t kFirstKeys[] = {3, 131, 290};

Problem packed(const Types& types) {
  Sizes sizes = sizes_of(types);
  sizes.query_length = 11;
  sizes.key_length = 159;
  sizes.queries = {{std::begin(kFirstQueries), std::end(kFirstQueries)}, kQueries};
  sizes.keys = {{std::begin(kFirstKeys), std::end(kFirstKeys)}, kKeys};
  return Problem(sizes);
}

bool share_sequence(Index i, Index j) {
  for (int b = 0; b < 2; ++b)
    if (kFirstQueries[b] <= i && i < kFirstQueries[b + 1])
      return kFirstKeys[b] <= j && j < kFirstKeys[b + 1];
  return false;
}

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"mask", masked,
       [](Index b, Index h, Index i, Index key_b, Index j) {
         return b == key_b && in_pattern(h, i, j);
       }},
      {"bias of -inf", biased,
       [](Index b, Index h, Index i, Index key_b, Index j) {
         return b == key_b && in_pattern(h, i, j);
       }},
      {"window", windowed,
       [](Index b, Index, Index i, Index key_b, Index j) {
         return b == key_b && i + 122 <= j && j <= i + 127;
       }},
      {"causal", causal,
       [](Index b, Index, Index i, Index key_b, Index j) { return b == key_b && j <= i + 120; }},
      {"key lengths", shortened,
       [](Index b, Index, Index, Index key_b, Index j) {
         return b == key_b && j < (b == 0 ? 2 : 200);
       }},
      {"packed neighbours", packed,
       [](Index, Index, Index i, Index, Index j) { return share_sequence(i, j); }}};
  return all;
}

/// Makes every score 1, those too that a bias of -inf has masked, and NaN.
struct Level {
  static constexpr const char* kName = "level";
  template <class Real>
  static Real change(Real, const heed_test::Place&) {
    return 1;
  }
  static WideScore expect(const WideScore&, const heed_test::Place&, long double) { return {1, 0}; }
};

/// What else may happen to scores on the way, each of which could let something through.
struct Path {
  const char* name;
  void (*prepare)(Problem&);
};

void ask(Problem& p) {
  p.want_lse();
  p.want_weights(HEED_WEIGHTS_PROBABILITIES);
  p.want_column_sums();
}

const std::vector<Path>& paths() {
  static const std::vector<Path> all = {
      {"plain", ask},
      {"hard",
       [](Problem& p) {
         p.desc.hard = 1;
         p.want_weights(HEED_WEIGHTS_PROBABILITIES);
       }},
      {"everything",
       [](Problem& p) {
         ask(p);
         p.desc.softcap = 3;
         p.desc.temperature = 0.5;
         if (p.desc.causal == HEED_CAUSAL_NONE && p.desc.alignment == 0)
           p.desc.alignment = HEED_ALIGNMENT_TOP_LEFT;
         p.slopes.numbers = {0.01, 0.02};
         p.sinks.numbers = {0.5, -1};
         p.function = score_function<Halve>();
       }},
      {"a function that makes everything finite",
       [](Problem& p) {
         ask(p);
         p.function = score_function<Level>();
       }},
      {"uniform", [](Problem& p) {
         ask(p);
         p.desc.temperature = kInfinity;
         p.desc.softcap = 3;  // or infinite scores times 0 are NaN in the rows that see them
       }}};
  return all;
}

/// Whether item key_b of the keys gets something at place n: one item at the first, all at the
/// rest.
bool is_planted(Index n, Index key_b) { return n > 0 || key_b == 0; }

void plant(Tensor& tensor, double special) {
  tensor.each([&](const Axes& at) {
    for (Index n = 0; n < 3; ++n)
      if (at[2] == kPlaces[n] && is_planted(n, at[0]) && at[3] == (at[2] + 3) % tensor.shape()[3])
        tensor.set(at, special);
  });
}

bool sees_a_place(const Way& way, const Tensor& keys, Index b, Index h, Index i) {
  for (Index key_b = 0; key_b < keys.shape()[0]; ++key_b)
    for (Index n = 0; n < 3; ++n)
      if (is_planted(n, key_b) && way.attends(b, h, i, key_b, kPlaces[n])) return true;
  return false;
}

/// Rows that see no place keep the bits that they have with finite numbers there. How many there
/// are of them, and of the others.
struct Rows {
  std::size_t kept = 0;
  std::size_t other = 0;
};

Rows check_rows(const Way& way, const Problem& p, const Outputs& got, const Outputs& finite) {
  Rows rows;
  const Axes& shape = p.out.shape();
  const auto width = static_cast<std::size_t>(shape[3]);
  std::size_t row = 0;
  for (Index b = 0; b < shape[0]; ++b)
    for (Index h = 0; h < shape[1]; ++h)
      for (Index i = 0; i < shape[2]; ++i, ++row) {
        if (sees_a_place(way, p.key, b, h, i)) {
          ++rows.other;
          continue;
        }
        ++rows.kept;
        bool same = !p.lse || got.lse.bits[row] == finite.lse.bits[row];
        for (std::size_t x = row * width; x < (row + 1) * width; ++x)
          same = same && got.out.bits[x] == finite.out.bits[x];
        if (!same) FAIL_CHECK("row [" << b << "," << h << "," << i << "] has other bits");
      }
  return rows;
}

/// Plants `special` in the keys or values; the rows that attend it follow the oracle.
void check_hidden(const Way& way, Problem& p, Tensor& tensor, double special,
                  const IsaContexts& contexts) {
  std::vector<Outputs> finite;
  for (std::size_t n = 0; n < contexts.size(); ++n) finite.push_back(p.run_all(contexts[n]));
  const Tensor before = tensor;
  plant(tensor, special);
  const Expected want = p.expected_all();
  for (std::size_t n = 0; n < contexts.size(); ++n) {
    INFO(IsaContexts::name(n));
    const Outputs got = p.run_all(contexts[n]);
    check_outputs(p, IsaContexts::name(n), got, want, Unspecified::kAllowed);
    const Rows rows = check_rows(way, p, got, finite[n]);
    CHECK(rows.kept > 0);
    CHECK(rows.other > 0);
  }
  before.each([&](const Axes& at) { tensor.set(at, before.get(at)); });
}

void check_way(const Way& way, const Kind& kind, const Path& path, const IsaContexts& contexts,
               std::size_t& index) {
  Problem p = way.make(kind.types);
  p.fill(31, 0.8F);
  path.prepare(p);
  for (const double special : {kNaN, kInfinity, -kInfinity})
    for (Tensor* const tensor : {&p.key, &p.value}) {
      if (!keep(index++)) continue;
      INFO(way.name << ", " << kind.name << ", " << path.name << ": " << special << " in a "
                    << (tensor == &p.key ? "key" : "value"));
      check_hidden(way, p, *tensor, special, contexts);
    }
}

}  // namespace

TEST_CASE("nothing leaks from where a row may not look, in any type", "[leaks]") {
  const IsaContexts contexts;
  std::size_t index = 0;
  for (const Way& way : ways())
    for (const Kind& kind : kinds()) check_way(way, kind, paths()[0], contexts, index);
}

TEST_CASE("nothing leaks from where a row may not look, however scores are made", "[leaks]") {
  const IsaContexts contexts;
  std::size_t index = 0;
  for (const Way& way : ways())
    for (std::size_t n = 1; n < paths().size(); ++n)
      check_way(way, kinds()[n % 2], paths()[n], contexts, index);
}

/// Fills a bias with what is not finite wherever something else keeps the row from the key. It
/// counts rows and keys from the beginning of each sequence.
void spoil_bias(const Way& way, Problem& p) {
  const bool is_packed = p.desc.packed_keys > 0;
  Tensor& bias = p.add_bias(p.pairs());
  bias.each([&](const Axes& at) {
    const Index i = at[2] + (is_packed ? kFirstQueries[at[0]] : 0);
    const Index j = at[3] + (is_packed ? kFirstKeys[at[0]] : 0);
    const Index b = is_packed ? 0 : at[0];
    const Index choice = (at[2] + at[3]) % 3;
    const double special = choice == 0 ? kNaN : choice == 1 ? kInfinity : -kInfinity;
    if (!way.attends(b, at[1], i, b, j)) bias.set(at, special);
  });
}

TEST_CASE("a bias that is not finite reaches nobody where something else masks it", "[leaks]") {
  const IsaContexts contexts;
  std::size_t index = 0;
  for (const Way& way : ways()) {
    if (way.make == biased || !keep(index++)) continue;
    Problem p = way.make({});
    p.fill(32);
    ask(p);
    p.add_bias(p.pairs());
    std::vector<Outputs> finite;
    for (std::size_t n = 0; n < contexts.size(); ++n) finite.push_back(p.run_all(contexts[n]));
    spoil_bias(way, p);
    for (std::size_t n = 0; n < contexts.size(); ++n)
      check_same(std::string(way.name) + ", " + IsaContexts::name(n), p.run_all(contexts[n]),
                 finite[n]);
    // Nor does it open a way for what lies in the values there.
    for (const double special : {kNaN, kInfinity}) {
      INFO(way.name << ": " << special << " in a value");
      check_hidden(way, p, p.value, special, contexts);
    }
  }
}

TEST_CASE("NaN in a packed query reaches its own row, and no other sequence", "[leaks]") {
  const IsaContexts contexts;
  for (const Kind& kind : kinds()) {
    Problem p = packed(kind.types);
    p.fill(33);
    p.want_lse();
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      INFO(kind.name << ", " << IsaContexts::name(n));
      p.fill(33);
      const Outputs finite = p.run_all(contexts[n]);
      p.query.set({0, 1, 4, 2}, kNaN);   // of the first sequence
      p.query.set({0, 0, 20, 2}, kNaN);  // of none
      const Outputs got = p.run_all(contexts[n]);
      check_outputs(p, IsaContexts::name(n), got, p.expected_all());
      for (std::size_t h = 0; h < 2; ++h)
        for (std::size_t i = 9; i < 20; ++i)
          CHECK(got.lse.bits[h * 21 + i] == finite.lse.bits[h * 21 + i]);
    }
  }
}
