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

/// Something that keeps rows from keys. Row i of item b of the query tensor attends row j of the
/// same item iff attends(b, h, i, j); where sequences are packed, b is 0.
struct Way {
  const char* name;
  void (*set)(Problem&);
  bool (*attends)(Index b, Index h, Index i, Index j);
  bool packed = false;
};

/// Blocks of rows and keys, with holes in them.
bool in_pattern(Index, Index h, Index i, Index j) {
  return (i / 5 + h + j / 130) % 2 == 0 && j % 7 != i % 7;
}

/// Two sequences, and rows around them that belong to neither.
constexpr std::int32_t kFirstQueries[] = {0, 9, 20};
constexpr std::int32_t kFirstKeys[] = {3, 131, 290};

bool share_sequence(Index, Index, Index i, Index j) {
  for (int b = 0; b < 2; ++b)
    if (kFirstQueries[b] <= i && i < kFirstQueries[b + 1])
      return kFirstKeys[b] <= j && j < kFirstKeys[b + 1];
  return false;
}

const Way kBias = {"bias of -inf",
                   [](Problem& p) {
                     p.add_bias(p.pairs()).fill([](const Axes& at) {
                       return in_pattern(0, at[1], at[2], at[3]) ? 0.25 : -kInfinity;
                     });
                   },
                   in_pattern};

const Way kPacked = {"packed neighbours", [](Problem&) {}, share_sequence, true};

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"mask",
       [](Problem& p) {
         p.add_mask(p.pairs()).fill(
             [](const Axes& at) { return in_pattern(0, at[1], at[2], at[3]); });
       },
       in_pattern},
      kBias,
      {"window", [](Problem& p) { set_window(p, 3, 2, 125); },
       [](Index, Index, Index i, Index j) { return i + 122 <= j && j <= i + 127; }},
      {"causal",
       [](Problem& p) {
         p.desc.causal = HEED_CAUSAL_OFFSET;
         p.desc.causal_offset = 120;
       },
       [](Index, Index, Index i, Index j) { return j <= i + 120; }},
      {"key lengths",
       [](Problem& p) {
         p.key_lengths = {2, 200};
       },
       [](Index b, Index, Index, Index j) { return j < (b == 0 ? 2 : 200); }},
      kPacked};
  return all;
}

Problem problem_of(const Way& way, const Types& types, std::uint64_t seed, float amplitude = 1) {
  Sizes sizes = {kQueries, kKeys, 9, 11};
  sizes.batch = 2;
  sizes.query_heads = 2;
  sizes.types = types;
  if (way.packed) {
    sizes.query_length = 11;
    sizes.key_length = 159;
    sizes.queries = {{std::begin(kFirstQueries), std::end(kFirstQueries)}, kQueries};
    sizes.keys = {{std::begin(kFirstKeys), std::end(kFirstKeys)}, kKeys};
  }
  Problem p = filled(sizes, seed, amplitude);
  way.set(p);
  return p;
}

/// Makes every score 1, those too that a bias of -inf has masked, and NaN.
struct Level {
  static constexpr const char* kName = "level";
  template <class Real>
  static Real change(Real, const Place&) {
    return 1;
  }
  template <class Real>
  static Real slope(Real, const Place&) {
    return 0;
  }
  static WideScore expect(const WideScore&, const Place&, long double) { return {1, 0}; }
  static WideScore expect_slope(const WideScore&, const Place&, long double) { return {0, 0}; }
};

/// What else may happen to scores on the way, each of which could let something through.
struct Path {
  const char* name;
  void (*prepare)(Problem&);
};

const std::vector<Path>& paths() {
  static const std::vector<Path> all = {
      {"plain", [](Problem& p) { want_all(p); }},
      {"hard",
       [](Problem& p) {
         p.desc.hard = 1;
         p.want_weights(HEED_WEIGHTS_PROBABILITIES);
       }},
      {"everything",
       [](Problem& p) {
         want_all(p);
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
         want_all(p);
         p.function = score_function<Level>();
       }},
      {"uniform", [](Problem& p) {
         want_all(p);
         p.desc.temperature = kInfinity;
         p.desc.softcap = 3;  // or infinite scores times 0 are NaN in the rows that see them
       }}};
  return all;
}

/// How many rows kept their bits, and how many see what was put there.
struct Rows {
  std::size_t kept = 0;
  std::size_t other = 0;
};

/// Rows for which sees(b, h, i) is false have the bits of `finite`.
template <class Sees>
Rows check_rows(const Problem& p, const Outputs& got, const Outputs& finite, Sees&& sees) {
  Rows rows;
  const Axes& shape = p.out.shape();
  const auto width = static_cast<std::size_t>(shape[3]);
  std::size_t row = 0;
  for (Index b = 0; b < shape[0]; ++b)
    for (Index h = 0; h < shape[1]; ++h)
      for (Index i = 0; i < shape[2]; ++i, ++row) {
        const bool seen = sees(b, h, i);
        ++(seen ? rows.other : rows.kept);
        bool same = !p.lse || got.lse.bits[row] == finite.lse.bits[row];
        for (std::size_t x = row * width; x < (row + 1) * width; ++x)
          same = same && got.out.bits[x] == finite.out.bits[x];
        if (!seen && !same) FAIL_CHECK("row [" << b << "," << h << "," << i << "] has other bits");
      }
  return rows;
}

