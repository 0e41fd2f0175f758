// Options that say in other words what others say.
#include "tests/dense/properties.hpp"

using namespace heed_test;

namespace {

/// A mask that allows what allows(i, j) does.
template <class Allows>
void spell_out(Problem& p, Allows&& allows) {
  p.add_mask({1, 1, p.desc.query_length, p.desc.key_length}).fill([&](const Axes& x) {
    return allows(x[2], x[3]);
  });
}

/// a says by other means what b says by a mask: the same but for rounding, and the same bits where
/// scores are more than products, for then masked keys are computed no other way than the rest.
void check_spelled_out(Problem& a, Problem& b) {
  check_equal(a, b);
  a.desc.softcap = b.desc.softcap = 5;
  check_same(a, b);
}

}  // namespace

// ---- One option by way of another ----

TEST_CASE("causal is the mask that spells it out", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const auto& [queries, keys] :
         std::vector<std::pair<Index, Index>>{{30, 200}, {60, 60}, {50, 20}, {1, 140}})
      for (const Index offset : {-7, 0, 20, 139}) {
        if (!keep(index++)) continue;
        Problem p = drawn(kind.types, 87, queries, keys);
        Problem q = drawn(kind.types, 87, queries, keys);
        p.desc.causal = HEED_CAUSAL_OFFSET;
        p.desc.causal_offset = offset;
        spell_out(q, [offset = offset](Index i, Index j) { return j <= i + offset; });
        check_spelled_out(p, q);
      }
}

TEST_CASE("bottom right is an offset", "[properties]") {
  for (const auto& [queries, keys] :
       std::vector<std::pair<Index, Index>>{{30, 200}, {50, 20}, {60, 60}}) {
    Problem p = drawn({}, 88, queries, keys);
    p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    Problem q = p;
    q.desc.causal = HEED_CAUSAL_OFFSET;
    q.desc.causal_offset = keys - queries;
    check_same(p, q);
    p.desc.causal = q.desc.causal = HEED_CAUSAL_NONE;
    q.desc.causal_offset = 0;
    p.slopes.numbers = q.slopes.numbers = {0.1, 0.2};
    p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    q.desc.alignment = HEED_ALIGNMENT_OFFSET;
    q.desc.alignment_offset = keys - queries;
    check_same(p, q);
  }
}

TEST_CASE("causal is a window with nothing to its right", "[properties]") {
  for (const Index left : {Index{-1}, Index{9}}) {
    Problem p = drawn({}, 89, 60, 200);
    p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    p.desc.window = 1;
    p.desc.window_left = left;
    p.desc.window_right = -1;
    Problem q = p;
    q.desc.causal = HEED_CAUSAL_NONE;
    q.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    q.desc.window_right = 0;
    check_same(p, q);
  }
}

TEST_CASE("a window is the mask that spells it out", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const auto& [left, right] :
         std::vector<std::pair<Index, Index>>{{0, 0}, {3, 5}, {-1, 4}, {40, -1}, {130, 20}})
      for (const Index offset : {-7, 0, 100, 170}) {
        if (!keep(index++)) continue;
        Problem p = drawn(kind.types, 90);
        Problem q = drawn(kind.types, 90);
        set_window(p, left, right, offset);
        spell_out(q, [=, left = left, right = right](Index i, Index j) {
          return (left < 0 || j >= i + offset - left) && (right < 0 || j <= i + offset + right);
        });
        check_spelled_out(p, q);
      }
}

TEST_CASE("masks, windows and causal must all allow", "[properties]") {
  for (const Kind& kind : exact_kinds()) {
    Problem p = drawn(kind.types, 91);
    p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    p.desc.window = 1;
    p.desc.window_left = 100;
    p.desc.window_right = 3;  // more than causal allows
    p.key_lengths = {190};    // which moves the bottom right
    spell_out(p, [](Index i, Index j) { return (i / 3 + j / 20) % 4 != 0; });
    Problem q = drawn(kind.types, 91);
    spell_out(q, [](Index i, Index j) {
      const Index position = i + 190 - kQueries;
      return (i / 3 + j / 20) % 4 != 0 && j <= position && j >= position - 100 && j < 190;
    });
    check_spelled_out(p, q);
  }
}

TEST_CASE("lengths are the mask that spells them out", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const std::int32_t length : {129, 1, 8, 127, 128, 199, 200}) {
      if (!keep(index++)) continue;
      Problem p = drawn(kind.types, 92);
      p.key_lengths = {length};
      Problem q = drawn(kind.types, 92);
      spell_out(q, [=](Index, Index j) { return j < length; });
      check_spelled_out(p, q);
    }
}

TEST_CASE("a mask is a bias of 0 and -inf", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const std::uint32_t dtype : {HEED_DTYPE_DEFAULT, HEED_DTYPE_F16}) {
      if (!keep(index++)) continue;
      Problem p = drawn(kind.types, 93);
      spell_out(p, [](Index i, Index j) { return (i / 4 + j / 30) % 3 != 0 && (i + j) % 5 != 0; });
      Problem q = drawn(kind.types, 93);
      q.add_bias({1, 1, kQueries, kKeys}, dtype).fill([&](const Axes& x) {
        return p.mask->get(x) == 0 ? -kInfinity : 0;
      });
      check_spelled_out(p, q);
    }
}

TEST_CASE("shared key heads are key heads repeated", "[properties]") {
  for (const Kind& kind : exact_kinds()) {
    Sizes sizes = {20, 150, 16, 12, 1, 6, 2};
    sizes.types = kind.types;
    Problem p = filled(sizes, 94);
    sizes.key_heads = 6;
    Problem q(sizes);
    q.query.assign(p.query);
    q.key.fill([&](const Axes& x) { return p.key.get({x[0], x[1] / 3, x[2], x[3]}); });
    q.value.fill([&](const Axes& x) { return p.value.get({x[0], x[1] / 3, x[2], x[3]}); });
    for (Problem* const problem : {&p, &q}) {
      want_all(*problem);
      problem->slopes.numbers = {0.01, 0.02, 0.03, 0.04, 0.05, 0.06};
      problem->sinks.numbers = {0, 1, 2, -1, -2, -3};
      problem->desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    }
    check_equal(p, q);
  }
}

TEST_CASE("the batch and the key heads around a row do not change its bits", "[properties]") {
  Problem all = filled({19, 150, 20, 24, 3, 4, 2}, 23);
  for (const char* const isa : isa_names()) {
    std::vector<std::uint64_t> apart;
    for (Index b = 0; b < 3; ++b)
      for (Index g = 0; g < 2; ++g) {
        Problem part({19, 150, 20, 24, 1, 2, 1});
        part.query.fill([&](const Axes& x) {
          return all.query.get({b, 2 * g + x[1], x[2], x[3]});
        });
        part.key.fill([&](const Axes& x) { return all.key.get({b, g, x[2], x[3]}); });
        part.value.fill([&](const Axes& x) { return all.value.get({b, g, x[2], x[3]}); });
        const std::vector<std::uint64_t> got = part.run_all(isa).out.bits;
        apart.insert(apart.end(), got.begin(), got.end());
      }
    INFO(isa);
    CHECK(all.run_all(isa).out.bits == apart);
  }
}