/// Puts `special` into the keys or values where puts(index) says; rows that see none of it keep
/// their bits, and the others follow the oracle.
template <class Puts, class Sees>
Rows check_hidden(const Problem& p, Tensor Problem::*tensor, double special, Puts&& puts,
                  Sees&& sees, Unspecified unspecified) {
  INFO(special << " in a " << (tensor == &Problem::key ? "key" : "value"));
  Problem spoilt = p;
  const std::vector<Outputs> finite = run_everywhere(spoilt);
  spoilt.spoil(tensor, puts, is_scaled((p.*tensor).dtype()) ? kNaN : special);
  const Expected want = spoilt.expected_all();
  Rows rows;
  on_every_isa(spoilt, [&](const Outputs& got, std::size_t n) {
    check_outputs(spoilt, IsaContexts::name(n), got, want, unspecified);
    rows = check_rows(p, got, finite[n], sees);
  });
  return rows;
}

/// Puts `special` at all places; at the first only of one item.
void check_hidden(const Way& way, const Problem& p, Tensor Problem::*tensor, double special) {
  INFO(way.name);
  const Index width = (p.*tensor).shape()[3];
  const auto any_place = [](Index b, auto&& holds) {
    for (Index n = b == 0 ? 0 : 1; n < 3; ++n)
      if (holds(kPlaces[n])) return true;
    return false;
  };
  const auto puts = [&](const Axes& at) {
    return at[3] == (at[2] + 3) % width && any_place(at[0], [&](Index j) { return at[2] == j; });
  };
  const auto sees = [&](Index b, Index h, Index i) {
    return any_place(b, [&](Index j) { return way.attends(b, h, i, j); });
  };
  const Rows rows = check_hidden(p, tensor, special, puts, sees, Unspecified::kAllowed);
  CHECK(rows.kept > 0);
  CHECK(rows.other > 0);
}

constexpr double kSpecials[] = {kNaN, kInfinity, -kInfinity};

void check_way(const Way& way, const Kind& kind, const Path& path, std::size_t& index) {
  Problem p = problem_of(way, kind.types, 31, 0.8F);
  path.prepare(p);
  INFO(kind.name << ", " << path.name);
  for (const double special : kSpecials)
    for (Tensor Problem::*const tensor : {&Problem::key, &Problem::value})
      if (keep(index++)) check_hidden(way, p, tensor, special);
}

}  // namespace

TEST_CASE("nothing leaks from where a row may not look, in any type", "[leaks]") {
  std::size_t index = 0;
  for (const Way& way : ways())
    for (const Kind& kind : all_kinds()) check_way(way, kind, paths()[0], index);
}

TEST_CASE("nothing leaks from where a row may not look, however scores are made", "[leaks]") {
  std::size_t index = 0;
  for (const Way& way : ways())
    for (std::size_t n = 1; n < paths().size(); ++n)
      check_way(way, kinds()[n % 2], paths()[n], index);
}

TEST_CASE("a special number in a key or value reaches the rows that attend it alone", "[leaks]") {
  std::size_t index = 0;
  const auto check = [&](Index queries, Index keys, const Types& types) {
    for (Tensor Problem::*const tensor : {&Problem::value, &Problem::key}) {
      Sizes sizes = {queries, keys, 20, 24};
      sizes.types = types;
      Problem p = filled(sizes, 3);
      p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
      for (const double special : kSpecials)
        for (const Index row : {Index{0}, keys / 2, keys - 1}) {
          if (!keep(index++)) continue;
          const Index feature = (row + 3) % (p.*tensor).shape()[3];
          check_hidden(
              p, tensor, special, [&](const Axes& at) { return at[2] == row && at[3] == feature; },
              [&](Index, Index, Index i) { return attended(p.desc, i) > row; },
              Unspecified::kForbidden);
        }
    }
  };
  // Rows that see none, some and all of the places.
  for (const auto& [queries, keys] : std::vector<std::pair<Index, Index>>{
           {1, 5}, {2, 1100}, {4, 33}, {9, 9}, {30, 30}, {100, 40}, {80, 300}, {197, 197}}) {
    check(queries, keys, {});
    if (queries < 10)
      for (const Kind& kind : eight_bit_kinds()) check(queries, keys, kind.types);
  }
}

TEST_CASE("a bias that is not finite reaches nobody where something else masks it", "[leaks]") {
  std::size_t index = 0;
  for (const Way& way : ways()) {
    if (way.name == kBias.name || !keep(index++)) continue;
    INFO(way.name);
    Problem p = problem_of(way, {}, 32);
    want_all(p);
    Tensor& bias = p.add_bias(p.pairs());
    const std::vector<Outputs> finite = run_everywhere(p);
    // It counts rows and keys from the beginning of each sequence.
    bias.each([&](const Axes& at) {
      const Index i = at[2] + (way.packed ? kFirstQueries[at[0]] : 0);
      const Index j = at[3] + (way.packed ? kFirstKeys[at[0]] : 0);
      if (!way.attends(at[0], at[1], i, j)) bias.set(at, kSpecials[(at[2] + at[3]) % 3]);
    });
    check_same(p, finite);
    // Nor does it open a way for what lies in the values there.
    for (const double special : {kNaN, kInfinity}) check_hidden(way, p, &Problem::value, special);
  }
}

TEST_CASE("NaN in a packed query reaches its own row, and no other sequence", "[leaks]") {
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    Problem p = problem_of(kPacked, kind.types, 33);
    p.want_lse();
    const std::vector<Outputs> finite = run_everywhere(p);
    p.query.set({0, 1, 4, 2}, kNaN);   // of the first sequence
    p.query.set({0, 0, 20, 2}, kNaN);  // of none
    const Expected want = p.expected_all();
    on_every_isa(p, [&](const Outputs& got, std::size_t n) {
      check_outputs(p, IsaContexts::name(n), got, want);
      for (std::size_t h = 0; h < 2; ++h)
        for (std::size_t i = h * 21 + 9; i < h * 21 + 20; ++i)
          CHECK(got.lse.bits[i] == finite[n].lse.bits[i]);
    });
  }
}
